"""Entry point: collects the verbs and turns every failure into one sentence and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import TYPE_CHECKING, Annotated

import typer
from typer.models import CommandInfo, TyperInfo

from convolver.cli.verb_group import Verbs
from convolver.errors import ConvolverError, ConvolverWarning
from convolver.tracing.launch import inherited_environment

if TYPE_CHECKING:
    from click import HelpFormatter

GROUPS: dict[str, dict[str, str]] = {
    "Everyday": {
        "predict": "Predict a program's time and its CPU ratio to targets.",
        "choose": "Rank machines for a program, by time and by price.",
        "report": "Show a predicted program, as text or as one HTML page.",
        "diff": "Compare two runs, machines or versions block by block.",
        "ratio": "CPU ratio of a program on two machines, and what decides it.",
        "validate": "Compare predicted with measured times of many programs.",
        "doctor": "Check what is installed; say how to get what is missing.",
    },
    "Machines": {
        "probe": "Measure this machine and write its profile.",
        "machine": "List, show, compare, check, merge and project machine profiles.",
    },
    "Steps": {
        "trace": "Record what a program executes and which memory it touches.",
        "simulate": "Simulate the caches of machines on a trace, in one pass.",
        "explore": "Simulate variants of one cache level of a machine.",
        "share": "Simulate threads on cores that share their last cache.",
        "plot": "Draw a picture from artifacts: PNG, SVG or PDF.",
        "info": "Explain and verify a file that Convolver wrote.",
        "export": "Write artifacts in other tools' formats.",
        "import_": "Convert accesses that another tool recorded into a trace.",
        "merge": "Join traces that were recorded in phases into one.",
    },
    "Parallel": {
        "mpi": "Record and convert the MPI events of parallel programs.",
        "replay": "Replay the messages of a parallel run on a network.",
    },
    "Models": {
        "model": "Fit, apply and show statistical models.",
    },
}
"""The groups of ``convolver --help``: modules of this package that hold a verb (each has ``register(app)``), and their words."""
HIDDEN = {
    "instrument": "Translate CALL's pragmas of a C source into calls.",
    "completion": "Let a shell complete verbs, options and machines.",
}
"""Verbs that ``convolver --help`` leaves out."""
VERBS = {verb: words for group in (*GROUPS.values(), HIDDEN) for verb, words in group.items()}


class _AllVerbs(Verbs):
    """All verbs, by what they are used for."""

    def list_commands(self, _ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return [verb.rstrip("_") for verb in VERBS]

    def format_commands(self, _ctx: typer.Context, formatter: HelpFormatter) -> None:  # type: ignore[override]
        """Write the verbs group by group, their words in one column."""
        width = max(len(verb) for verb in VERBS)
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.rstrip("_").ljust(width), words) for verb, words in verbs.items()])


app = typer.Typer(
    name="convolver",
    cls=_AllVerbs,
    help="How fast will this program run on that machine?\n\n"
    "Profile a machine (probe), record a program (trace), simulate its caches (simulate), predict its time (predict).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from convolver import __version__

        typer.echo(f"convolver {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


for _verb, _summary in VERBS.items():
    importlib.import_module(f"convolver.cli.{_verb}").register(app)
    _infos: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
    next(info for info in _infos if info.name == _verb.rstrip("_")).short_help = _summary


def _say(message: str) -> None:
    print(f"convolver: {message}", file=sys.stderr)


def _show_warning(message: Warning | str, category: type[Warning], *_args: object, **_kwargs: object) -> None:
    if issubclass(category, ConvolverWarning):
        _say(f"warning: {message}")


def _of_file(error: OSError) -> str:
    return f" ({error.filename})" if error.filename else ""


def main() -> None:
    """Run the command line and exit; no traceback reaches the user unless ``CONVOLVER_DEBUG`` is set."""
    if "LC_CTYPE" not in inherited_environment():
        os.environ.pop("LC_CTYPE", None)  # or every program that is started from here would have Python's
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", ConvolverWarning)
    try:
        app()
    except ConvolverError as error:
        if os.environ.get("CONVOLVER_DEBUG"):
            raise
        _say(str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        if os.environ.get("CONVOLVER_DEBUG"):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _say(f"the system refused: {error.strerror or error}{_of_file(error)}; CONVOLVER_DEBUG=1 shows where.")
        sys.exit(1)
    except MemoryError:
        _say("this machine has not enough memory for what was asked.")
        sys.exit(1)

"""Entry point: collects the verbs and turns every failure into one sentence and an exit code."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import warnings
from typing import Annotated

import typer

from convolver.errors import ConvolverError, ConvolverWarning

VERBS: tuple[str, ...] = (
    "doctor",
    "probe",
    "machine",
    "trace",
    "import_",
    "merge",
    "simulate",
    "explore",
    "share",
    "predict",
    "validate",
    "plot",
    "report",
    "diff",
    "export",
    "info",
    "ratio",
    "model",
    "replay",
    "mpi",
    "instrument",
    "completion",
)
"""Modules of this package that hold a verb, in the order of ``convolver --help``; each has ``register(app)``."""

app = typer.Typer(
    name="convolver",
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


for _verb in VERBS:
    importlib.import_module(f"convolver.cli.{_verb}").register(app)


def _say(message: str) -> None:
    print(f"convolver: {message}", file=sys.stderr)


def _show_warning(message: Warning | str, category: type[Warning], *_args: object, **_kwargs: object) -> None:
    if issubclass(category, ConvolverWarning):
        _say(f"warning: {message}")


def main() -> None:
    """Run the command line and exit; no traceback reaches the user unless ``CONVOLVER_DEBUG`` is set."""
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", ConvolverWarning)
    try:
        app()
    except ConvolverError as error:
        if os.environ.get("CONVOLVER_DEBUG"):
            raise
        _say(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _say("interrupted.")
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except MemoryError:
        _say("this machine has not enough memory for what was asked.")
        sys.exit(1)

"""Entry point: collects the verbs and turns every failure into one sentence and an exit code."""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import os
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn

import typer

from convolver import __version__
from convolver.child_processes import signal_name
from convolver.cli.completion import VARIABLE
from convolver.cli.verb_group import Verbs, with_groups
from convolver.errors import ConvolverError, ConvolverWarning
from convolver.foreign_text import SHOW
from convolver.tracing.launch import inherited_environment

DEFECT = 70
"""Exit code where an error was not foreseen (EX_SOFTWARE of sysexits.h)."""
TRACEBACK = "CONVOLVER_TRACEBACK"
"""Environment variable that lets tracebacks through."""
BLAS_THREADS = "OPENBLAS_NUM_THREADS"

if TYPE_CHECKING:
    from types import FrameType

    from click import HelpFormatter

GROUPS: dict[str, dict[str, str]] = {
    "Everyday": {
        "predict": "Predict a program's time and its CPU ratio to targets.",
        "choose": "Rank machines for a program, by time and by price.",
        "report": "Show a predicted program, as text or as one HTML page.",
        "what_if": "Predict what a better cache, memory or core would save.",
        "diff": "Compare two runs, machines (CPU ratio) or versions by block.",
        "check": "Check a program's time on a pinned machine, for CI.",
        "validate": "Compare predicted with measured times of many programs.",
        "doctor": "Check what is installed; say how to get what is missing.",
        "completion": "Let a shell complete verbs, options and machines.",
    },
    "Machines": {
        "probe": "Measure this machine and write its profile.",
        "machine": "List, show, compare, check, add, merge, project machines.",
    },
    "Steps": {
        "trace": "Record what a program executes and which memory it touches.",
        "simulate": "Simulate the caches of machines on a trace, in one pass.",
        "explore": "Simulate variants of one cache level of a machine.",
        "share": "Simulate threads on cores that share their last cache.",
        "plot": "Draw a picture from artifacts: PNG, SVG or PDF.",
        "bundle": "Pack a prediction with all its inputs into one file to share.",
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
        "instrument": "Translate CALL's pragmas of a C source into calls.",
    },
}
"""The groups of ``convolver --help``: modules of this package, and their words. Each has ``verb``: a function whose
docstring is the help, or a group of them; ``SETTINGS``: what the parser gets with a function."""
VERBS = {verb: words for group in GROUPS.values() for verb, words in group.items()}


def _named(module: str) -> str:
    """Return the verb of a module of this package."""
    return module.rstrip("_").replace("_", "-")


@cache
def _built(verb: str) -> Any:
    module, alone = importlib.import_module(f"convolver.cli.{verb}"), typer.Typer(rich_markup_mode=None)
    if isinstance(module.verb, typer.Typer):
        alone.add_typer(module.verb, name=_named(verb))
    else:
        alone.command(_named(verb), context_settings=getattr(module, "SETTINGS", None))(with_groups(module.verb))
    (command,) = typer.main.get_group(alone).commands.values()
    command.short_help = VERBS[verb]
    return command


class _BuiltVerbs(Mapping[str, Any]):
    """All verbs by name, each built when it is asked for: to build all of them takes longer than many a verb."""

    _modules: ClassVar = {_named(verb): verb for verb in VERBS}

    def __getitem__(self, name: str) -> Any:
        return _built(self._modules[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


class _AllVerbs(Verbs):
    """All verbs, by what they are used for."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.commands = _BuiltVerbs()  # type: ignore[assignment]

    def format_commands(self, _ctx: typer.Context, formatter: HelpFormatter) -> None:  # type: ignore[override]
        """Write the verbs group by group, their words in one column."""
        width = max(len(verb) for verb in VERBS)
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(_named(verb).ljust(width), words) for verb, words in verbs.items()])


app = typer.Typer(
    name="convolver",
    cls=_AllVerbs,
    help="How fast will this program run on that machine?\n\n"
    "Profile a machine (probe), record a program (trace), simulate its caches (simulate), predict its time (predict).",
    no_args_is_help=True,
    add_completion=False,  # the verb `completion` does it
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"convolver {__version__}")
        raise typer.Exit


def _print_includes(wanted: bool) -> None:
    if wanted:
        from convolver.locations import program

        typer.echo(f"-I{program('include', 'build the package again.')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    includes: Annotated[
        bool,
        typer.Option(
            "--includes",
            help="Print the compiler's option for convolver_markers.h and exit.",
            callback=_print_includes,
            is_eager=True,
        ),
    ] = False,
) -> None:
    pass


def _answer_shells() -> None:
    """Know the shells where one asks what completes a line."""
    if VARIABLE in os.environ:
        from typer.completion import completion_init

        completion_init()


def _say(message: str) -> None:
    print(f"convolver: {message}", file=sys.stderr)


def _show_warning(message: Warning | str, category: type[Warning], *_args: object, **_kwargs: object) -> None:
    if issubclass(category, ConvolverWarning):
        _say(f"warning: {message}")


def _open_streams() -> None:
    """Let no file that is opened later become a standard stream that was closed, and show what an encoding does not have."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)  # not inherited: what we start finds the stream closed, as we did
            if handle != number:
                os.dup2(handle, number, inheritable=False)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - lives as long as the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=SHOW)


def _place(error: BaseException) -> str:
    """Return the file and line of this package where an error arose."""
    steps = traceback.extract_tb(error.__traceback__)
    own = [step for step in steps if "convolver" in step.filename] or steps
    return f"{os.path.relpath(own[-1].filename, os.path.dirname(os.path.dirname(__file__)))}:{own[-1].lineno}" if own else "?"


def explain(error: BaseException) -> tuple[str, int]:
    """Return what the user reads about an error, and the exit code: :data:`DEFECT` for one that nobody raised on purpose."""
    if isinstance(error, ConvolverError):
        return str(error), error.exit_code
    if isinstance(error, OSError):
        name = f" ({error.filename})" if error.filename else ""
        return f"the system refused: {error.strerror or error}{name}; {TRACEBACK}=1 shows where.", 1
    if isinstance(error, MemoryError):
        return "this machine has not enough memory for what was asked.", 1
    lines = str(error).strip().splitlines()
    what = f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
    sentence = f"a defect of Convolver {__version__} ended this: {what} ({_place(error)})."
    report = f"Please report it with the command and, where you may, its input; {TRACEBACK}=1 shows what the report needs."
    return f"{sentence}\nconvolver: {report}", DEFECT


class _Stopped(BaseException):
    """A signal is to end this process, once what it holds is given back: temporary folders, locks, processes."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _stop(number: int, _frame: FrameType | None) -> None:
    for one in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_DFL)  # a second one ends it at once
    raise _Stopped(number)


def _nobody_reads() -> bool:
    """Tell whether stdout or stderr is a pipe whose reader is gone."""
    looks = select.poll()
    for number in (1, 2):
        looks.register(number, select.POLLOUT)
    return any(found & select.POLLERR for _, found in looks.poll(0))


def _end_by(number: int) -> None:
    """End this process by a signal, as it does where nobody handles it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _fail(error: BaseException) -> NoReturn:
    """Say what went wrong and end with its exit code; quietly by SIGPIPE, as other tools, where nobody reads what is printed."""
    if isinstance(error, BrokenPipeError) and _nobody_reads():
        _end_by(signal.SIGPIPE)
    sentence, code = explain(error)
    if isinstance(error, OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what stdout still holds cannot be written either
    _say(sentence)
    sys.exit(code)


def main() -> None:
    """Run the command line and exit; no traceback reaches the user unless ``CONVOLVER_TRACEBACK`` is set."""
    if "LC_CTYPE" not in inherited_environment():
        os.environ.pop("LC_CTYPE", None)  # or every program that is started from here would have Python's
    _open_streams()
    if BLAS_THREADS not in os.environ:
        os.putenv(
            BLAS_THREADS, "1"
        )  # its threads spin when they start; programs that are run from here get os.environ, as it was
    gc.set_threshold(100_000, 20, 20)  # most of what a verb makes lives until it ends
    atexit.register(gc.freeze)  # and what lives then need not be searched for cycles
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # not where nohup has it ignored
            signal.signal(number, _stop)
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", ConvolverWarning)
    _answer_shells()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # which the parser takes for status 1, without a word
            _fail(end.__context__)
        raise
    except KeyboardInterrupt:
        raise
    except _Stopped as stopped:
        with suppress(OSError):  # the terminal may be gone
            _say(f"ended by {signal_name(stopped.number)}; whatever was named as written is complete.")
        _end_by(stopped.number)
    except BaseException as error:  # polars panics with one that is no Exception
        if os.environ.get(TRACEBACK):
            raise
        _fail(error)

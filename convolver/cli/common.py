"""What every verb shares: JSON on stdout, words on stderr, no silent overwriting."""

from __future__ import annotations

import fnmatch
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from convolver.cli import completing
from convolver.errors import UnknownMachineError, UsageError
from convolver.foreign_text import json_text
from convolver.heavy import pl
from convolver.units import listed

BASE = typer.Option("--base", "-b", help="Machine that the program was, or is, measured on.", autocompletion=completing.machines)
Hits = Annotated[
    Path | None, typer.Option("--hits", help="Analysis or hit rates, where a signature is given instead of a trace.")
]


def finite(seconds: float | None) -> float | None:
    """Return the value of an option; raises :class:`typer.BadParameter` for inf and nan, which a range lets through."""
    if seconds is not None and not math.isfinite(seconds):
        raise typer.BadParameter(f"{seconds} is no number of seconds.")
    return seconds


Measured = Annotated[float | None, typer.Option("--measured", min=0, callback=finite, help="Native run time on --base, seconds.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Draw it: .png, .svg or .pdf.")]
Dark = Annotated[bool, typer.Option("--dark", help="Dark picture.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]


def _one_kind(context: typer.Context, wanted: bool) -> bool:
    """Raise :class:`UsageError` before anything runs where both --json and --csv are asked for."""
    if wanted and any(context.params.get(name) for name in ("as_json", "as_csv")):
        raise UsageError("--json and --csv contradict each other; choose one.")
    return wanted


Json = Annotated[bool, typer.Option("--json", callback=_one_kind, help="Print JSON.")]
State = Annotated[
    str | None,
    typer.Option(
        "--state",
        help="Targets as a machine (alone, or usual) or as probed; the interval then includes both.",
        autocompletion=completing.states,
    ),
]
Jobs = Annotated[int | None, typer.Option(help="Workers at a time [one a processor].", min=1)]
Cores = Annotated[
    int | None, typer.Option("--cores", min=1, help="Cores for a program with several threads [those of the machine].")
]
Pin = Annotated[
    str | None,
    typer.Option(
        "--pin",
        help="Threads stay on a CPU: compact (both of a core first) or scatter.",
        autocompletion=completing.pinnings,
    ),
]
Children = Annotated[
    bool, typer.Option("--trace-children", help="Trace all processes that the program starts, too, a file each.")
]
Dask = Annotated[str | None, typer.Option(help="Address of a dask.distributed scheduler to run on.")]


def machine_names(given: Iterable[str]) -> list[str]:
    """Return the names in the values of --machines, each a name, a pattern with ``*`` or several at commas.

    Raises :class:`UnknownMachineError` for a pattern that no machine has.
    """
    wanted = [name.strip() for words in given for name in words.split(",") if name.strip()]
    if "*" not in "".join(wanted):
        return wanted
    from convolver.machine.catalog import list_machines

    known, found = [entry.name for entry in list_machines()], list[str]()
    for name in wanted:
        like = fnmatch.filter(known, name) if "*" in name else [name]
        if not like:
            raise UnknownMachineError(f"No machine is called like '{name}'; `convolver machine list` shows those known by name.")
        found += like
    return list(dict.fromkeys(found))


def refuse_given(context: typer.Context, names: Iterable[str], why: str) -> None:
    """Raise :class:`UsageError` with ``why`` where the command line has options that would do nothing, by their parameters."""
    written = {str(one.name): max(one.opts, key=len) for one in context.command.params}
    sources = {name: context.get_parameter_source(name) for name in written.keys() & set(names)}
    given = [flag for name, flag in written.items() if (found := sources.get(name)) and found.name == "COMMANDLINE"]
    if given:
        raise UsageError(f"{listed(given)} would do nothing {why}; leave {'that' if len(given) == 1 else 'them'} out.")


def say_one_thread(**given: object) -> None:
    """Say, of a program with one thread, which of the options for several were given: they change nothing."""
    names = [f"--{name}" for name, value in given.items() if value]
    if names:
        say(f"{listed(names)} {'has' if len(names) == 1 else 'have'} nothing to say: the program had one thread.")


def pinning(word: str | None) -> str | None:
    """Return the word of --pin; raises :class:`UsageError` for one that says no pinning."""
    from convolver._native.thread_replay import PINNINGS

    if word is not None and word not in PINNINGS:
        raise UsageError(f"--pin {word} is not known; use {' or '.join(PINNINGS)}.")
    return word


def print_json(document: Any) -> None:
    """Print a document as JSON on stdout."""
    typer.echo(json_text(document, indent=1))


@dataclass(frozen=True, kw_only=True)
class AsData:
    """Options that ask for what a verb shows as data."""

    as_json: Json = False
    as_csv: Annotated[bool, typer.Option("--csv", callback=_one_kind, help="Print the rows as CSV.")] = False

    def printed(self, document: Callable[[], Any], rows: Callable[[], Iterable[Mapping[str, Any]]] | None = None) -> bool:
        """Print it where that is asked for; False: it is not. Without rows these are the document's."""
        if self.as_json:
            print_json(document())
        elif self.as_csv:
            table = pl.DataFrame([flat(row) for row in (rows or document)()], infer_schema_length=None)
            typer.echo(table.write_csv(), nl=False)
        return self.as_json or self.as_csv


def flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return one row of a table: columns of a nested mapping are named ``outer.inner``; lists are one text."""
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            cells |= flat(value, f"{prefix}{name}.")
        else:
            cells[prefix + name] = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
    return cells


def say(message: str) -> None:
    """Print one line for the human on stderr."""
    print(message, file=sys.stderr)


def existing(path: Path, schema: str = "convolver.trace") -> Path:
    """Return the path of an input; raises :class:`FormatError` with how to make one where nothing is there."""
    from convolver.schema import missing_file

    if not path.exists():
        raise missing_file(path, schema)
    return path


def new_file(path: Path, force: bool) -> Path:
    """Return ``path`` when it may be written; raises :class:`UsageError` when it exists and ``force`` is off, or where its folder
    takes no files."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists already; choose another name or allow overwriting with --force.")
    if not path.parent.is_dir():
        raise UsageError(f"The folder {path.parent} does not exist; create it first.")
    real = Path(os.path.realpath(path))
    if (real.is_file() or not real.exists()) and not os.access(real.parent, os.W_OK):  # nothing is made beside a device
        raise UsageError(f"Nothing can be written into {real.parent}; choose another folder.")
    return path


def new_folder(path: Path) -> None:
    """Make a folder for outputs where there is none; raises :class:`UsageError` with what is in the way."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is no folder; name one for the outputs.")
    try:
        path.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise UsageError(f"The folder {path.parent} does not exist; create it first.") from None
    except OSError as error:
        raise UsageError(f"The folder {path} cannot be made ({error.strerror}); choose another.") from error


@contextmanager
def say_what_is_kept(trace: Path) -> Iterator[None]:
    """Say, where Ctrl-C ends what is done here, which files hold what was traced until then."""
    from convolver.tracing.writer import signature_path

    try:
        yield
    except KeyboardInterrupt:
        if trace.exists():
            say(f"What ran until then is in {trace} and {signature_path(trace)}.")
        raise


def wrote(path: Path) -> None:
    """Say which file was written."""
    say(f"Wrote {path}")

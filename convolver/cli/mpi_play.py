"""``convolver mpi play``: perform a trace on real ranks, and the whole run's time from a signature's phases."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convolver.cli.common import Csv, Json, finite, printed
from convolver.errors import UsageError
from convolver.reporting.console import out, terminal_progress
from convolver.reporting.grid import grid
from convolver.units import format_seconds

if TYPE_CHECKING:
    from convolver.mpi.events import Events
    from convolver.mpi.play import Marks


def play_command(
    trace: Annotated[Path, typer.Argument(help="MPI events, or a signature of 'convolver model scale --reduce'.")],
    launcher: Annotated[
        list[str] | None, typer.Argument(help="Launcher of as many ranks, after '--', e.g. mpirun -np 8.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Network: a machine profile with one, or a Dimemas .cfg.")] = None,
    actual: Annotated[
        float | None, typer.Option(help="Measured seconds of the program: prints the error (PETE).", min=0, callback=finite)
    ] = None,
    cores: Annotated[int | None, typer.Option(help="Cores that the ranks hold, for the cost; default one a rank.", min=1)] = None,
    mpicc: Annotated[str | None, typer.Option(help="Compiler wrapper of the MPI library; found from the launcher.")] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Perform a trace on real ranks: its messages through MPI, its computation as a loop calibrated on these processors.

    Of a signature it prints the phases and the predicted execution time of the whole run (PET), and what it cost. Ranks that
    have fewer processors between them than they are get a warning: their times then mean little.

    \b
    Examples:
      convolver mpi play cg.16.parquet -- mpirun --oversubscribe -np 16
      convolver mpi play sig.64.parquet --actual 12.4 --json -- mpirun -np 64
      convolver mpi play sig.64.parquet --config host.machine.json
    """
    from convolver.mpi.sources import load_events

    document = _document(load_events(trace, progress=terminal_progress()), launcher or [], config, mpicc)
    document |= _costs(document, actual, cores)
    if not printed(json, csv, lambda: document, lambda: document["phases"] or [document]):
        _print(trace, document)


def _document(events: Events, launcher: list[str], config: Path | None, mpicc: str | None) -> dict[str, Any]:
    from convolver.modeling.p3s.executable_signature import phase_times

    marks = _marks(events, launcher, config, mpicc)
    phases = events.notes.get("phases", [])
    rows, predicted = phase_times(phases, marks) if phases else ([], marks.total_seconds)
    where = "replayed" if config else " ".join(launcher)
    return {
        "ranks": events.ranks,
        "on": where,
        "host": None if marks.host is None else dict(zip(("ranks", "processors"), marks.host, strict=True)),
        "oversubscribed": marks.oversubscribed,
        "signature_seconds": marks.total_seconds,
        "predicted_seconds": predicted,
        "phases": [asdict(row) for row in rows],
    }


def _marks(events: Events, launcher: list[str], config: Path | None, mpicc: str | None) -> Marks:
    from convolver.mpi.network_replay import Replayer
    from convolver.mpi.play import marks_of, play
    from convolver.mpi.sources import load_network

    if (config is None) == (not launcher):
        raise UsageError("Give either a launcher after '--' (mpirun -np 8), or --config NET to replay.")
    if config is None:
        return play(events, launcher, mpicc=mpicc)
    return marks_of(Replayer(events).run(load_network(config, events.ranks), record=True), events)


def _costs(document: dict[str, Any], actual: float | None, cores: int | None) -> dict[str, Any]:
    from convolver.modeling.p3s.scaling_advice import CostedRun, core_hours, time_error

    if actual == 0:
        raise UsageError("The measured time is 0; give --actual the seconds of the program's run.")
    held = cores or document["ranks"]
    seconds = document["signature_seconds"]
    whole = actual or document["predicted_seconds"]
    return {
        "core_hours": core_hours([CostedRun(document["ranks"], seconds, held)]),
        "overhead": seconds / whole if whole else None,
        "actual_seconds": actual,
        "error": time_error(actual, document["predicted_seconds"]) if actual else None,
    }


def _performed(document: dict[str, Any]) -> str:
    from convolver.mpi.play import sharing

    return str(document["on"]) + (f" ({sharing(**document['host'])})" if document["oversubscribed"] else "")


def _print(trace: Path, document: dict[str, Any]) -> None:
    from convolver.reporting.metadata import metadata

    actual = document["actual_seconds"]
    console = out()
    console.print(
        metadata(
            ("trace", f"{trace}: {document['ranks']} ranks"),
            ("performed", _performed(document)),
            ("measured", None if actual is None else format_seconds(actual)),
        )
    )
    console.print()
    if document["phases"]:
        table = grid(["phase", "turn"], ["weight", "seconds", "in all"])
        for row in document["phases"]:
            numbers = (str(row["weight"]), format_seconds(row["seconds"]), format_seconds(row["total_seconds"]))
            table.add_row(row["operations"], row["turn"], *numbers)
        console.print(table)
    error = "" if document["error"] is None else f", off by {100 * document['error']:.1f} %"
    if document["phases"] or error:
        console.print(f"Predicted: {format_seconds(document['predicted_seconds'])}{error}")
    known = document["overhead"] is not None and (document["phases"] or actual is not None)
    share = f", {100 * document['overhead']:.1f} % of the run's time" if known else ""
    console.print(f"Took {format_seconds(document['signature_seconds'])}, {document['core_hours']:.3g} core hours{share}.")


def add(mpi: typer.Typer) -> None:
    """Add the verb to ``convolver mpi``."""
    mpi.command("play", context_settings={"allow_interspersed_args": True})(play_command)

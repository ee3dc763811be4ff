"""``convolver mpi``: record the MPI events of a program and convert recordings."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convolver.cli.common import AsData, Force, Json, finite, new_file, print_json, say, wrote
from convolver.cli.verb_group import new_group
from convolver.errors import UsageError
from convolver.reporting.console import out, terminal_progress
from convolver.reporting.grid import grid
from convolver.units import format_count, format_seconds

if TYPE_CHECKING:
    from convolver.mpi.events import Events
    from convolver.mpi.play import Marks


verb = new_group("Record and convert the MPI events of parallel programs.")


def _write(events: Events, output: Path) -> None:
    from convolver.mpi.dim import write_dim

    if output.suffix == ".dim":
        write_dim(events, output)
    elif output.suffix == ".parquet":
        events.save(output)
    else:
        raise UsageError(f"The format of {output} is unknown; name it *.dim, *.parquet or *.simgrid.")
    wrote(output)


@verb.command("trace", context_settings={"allow_interspersed_args": False})
def trace_command(
    command: Annotated[list[str], typer.Argument(help="Command with its launcher, after '--'.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the recording, or a *.dim or *.parquet file.")],
    mpicc: Annotated[str | None, typer.Option(help="Compiler wrapper of the MPI library; found from the launcher.")] = None,
    cpu_clock: Annotated[bool, typer.Option(help="Measure bursts by thread CPU time too.")] = True,
    signature: Annotated[
        bool,
        typer.Option("--signature", help="Run it a second time, traced: blocks of every burst, for 'convolver predict --mpi'."),
    ] = False,
    engine: Annotated[str, typer.Option(help="What runs it the second time: valgrind, native or auto.")] = "auto",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Record the MPI events of an unmodified program; the recording is complete also after an abort or a kill.

    \b
    Examples:
      convolver mpi trace -o app.mpi -- mpirun -np 4 ./app
      convolver mpi trace -o app.mpi --signature -- mpirun -np 4 ./app --size 1000
    """
    from convolver.mpi.capture import record
    from convolver.mpi.recorded_ranks import read_recording

    if output.suffix in (".dim", ".parquet"):
        if signature:
            raise UsageError(f"--signature needs a folder for the ranks' traces, and {output} names a file; give -o app.mpi.")
        new_file(output, force)
        with tempfile.TemporaryDirectory() as folder:
            status = record(command, folder, mpicc=mpicc, cpu_clock=cpu_clock).exit_status
            events = read_recording(folder)
            _write(events, output)
    else:
        if output.is_dir() and any(output.glob("rank-*.cvm")):
            new_file(output, force)
        status = record(command, output, mpicc=mpicc, cpu_clock=cpu_clock).exit_status
        events = read_recording(output)
        wrote(output)
        if signature and not status:
            from convolver.mpi.traced import record_blocks
            from convolver.tracing.native_engine import checked_engine

            say("Running it again under the tracer.")
            status = record_blocks(command, output, mpicc=mpicc, options=["--engine", checked_engine(engine)]).exit_status
    if as_json:
        print_json({**events.summary(), "exit_status": status})
    else:
        say(f"{events.ranks} ranks, {events.records} records, {format_seconds(events.notes['measured_seconds'])} measured.")
    _end(command, status)


def _end(command: list[str], status: int) -> None:
    """Exit as a command did that failed, after a sentence."""
    if status:
        say(f"{command[0]} ended with status {status}; what its ranks had recorded by then is kept.")
        raise typer.Exit(status)


@verb.command("count", context_settings={"allow_interspersed_args": False})
def count_command(
    command: Annotated[list[str], typer.Argument(help="Command with its launcher, after '--'.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Trace to write: .txt with smpirun, else .parquet.")],
    mpicc: Annotated[str | None, typer.Option(help="Compiler wrapper of the MPI library; found from the launcher.")] = None,
    force: Force = False,
) -> None:
    """Run a program on real ranks or under SimGrid SMPI and count the instructions between its MPI calls, exactly.

    The traces are for 'convolver model scale'. More ranks than processors are slow, not wrong; smpirun holds any number.

    \b
    Examples:
      convolver mpi count -o cg.4.parquet -- mpirun -np 4 ./cg
      convolver mpi count -o bt.16.txt -- smpirun -np 16 -platform p.xml -hostfile hosts ./bt
    """
    from convolver.mpi.events import EventKind
    from convolver.mpi.sources import load_events
    from convolver.mpi.time_independent import WORK_PER_SECOND
    from convolver.mpi.traced import count

    new_file(output, force)
    status = count(command, output, mpicc=mpicc)
    events = load_events(output)
    calls = int((events.columns["kind"] != EventKind.BURST).sum())
    total = float(events.columns["seconds"].sum()) * WORK_PER_SECOND
    say(f"{events.ranks} ranks, {calls} MPI events, {format_count(total)} instructions between them.")
    wrote(output)
    _end(command, status)


@verb.command("convert")
def convert_command(
    trace: Annotated[Path, typer.Argument(help="Recording folder, events artifact, .dim, .prv, traces.otf2 or SimGrid's .txt.")],
    output: Annotated[Path, typer.Argument(help="*.dim, *.parquet, or *.simgrid: a folder of time-independent traces.")],
    clock: Annotated[str, typer.Option(help="What a burst of a recording lasts: cpu or wall.")] = "cpu",
    config: Annotated[
        Path | None, typer.Option("--config", help="Network: a machine profile with one, or a Dimemas .cfg.")
    ] = None,
    force: Force = False,
) -> None:
    """Convert MPI events between formats: Convolver, Dimemas, Paraver and OTF2 (reading), SimGrid.

    'smpirun -replay APP.simgrid/trace.txt -platform APP.simgrid/platform.xml' replays a folder for SimGrid.

    \b
    Examples:
      convolver mpi convert extrae.prv app.events.parquet
      convolver mpi convert app.mpi app.simgrid --config cluster.cfg
    """
    from convolver.mpi.recorded_ranks import read_recording
    from convolver.mpi.sources import load_events, load_network
    from convolver.mpi.time_independent import write_platform, write_ti

    if clock not in ("cpu", "wall"):
        raise UsageError(f"The clock '{clock}' is unknown; use cpu or wall.")
    simgrid = output.suffix == ".simgrid"
    if config is not None and not simgrid:
        raise UsageError("--config belongs to a folder for SimGrid: name the output *.simgrid.")
    new_file(output / "trace.txt" if simgrid and output.is_dir() else output, force)
    progress = terminal_progress()
    if trace.is_dir():
        events = read_recording(trace, clock="wall" if clock == "wall" else "cpu", progress=progress)
    else:
        events = load_events(trace, progress=progress)
    if not simgrid:
        _write(events, output)
        return
    network = None if config is None else load_network(config, events.ranks)
    wrote(write_ti(events, output))
    if network is not None:
        write_platform(network, events.ranks, output / "platform.xml")
        wrote(output / "platform.xml")


@verb.command("network", context_settings={"allow_interspersed_args": False})
def network_command(
    launcher: Annotated[list[str], typer.Argument(help="Launcher of two tasks, after '--', for example mpirun -np 2.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Machine profile to write.")],
    machine: Annotated[Path | None, typer.Option(help="Profile that gets the network (default: a bare one).")] = None,
    mpicc: Annotated[str | None, typer.Option(help="Compiler wrapper of the MPI library; found from the launcher.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Measure the network with an MPI ping-pong: latency, bandwidth, eager limit, overhead, what sharing a processor costs.

    \b
    Examples:
      convolver mpi network -o host.machine.json --machine quiet.machine.json -- mpirun -np 2
      convolver mpi network -o pair.machine.json -- mpirun -np 2 --map-by node
    """
    from convolver.mpi.pingpong import measure_network, save_network

    new_file(output, force)
    measured = measure_network(launcher, mpicc=mpicc)
    save_network(measured, output, machine)
    wrote(output)
    if as_json:
        print_json(measured)
    else:
        rate = measured["bandwidth_bytes_per_second"] / 1e9
        limit = measured["eager_limit_bytes"]
        eager = f"eager below {limit} bytes" if limit >= 0 else "always eager"
        handover = measured.get("handover_seconds")
        shared = "" if handover is None else f", {format_seconds(handover)} to hand a processor over"
        say(f"Latency {format_seconds(measured['latency_seconds'])}, {rate:.3g} GB/s, {eager}{shared}.")


@verb.command("play", context_settings={"allow_interspersed_args": True})
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
    as_data: AsData = AsData(),
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
    if not as_data.printed(lambda: document, lambda: document["phases"] or [document]):
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

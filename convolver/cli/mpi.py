"""``convolver mpi``: record the MPI events of a program and convert recordings."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convolver.cli.common import Force, Json, new_file, print_json, say, wrote
from convolver.cli.mpi_play import add
from convolver.cli.verb_group import new_group
from convolver.errors import UsageError
from convolver.reporting.console import terminal_progress
from convolver.units import format_seconds

if TYPE_CHECKING:
    from convolver.mpi.events import Events

mpi = new_group("Record and convert the MPI events of parallel programs.")


def _write(events: Events, output: Path) -> None:
    from convolver.mpi.dim import write_dim

    if output.suffix == ".dim":
        write_dim(events, output)
    elif output.suffix == ".parquet":
        events.save(output)
    else:
        raise UsageError(f"The format of {output} is unknown; name it *.dim, *.parquet or *.simgrid.")
    wrote(output)


@mpi.command("trace", context_settings={"allow_interspersed_args": False})
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
        say(f"{events.ranks} ranks, {events.records} records, {events.notes['measured_seconds']:.6g} s measured.")
    _end(command, status)


def _end(command: list[str], status: int) -> None:
    """Exit as a command did that failed, after a sentence."""
    if status:
        say(f"{command[0]} ended with status {status}; what its ranks had recorded by then is kept.")
        raise typer.Exit(status)


@mpi.command("count", context_settings={"allow_interspersed_args": False})
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
    from convolver.mpi.counted_runs import count
    from convolver.mpi.events import EventKind
    from convolver.mpi.sources import load_events
    from convolver.mpi.time_independent import WORK_PER_SECOND

    new_file(output, force)
    status = count(command, output, mpicc=mpicc)
    events = load_events(output)
    calls = int((events.columns["kind"] != EventKind.BURST).sum())
    total = float(events.columns["seconds"].sum()) * WORK_PER_SECOND
    say(f"{events.ranks} ranks, {calls} MPI events, {total:.6g} instructions between them.")
    wrote(output)
    _end(command, status)


@mpi.command("convert")
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
    from convolver.mpi.simgrid import write_platform, write_ti
    from convolver.mpi.sources import load_events, load_network

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


@mpi.command("network", context_settings={"allow_interspersed_args": False})
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


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    add(mpi)
    app.add_typer(mpi, name="mpi")

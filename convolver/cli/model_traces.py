"""The verbs of ``convolver model`` that start from MPI traces: sweep, and those of P3S: scale, points, speedup."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from convolver.cli.common import AsData, Dark, Dask, Force, Jobs, Json, new_file, print_json, refuse_given, say, wrote
from convolver.cli.verb_group import new_group
from convolver.errors import UsageError
from convolver.plotting import style
from convolver.reporting.console import out, terminal_progress
from convolver.reporting.grid import grid
from convolver.units import format_count, format_seconds

if TYPE_CHECKING:
    from convolver.modeling.p3s.points import Rates
    from convolver.modeling.p3s.scaling_advice import ScalingPoint
    from convolver.modeling.p3s.slt import ScalableTrace
    from convolver.mpi.time_independent import Trace


traces = new_group("From MPI traces.")


@traces.command("sweep")
def sweep_command(
    traces: Annotated[
        list[Path], typer.Argument(help="MPI traces (.dim, .parquet, SMPI's .txt, ...) of one program, one a process count.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Measurement table to write.")],
    points: Annotated[int, typer.Option(help="Platforms a trace.", min=1)] = 200,
    latency: Annotated[str, typer.Option(help="Seconds, LOW:HIGH or LOW:HIGH:log.")] = "1e-6:1e-4:log",
    bandwidth: Annotated[str, typer.Option(help="Bytes per second, LOW:HIGH or LOW:HIGH:log.")] = "2e7:1e9:log",
    seed: Annotated[int, typer.Option(help="Seed of the design.")] = 0,
    design: Annotated[str, typer.Option(help="lhs (Latin hypercube) or random.")] = "random",
    wire: Annotated[bool, typer.Option("--wire", help="Latency passes in the network, not on the sender's processor.")] = False,
    correct: Annotated[bool, typer.Option("--locality", help="Scale bursts by the locality factor of each trace.")] = False,
    jobs: Jobs = None,
    dask: Dask = None,
    force: Force = False,
) -> None:
    """Replay traces on random latencies and bandwidths: the table that linear models T(P, L, BW) are fitted to.

    The platforms are equal nodes of one task; 'convolver replay sweep' varies a given network. An interrupted sweep goes on when
    started again.

    \b
    Examples:
      convolver model sweep bt.4.dim bt.9.dim bt.16.dim -o bt.parquet
      convolver model sweep bt.*.dim -o bt.csv --points 400 --latency 1e-6:5e-5 --jobs 4
      convolver model sweep bt.4.txt bt.9.txt bt.16.txt --wire -o bt.parquet
    """
    from convolver.fanout import dask_executor
    from convolver.modeling.storm import critical_path_factors, ideal_seconds, locality_factors, sweep_replays, total_cpu_seconds
    from convolver.mpi.sources import load_events
    from convolver.mpi.sweep import plan_of

    new_file(output, force)
    plan = plan_of({"latency_seconds": latency, "bandwidth_bytes_per_second": bandwidth}, points, seed, design)
    progress = terminal_progress()
    files: dict[int, Path] = {}
    totals: dict[int, float] = {}
    ideal: dict[int, float] = {}
    for path in traces:
        loaded = load_events(path, progress=progress)
        if loaded.ranks in files:
            raise UsageError(f"{path} has {loaded.ranks} ranks as another trace has; give one trace a process count.")
        files[loaded.ranks], totals[loaded.ranks] = path, total_cpu_seconds(loaded)
        ideal[loaded.ranks] = ideal_seconds(loaded)
    factors = locality_factors(totals)
    scaled = factors if correct else None
    with dask_executor(dask) as executor:
        sweep_replays(files, plan, wire=wire, locality=scaled, output=output, executor=executor, jobs=jobs, progress=progress)
    say(f"Locality factors, for 'convolver model fit': {_option(factors)}")
    say(f"Those of the critical path, in their place: {_option(critical_path_factors(ideal))}")
    wrote(output)


def _option(factors: dict[int, float]) -> str:
    return "-s locality=" + ",".join(f"{count}:{factor:.6g}" for count, factor in factors.items())


Traces: TypeAlias = Annotated[
    list[Path], typer.Argument(help="Counted traces ('convolver mpi count') or other MPI traces, one a process count.")
]
Size: TypeAlias = Annotated[
    list[int] | None, typer.Option(help="Grid points a side or vector length, for sizes and work in blocks; repeatable.")
]
Rate: TypeAlias = Annotated[
    float, typer.Option(help="Instructions a second; 1e9 takes nanoseconds of measured traces as they are.", min=1.0)
]
Point: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="COUNTED,TIMED[,TIMED...]: traces of a smaller workload, for seconds of instructions; repeatable."),
]


@traces.command("scale")
def scale_command(
    traces: Traces,
    at: Annotated[int, typer.Option("--at", help="Process count to make the trace for.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="MPI events to write (.parquet), for 'convolver replay'.")],
    size: Size = None,
    rate: Rate = 1e9,
    point: Point = None,
    signature: Annotated[
        bool, typer.Option("--reduce", help="Reduce it to a few turns of its long loops, for 'convolver mpi play'.")
    ] = False,
    turns: Annotated[int, typer.Option(help="Turns of a long loop that a signature keeps.", min=3)] = 4,
    force: Force = False,
    json: Json = False,
) -> None:
    """Relate the phases of traces over process counts and make the trace for a count that was never run (P3S).

    \b
    Examples:
      convolver model scale bt.4.txt bt.9.txt bt.16.txt --at 64 --size 64 -o bt.64.parquet
      convolver model scale lu.4.txt lu.8.txt lu.16.txt --at 64 --rate 2e9 -o lu.64.parquet --json
      convolver model scale cg.2.parquet cg.4.parquet cg.8.parquet --at 16 --reduce -o cg.16.parquet
      convolver model scale bt.4.parquet bt.9.parquet --at 16 --point small.4.parquet,small.4.mpi -o bt.16.parquet
    """
    from convolver.modeling.p3s.executable_signature import signature as reduced
    from convolver.mpi.time_independent import to_events

    new_file(output, force)
    scalable, rates = scalable_of(traces, size, point)
    if signature:
        events = reduced(scalable, at, seconds_per_work=1 / rate, rates=rates, turns=turns, name=output.name)
    else:
        seconds = 1 / rate if rates is None else 1.0
        events = to_events(scalable.at(at, rates), seconds_per_work=seconds, name=output.name)
    events.save(output)
    _show_equations(scalable, json)
    wrote(output)


def scalable_of(traces: list[Path], size: list[int] | None, point: list[str] | None) -> tuple[ScalableTrace, Rates | None]:
    """Return the scalable trace of the files, and the seconds of instructions at the points; None where there are none."""
    from convolver.modeling.p3s.slt import build
    from convolver.mpi.sources import load_operations

    read: dict[int, Trace] = {}
    for path in traces:
        trace = load_operations(path)
        if len(trace) in read:
            raise UsageError(f"{path} has {len(trace)} ranks as another trace has; give one trace a process count.")
        read[len(trace)] = trace
    scalable = build(read, sizes_to_try=tuple(size or ()))
    return scalable, _rates(scalable, point or [])


def _rates(scalable: ScalableTrace, points: list[str]) -> Rates | None:
    """Return the seconds of instructions at the points, None where there are none."""
    from convolver.modeling.p3s.points import measured_rates
    from convolver.mpi.sources import load_operations

    read = []
    for text in points:
        names = text.split(",")
        if len(names) < 2 or not all(names):
            raise UsageError(f"'{text}' is no point of measurement; give --point COUNTED,TIMED, two traces of one run or more.")
        read.append([load_operations(name) for name in names])
    return measured_rates(scalable.root, read) if read else None


def _show_equations(scalable: ScalableTrace, json: bool) -> None:
    rows = scalable.equations()
    if json:
        print_json(rows)
    else:
        for row in rows:
            typer.echo(f"{row['operation']:10} x{row['weight']:<8} {row['bytes']:28} {row['partner']}")
    if scalable.drift() > 0.1:
        say(f"The total work changes by {100 * scalable.drift():.0f} % over the traced counts; the times will be as uncertain.")


SHOWN = 0.01
"""Least share of the computation that gets a row on the terminal; --json and --csv hold all."""


@traces.command("points")
def points_command(
    traces: Traces,
    at: Annotated[int, typer.Option("--at", help="Process count to predict.", min=1)],
    measured_on: Annotated[
        int | None, typer.Option("--on", help="Processes that you can measure: says the similar size.", min=1)
    ] = None,
    dimensions: Annotated[int, typer.Option(help="Sides of the domain that shrink together.", min=1, max=3)] = 3,
    size: Size = None,
    point: Point = None,
    as_data: AsData = AsData(),
) -> None:
    """Say which smaller workload to measure on few processes, and how near measured ones come to the target (P3S).

    A process of it shall execute what one of the target will. --size and --on give the first guess; count it, time it
    a few times, give the traces as --point and see how far its instructions are from the target's.

    \b
    Examples:
      convolver model points bt.4.parquet bt.9.parquet bt.16.parquet --at 64 --size 64 --on 4
      convolver model points cg.2.parquet cg.4.parquet cg.8.parquet --at 32 --point s.2.parquet,s.2.a.mpi,s.2.b.mpi
    """
    from convolver.modeling.p3s.workload import between_points, compared_points, phase_works, similar_side

    if point is None and (measured_on is None or not size):
        raise UsageError("Nothing to say: give --on PROCESSES and --size N for a workload to measure, or measured --point.")
    scalable, rates = scalable_of(traces, size, point)
    document: dict[str, Any] = {"processes": at, "instructions": scalable.instructions(at)}
    if measured_on is not None:
        document["on"] = measured_on
        document["similar_sides"] = [similar_side(side, at, measured_on, dimensions) for side in size or ()]
    if rates is not None:
        compared, rows = compared_points(scalable, at, rates), phase_works(scalable, at, rates)
        document["points"] = [asdict(one) for one in compared]
        document["between_points"] = between_points(compared)
        document["seconds"] = sum(row.seconds for row in rows)
        document["operations"] = [asdict(row) for row in rows]
    if not as_data.printed(lambda: document, lambda: document.get("points") or [document]):
        _show_points(document)


def _show_points(document: dict[str, Any]) -> None:
    console = out()
    said = f"A process of {document['processes']} executes {format_count(document['instructions'])} instructions"
    if document.get("similar_sides"):
        listed = ", ".join(f"{side:.4g}" for side in document["similar_sides"])
        said += f"; one of {document['on']} does about as much with size {listed}"
    console.print(f"{said}.")
    if "points" in document:
        _print_points(document)
        standing = "" if document["between_points"] else "; no point stands for it: measure one that is nearer"
        console.print(f"Computation of a process: {format_seconds(document['seconds'])}{standing}.")


def _print_points(document: dict[str, Any]) -> None:
    console = out()
    table = grid([], ["point, ranks", "instructions", "difference", "ps an instruction"])
    for one in document["points"]:
        away = f"{100 * one['difference']:+.1f} %"
        rate = f"{1e12 * one['seconds_per_instruction']:.4g}"
        table.add_row(str(one["ranks"]), format_count(one["instructions"]), away, rate)
    console.print(table)
    console.print()
    table = grid(["before", "partner", "turn"], ["times", "instructions", "seconds", "share", "measured"])
    for row in (row for row in document["operations"] if row["share"] >= SHOWN):
        numbers = (f"{row['times']:.6g}", format_count(row["instructions"]), format_seconds(row["seconds"]))
        words = (f"{100 * row['share']:.1f} %", "yes" if row["measured"] else "no")
        table.add_row(row["operation"], row["partner"], row["turn"], *numbers, *words)
    console.print(table)


@traces.command("speedup")
def speedup_command(
    context: typer.Context,
    traces: Traces,
    at: Annotated[list[int], typer.Option("--at", help="Process count to predict beside the traced ones; repeatable.")],
    config: Annotated[Path, typer.Option(help="Network: a machine profile with one, or a Dimemas .cfg.")],
    threshold: Annotated[float, typer.Option(help="Least efficiency that is advised.", min=0, max=1)] = 0.7,
    size: Size = None,
    rate: Rate = 1e9,
    point: Point = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Picture: .png, .svg or .pdf.")] = None,
    dark: Dark = False,
    force: Force = False,
    as_data: AsData = AsData(),
) -> None:
    """Predict speedup and efficiency over process counts and say how many processes pay.

    Ideal is linear from the smallest traced count.

    \b
    Examples:
      convolver model speedup lu.4.txt lu.8.txt lu.16.txt --at 32 --at 64 --size 33 --config host.machine.json
      convolver model speedup cg.2.parquet cg.4.parquet cg.8.parquet --at 16 --config net.cfg --threshold 0.5 -o cg.svg
    """
    from convolver.modeling.p3s.scaling_advice import advice, scaling_curve
    from convolver.mpi.network_replay import Replayer
    from convolver.mpi.sources import load_network
    from convolver.mpi.time_independent import to_events

    if output is None:
        refuse_given(context, ["dark"], "without -o")
    path = None if output is None else new_file(style.check_format(output), force)
    if not at:
        raise UsageError("No process count is given; write for example --at 32 --at 64.")
    scalable, rates = scalable_of(traces, size, point)
    seconds = {}
    for count in sorted({*scalable.counts, *at}):
        events = to_events(scalable.at(count, rates), seconds_per_work=1 / rate if rates is None else 1.0)
        seconds[count] = float(Replayer(events).seconds(load_network(config, count)).max())
    points = scaling_curve(seconds, threshold)
    text = advice(points)
    rows = _rows(points, scalable.counts)
    if not as_data.printed(lambda: {"points": rows, "threshold": threshold, "advice": text}, lambda: rows):
        _show_speedup(points, scalable.counts, text)
    if path is not None:
        from convolver.plotting.elapsed_curves import draw_speedup

        style.picture(path, lambda look: draw_speedup(points, max(scalable.counts), threshold, text, look), dark=dark)
        wrote(path)


def _rows(points: list[ScalingPoint], traced: tuple[int, ...]) -> list[dict[str, Any]]:
    return [{**asdict(point), "traced": point.processes in traced} for point in points]


def _show_speedup(points: list[ScalingPoint], traced: tuple[int, ...], text: str) -> None:
    table = grid([], ["processes", "seconds", "speedup", "efficiency", "traced", "advised"])
    for point in points:
        words = ("yes" if point.processes in traced else "no", "yes" if point.advised else "no")
        numbers = (format_seconds(point.seconds), f"{point.speedup:.3g}", f"{100 * point.efficiency:.0f} %")
        table.add_row(str(point.processes), *numbers, *words)
    out().print(table)
    out().print(text)

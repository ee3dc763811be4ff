"""``convolver model scale``: the trace of a process count that was never run, and its signature (P3S)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from convolver.cli.common import Force, Json, new_file, print_json, say, wrote
from convolver.errors import UsageError

if TYPE_CHECKING:
    from convolver.modeling.p3s.points import Rates
    from convolver.modeling.p3s.slt import ScalableTrace
    from convolver.mpi.time_independent import Trace

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
    from convolver.modeling.p3s.p3s_traces import read_trace
    from convolver.modeling.p3s.slt import build

    read: dict[int, Trace] = {}
    for path in traces:
        trace = read_trace(path)
        if len(trace) in read:
            raise UsageError(f"{path} has {len(trace)} ranks as another trace has; give one trace a process count.")
        read[len(trace)] = trace
    scalable = build(read, sizes_to_try=tuple(size or ()))
    return scalable, _rates(scalable, point or [])


def _rates(scalable: ScalableTrace, points: list[str]) -> Rates | None:
    """Return the seconds of instructions at the points, None where there are none."""
    from convolver.modeling.p3s.p3s_traces import read_trace
    from convolver.modeling.p3s.points import measured_rates

    read = []
    for text in points:
        names = text.split(",")
        if len(names) < 2 or not all(names):
            raise UsageError(f"'{text}' is no point of measurement; give --point COUNTED,TIMED, two traces of one run or more.")
        read.append([read_trace(name) for name in names])
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

"""``convolver model speedup``: predicted speedup and efficiency over process counts, and how far it pays (P3S)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convolver.cli.common import Csv, Dark, Force, Json, new_file, printed, wrote
from convolver.cli.model_scale import Point, Rate, Size, Traces, scalable_of
from convolver.errors import UsageError
from convolver.plotting import style
from convolver.reporting.console import out
from convolver.reporting.grid import grid
from convolver.units import format_seconds

if TYPE_CHECKING:
    from convolver.modeling.p3s.scaling_advice import ScalingPoint


def speedup_command(
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
    json: Json = False,
    csv: Csv = False,
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
    if not printed(json, csv, lambda: {"points": rows, "threshold": threshold, "advice": text}, lambda: rows):
        _print(points, scalable.counts, text)
    if path is not None:
        from convolver.plotting.speedup import draw

        style.picture(path, lambda look: draw(points, max(scalable.counts), threshold, text, look), dark=dark)
        wrote(path)


def _rows(points: list[ScalingPoint], traced: tuple[int, ...]) -> list[dict[str, Any]]:
    return [{**asdict(point), "traced": point.processes in traced} for point in points]


def _print(points: list[ScalingPoint], traced: tuple[int, ...], text: str) -> None:
    table = grid([], ["processes", "seconds", "speedup", "efficiency", "traced", "advised"])
    for point in points:
        words = ("yes" if point.processes in traced else "no", "yes" if point.advised else "no")
        numbers = (format_seconds(point.seconds), f"{point.speedup:.3g}", f"{100 * point.efficiency:.0f} %")
        table.add_row(str(point.processes), *numbers, *words)
    out().print(table)
    out().print(text)

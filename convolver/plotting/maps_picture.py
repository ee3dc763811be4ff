"""The signature picture: a machine's MAPS curves with the blocks of a program on them, area = time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from convolver.errors import PredictionError, UsageError
from convolver.heavy import pl
from convolver.machine.maps import MEMORY
from convolver.machine.profile import Curve, MachineProfile
from convolver.plotting import style
from convolver.plotting.labels import circles, command_label, machine_label
from convolver.plotting.style import Axes, Figure, Look
from convolver.units import format_count, format_seconds

if TYPE_CHECKING:
    from convolver.convolution.block_times import BlockTimes

SHOWN = (("unit", "load"), ("stride", "load"), ("random", "load"), ("chase", "load"), ("unit", "store"))
"""Curves that are drawn where the machine has them, in order."""

WIDTH = 8
HEADROOM = 4.0
"""The picture ends at so many times the fastest curve; faster blocks, whose references cost next to nothing, stand there."""
INSIDE = 1.1
"""How far inside its level's range a block is drawn, as a factor of the range's ends."""
LEAST_SHARE = 0.001
"""Blocks below this share of the time are left out of the picture (their sum is in the note)."""


def shown_curves(machine: MachineProfile) -> list[tuple[str, Curve]]:
    """Return (label, curve) of the curves to draw; raises :class:`PredictionError` when the machine has none."""
    found = []
    for pattern, operation in SHOWN:
        if any(curve.pattern == pattern and curve.operation == operation for curve in machine.maps):
            stride = machine.hierarchy[0].line_bytes if pattern == "stride" else 0
            curve = machine.curve(pattern, operation, width_bytes=WIDTH, stride_bytes=stride)
            label = {"unit": "unit stride", "stride": f"stride {curve.stride_bytes} B", "chase": "pointer chase"}.get(
                pattern, pattern
            )
            found.append((f"{label}, {operation}s" if pattern == "unit" else label, curve))
    if not found:
        machine.curve("unit", "load")  # raises with the right words
        raise PredictionError(f"The machine '{machine.name}' has no curve to draw; probe it again.")
    return found


def equivalent_working_set(machine: MachineProfile, random_share: float, rate: float) -> float:
    """Return the working set in bytes at which the curves give ``rate`` (references per second) for this share of random ones.

    The mixture of the unit-stride and the random load curve rises with the working set, so bisection finds it; rates beyond the
    ends of the curves are put at the ends.
    """
    unit = machine.curve("unit", "load", width_bytes=WIDTH)
    wild = machine.curve("random", "load", width_bytes=WIDTH) if _has(machine, "random") else unit

    def seconds(size: float) -> float:
        return (1 - random_share) * unit.at(size).seconds_per_reference + random_share * wild.at(size).seconds_per_reference

    low, high = unit.points[0].working_set_bytes * 1.0, unit.points[-1].working_set_bytes * 1.0
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if seconds(middle) * rate < 1 else (low, middle)
    return low


def _inside_its_level(machine: MachineProfile, location: str, size: float) -> float:
    """Return the working set moved into the range of the level, or the two, where the block's lines are found (A/B): a block that
    L2 serves stays inside L2, although its rate may be that of a stream from memory, since other work takes its time."""
    levels = location.split("/") if location else []
    edges = [(level.level, float(level.size_bytes)) for level in machine.hierarchy]
    names = [name for name, _ in edges]
    if not levels or not {*levels} <= {*names, MEMORY}:
        return size
    first = names.index(levels[0]) if levels[0] != MEMORY else len(names)
    low = edges[first - 1][1] * INSIDE if first else 0.0
    high = dict(edges).get(levels[-1], math.inf) / INSIDE
    return min(max(size, low), high)


def _has(machine: MachineProfile, pattern: str) -> bool:
    return any(curve.pattern == pattern and curve.operation == "load" for curve in machine.maps)


def block_points(machine: MachineProfile, times: BlockTimes, least: float = LEAST_SHARE) -> list[dict[str, Any]]:
    """Return the sampled blocks with at least this share of the time: their row, ``working_set_bytes`` and ``share``."""
    whole = times.seconds or 1.0
    rows = times.table.filter((pl.col("seconds") >= least * whole) & (pl.col("memory_rate") > 0) & pl.col("sampled"))
    return [
        {
            **row,
            "share": row["seconds"] / whole,
            "working_set_bytes": _inside_its_level(
                machine,
                row["data_set_location"],
                equivalent_working_set(machine, row["random_share"], row["memory_rate"]),
            ),
        }
        for row in rows.iter_rows(named=True)
    ]


def draw(machine: MachineProfile, times: BlockTimes | None, look: Look, *, top: int = 8) -> Figure:
    """Return the picture; ``times`` are block times on this machine, ``top`` blocks get a label.

    Raises :class:`UsageError` for times on another machine.
    """
    if times is not None and times.machine != machine.name:
        raise UsageError(f"The block times are of '{times.machine}', not of '{machine.name}'; give that machine's profile.")
    drawn, axes = style.figure(9.0 if times is None else 11.5)
    curves = shown_curves(machine)
    for index, (label, curve) in enumerate(curves):
        sizes = [point.working_set_bytes for point in curve.points]
        rates = [1 / point.seconds_per_reference for point in curve.points]
        axes.plot(
            sizes,
            rates,
            color=look.color(index),
            linestyle=style.LINES[index],
            marker=style.MARKERS[index],
            markersize=3.5,
            linewidth=1.6,
            label=label,
        )
    axes.set_yscale("log")
    _decorate(axes, machine, curves, look)
    name = machine_label(machine.name, machine.projected)
    if times is None:
        axes.set_title(f"MAPS curves of {name}", pad=20)
        style.note(axes, look, f"{machine.cpu.get('model', '')}; {WIDTH}-byte references, one thread.".lstrip("; "))
    else:
        points = block_points(machine, times)
        fastest = max(1 / point.seconds_per_reference for _, curve in curves for point in curve.points)
        beyond = _kept_below(axes, points, HEADROOM * fastest)
        axes.set_title(f"{command_label(times.header.get('command'))} on {name}", pad=20)
        held = sum(point["share"] for point in points)
        style.note(
            axes,
            look,
            f"Circles: basic blocks, area = predicted user time ({held:.1%} of {format_seconds(times.seconds)}), at their rate "
            "and the working set at which the curves give it, within the level of their lines."
            + (" At the top edge: hardly any time on memory." if beyond else ""),
        )
        circles(axes, points, "working_set_bytes", "shown_rate", look, top)
    axes.legend(loc="lower left", fontsize=9)
    return drawn


def _kept_below(axes: Axes, points: list[dict[str, Any]], highest: float) -> bool:
    """Give every block the rate at which it is drawn, ``shown_rate``, at most ``highest``; returns whether one is faster."""
    for point in points:
        point["shown_rate"] = min(point["memory_rate"], highest)
    if any(point["memory_rate"] > highest / 2 for point in points):
        axes.set_ylim(top=1.5 * highest)
    return any(point["memory_rate"] > highest for point in points)


def _decorate(axes: Axes, machine: MachineProfile, curves: Sequence[tuple[str, Curve]], look: Look) -> None:
    low = min(curve.points[0].working_set_bytes for _, curve in curves) / 1.6
    high = max(curve.points[-1].working_set_bytes for _, curve in curves) * 1.6
    style.log_bytes(axes, low, high)
    left = low
    for name, edge in [*((level.level, level.size_bytes) for level in machine.hierarchy), ("memory", high)]:
        if edge < high:
            axes.axvline(edge, color=look.muted, linewidth=0.9, linestyle=(0, (4, 4)))
        if left < edge:
            middle = math.sqrt(left * min(edge, high))
            axes.text(
                middle, 1.005, name, transform=axes.get_xaxis_transform(), ha="center", va="bottom", color=look.muted, fontsize=9
            )
        left = edge
    axes.set_xlabel("working set")
    axes.set_ylabel("references per second")
    axes.yaxis.set_major_formatter(lambda value, _: format_count(value))

"""Memory roofline: operations per second over operations per byte, one roof for every level of the hierarchy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from convolver.errors import PredictionError, ProvenanceError
from convolver.heavy import pl
from convolver.machine.maps import MEMORY
from convolver.machine.profile import MachineProfile
from convolver.plotting import style
from convolver.plotting.labels import circles, command_label, machine_label
from convolver.plotting.style import Figure, Look
from convolver.units import format_count, format_seconds

if TYPE_CHECKING:
    from convolver.convolution.block_times import BlockTimes
    from convolver.signature.signature import Signature

LEAST_SHARE = 0.001


def bandwidths(machine: MachineProfile) -> dict[str, float]:
    """Return bytes per second of unit-stride loads in each level and in memory: the widest loads that were measured."""
    widths = [curve.width_bytes for curve in machine.maps if curve.pattern == "unit" and curve.operation == "load"]
    if not widths:
        machine.curve("unit", "load")  # raises with the right words
    names = [*(level.level for level in machine.hierarchy), MEMORY]
    found = {}
    for name in names:
        rates = [width / machine.plateau("unit", "load", name, width_bytes=width).seconds_per_reference for width in set(widths)]
        found[name] = max(rates)
    return found


def peaks(machine: MachineProfile) -> dict[str, float]:
    """Return operations per second, additions and multiplications mixed, for scalar and for the widest operands."""
    widths = sorted({entry.width_bytes for entry in machine.floating_point if entry.flops})
    if not widths:
        raise PredictionError(f"The machine '{machine.name}' has no floating-point rates; run `convolver probe` on it.")
    found = {"scalar": machine.flop_rate("mixed", width_bytes=widths[0])}
    if len(widths) > 1:
        found[f"{widths[-1]}-byte vectors"] = machine.flop_rate("mixed", width_bytes=widths[-1])
    return found


def block_points(signature: Signature, times: BlockTimes) -> list[dict[str, Any]]:
    """Return the blocks with floating-point work: row, ``share`` of the time, ``intensity`` in flop/byte, ``flop_rate``."""
    if times.inputs.get("signature") != signature.id:
        raise ProvenanceError("The block times are of another signature; give the one that they were convolved from.")
    whole = times.seconds or 1.0
    joined = times.table.join(signature.table.select("block", "flops", "bytes"), on="block", maintain_order="left")
    rows = joined.filter((pl.col("flops") > 0) & (pl.col("bytes") > 0) & (pl.col("seconds") >= LEAST_SHARE * whole))
    return rows.with_columns(
        share=pl.col("seconds") / whole,
        intensity=pl.col("flops") / pl.col("bytes"),
        flop_rate=pl.col("flops") / pl.col("seconds"),
    ).to_dicts()


def draw(machine: MachineProfile, signature: Signature, times: BlockTimes, look: Look, *, top: int = 8) -> Figure:
    """Return the picture; raises :class:`PredictionError` when the machine lacks rates."""
    points = block_points(signature, times)
    drawn, axes = style.figure(11.5)
    roofs, flats = bandwidths(machine), peaks(machine)
    found = [point["intensity"] for point in points] or [0.1]
    low, high = min([0.01, *found]) / 2, max([8.0, *found]) * 2
    xs = np.geomspace(low, high, 200)
    highest = max(flats.values())
    for index, (name, rate) in enumerate(roofs.items()):
        axes.plot(
            xs,
            np.minimum(rate * xs, highest),
            color=look.color(index),
            linestyle=style.LINES[index],
            linewidth=1.8,
            label=f"{name}  {format_count(rate)}B/s",
        )
    for name, rate in flats.items():
        axes.axhline(rate, color=look.muted, linewidth=1, linestyle=":")
        axes.text(high, rate, f"{name}, {format_count(rate)}flop/s ", ha="right", va="bottom", fontsize=8.5, color=look.muted)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.yaxis.set_major_formatter(lambda value, _: format_count(value))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("floating-point operations per byte loaded or stored")
    axes.set_ylabel("floating-point operations per second")
    name = machine_label(machine.name, machine.projected)
    axes.set_title(f"Memory roofline: {command_label(times.header.get('command'))} on {name}")
    held = sum(point["share"] for point in points)
    style.note(
        axes,
        look,
        f"Circles: blocks with floating-point work, area = predicted user time ({held:.1%} of {format_seconds(times.seconds)}). "
        "Roofs: unit-stride loads as measured, widest operands.",
    )
    axes.legend(loc="lower right")
    circles(axes, points, "intensity", "flop_rate", look, top)
    return drawn

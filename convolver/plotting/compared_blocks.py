"""Base and target side by side, block by block, in the order of what decides the ratio."""

from __future__ import annotations

from typing import Any

import numpy as np

from convolver.convolution.block_times import BlockTimes
from convolver.convolution.cpu_ratio import cpu_ratio
from convolver.errors import ProvenanceError
from convolver.heavy import pl
from convolver.plotting import style
from convolver.plotting.labels import block_label, command_label, machine_label
from convolver.plotting.style import Figure, Look
from convolver.units import format_seconds


def compared(base: BlockTimes, target: BlockTimes) -> pl.DataFrame:
    """Return the blocks of both tables with base_seconds and target_seconds, the largest difference first.

    Raises :class:`ProvenanceError` for two programs: blocks are matched by their number in one signature.
    """
    if base.inputs.get("signature") != target.inputs.get("signature"):
        raise ProvenanceError("The two tables of block times are of different signatures; `convolver diff` compares two runs.")
    one = base.table.select("block", "function", "module", "file", "line", base_seconds="seconds")
    other = target.table.select("block", target_seconds="seconds")
    joined = one.join(other, on="block", how="left").with_columns(pl.col("target_seconds").fill_null(0.0))
    change = (pl.col("target_seconds") - pl.col("base_seconds")).alias("change_seconds")
    return joined.with_columns(change).sort(pl.col("change_seconds").abs(), descending=True, maintain_order=True)


def draw(base: BlockTimes, target: BlockTimes, look: Look, *, top: int = 12) -> Figure:
    """Return the picture of the ``top`` blocks and of the rest together."""
    ratio = cpu_ratio(base, target).total
    table = compared(base, target)
    rows: list[dict[str, Any]] = table.head(top).to_dicts()
    rest = table.slice(top).select(pl.col("base_seconds", "target_seconds").sum()).to_dicts()
    labels = [block_label(row) for row in rows]
    if table.height > top:
        rows += rest
        labels.append(f"{table.height - top} other blocks")
    drawn, axes = style.figure(10.5, 1.7 + 0.42 * len(rows))
    ys = np.arange(len(rows))
    for index, (times, field) in enumerate(((base, "base_seconds"), (target, "target_seconds"))):
        axes.barh(
            ys + (index - 0.5) * 0.38,
            [row[field] for row in rows],
            0.36,
            color=look.color(index),
            hatch=style.HATCHES[index],
            label=f"{machine_label(times.machine, bool(times.header.get('projected')))}: {format_seconds(times.seconds)}",
        )
    for y, row in zip(ys, rows, strict=True):
        one, other = row["base_seconds"], row["target_seconds"]
        text = f"{one / other:.2f}x" if other else "-"
        axes.annotate(
            text, (max(one, other), y), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9, color=look.muted
        )
    axes.set_yticks(ys, labels)
    axes.invert_yaxis()
    axes.margins(x=0.09)
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_formatter(lambda value, _: format_seconds(value) if value else "0")
    axes.set_xlabel("predicted user time")
    axes.set_title(f"{command_label(base.header.get('command'))}: user time, {base.machine} / {target.machine} = {ratio:.3g}")
    style.note(
        axes,
        look,
        "Largest difference first; the number at the bars is base time / target time, above 1 the target is faster.",
    )
    axes.legend(loc="lower right")
    return drawn

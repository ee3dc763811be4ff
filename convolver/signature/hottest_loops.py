"""The innermost loops of a program, the hottest first."""

from __future__ import annotations

from typing import Any

from convolver.heavy import pl

SHOWN = 10


def hottest_loops(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return function, line, depth, blocks, turns, instructions and memory accesses of the hottest loops.

    Blocks count for their innermost loop; ``turns`` is how often its head was executed. Empty for a table without loops.
    """
    if "loop_head" not in table.columns:
        return []
    heads = table.select(pl.col("block").alias("loop_head"), "function", "line", pl.col("executions").alias("turns"))
    sums = (
        table.filter(pl.col("loop_head").is_not_null() & (pl.col("instructions") > 0))
        .group_by("loop_head")
        .agg(pl.col("loop_depth").min().alias("depth"), pl.len().alias("blocks"), pl.col("instructions", "memops").sum())
        .sort("instructions", "loop_head", descending=[True, False])
        .head(SHOWN)
    )
    columns = ["function", "line", "depth", "blocks", "turns", "instructions", "memops"]
    return sums.join(heads, on="loop_head", how="left", maintain_order="left").select(columns).to_dicts()

"""What the sampled references say about a block: pattern shares, sampled share, coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convolver.signature.blocks import PATTERNS

if TYPE_CHECKING:
    import polars as pl

SHARES = ("sequential_share", "strided_share", "random_share", "dependent_share")


def pattern_shares() -> list[pl.Expr]:
    """Return expressions for the four shares of a block's references: sequential, strided, random, dependent.

    They add up to 1. A sampled reference in no class (the first of its kind) counts as sequential: nothing speaks against it. A
    block without a sample has null shares.
    """
    import polars as pl

    classified = pl.max_horizontal(pl.sum_horizontal(PATTERNS), pl.lit(1))
    sampled = pl.col("sampled_references")
    whole = pl.max_horizontal(classified, sampled)
    others = [pl.col(name) / whole for name in PATTERNS[1:]]
    shares = [1 - pl.sum_horizontal(others), *others]
    return [pl.when(sampled > 0).then(share).alias(name) for share, name in zip(shares, SHARES, strict=True)]


def sampled_share(table: pl.DataFrame) -> float:
    """Return sampled references / all memops of a signature's table, 0..1 (0 where nothing was executed)."""
    memops = int(table["memops"].sum())
    return min(1.0, int(table["sampled_references"].sum()) / memops) if memops else 0.0

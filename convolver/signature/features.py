"""What the sampled references say about a block: pattern shares, sampled share, coverage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver.heavy import pl
from convolver.signature.block_columns import ALONE, PATTERNS

SHARES = ("sequential_share", "strided_share", "random_share", "dependent_share")


def pattern_shares() -> list[pl.Expr]:
    """Return expressions for the four shares of a block's references: sequential, strided, random, dependent.

    They add up to 1. A sampled reference in no class (the first of its kind) counts as sequential: nothing speaks against it. A
    block without a sample has null shares.
    """
    classified = pl.max_horizontal(pl.sum_horizontal(PATTERNS), pl.lit(1))
    sampled = pl.col("sampled_references")
    whole = pl.max_horizontal(classified, sampled)
    others = [pl.col(name) / whole for name in PATTERNS[1:]]
    shares = [1 - pl.sum_horizontal(others), *others]
    return [pl.when(sampled > 0).then(share).alias(name) for share, name in zip(shares, SHARES, strict=True)]


def sampled_share(table: pl.DataFrame) -> float:
    """Return sampled references / all memory accesses of a signature's table, 0..1 (0 where nothing was executed)."""
    memops = int(table["memops"].sum())
    return min(1.0, int(table["sampled_references"].sum()) / memops) if memops else 0.0


def path_shares(table: pl.DataFrame) -> dict[str, float | None] | None:
    """Return what executed paths say of a whole program; None where the signature does not have their columns.

    Shares of the references and of the branches that were walked, weighted as they were sampled; null where there were none.
    """
    if "path_references" not in table.columns:
        return None

    def share(part: str, whole: str) -> float | None:
        total = int(table[whole].sum())
        return int(table[part].sum()) / total if total else None

    return {
        "walked_share": share("path_references", "memops"),
        "mispredicted_conditional": share("mispredicted_conditional", "conditional_branches"),
        "mispredicted_indirect": share("mispredicted_indirect", "indirect_branches"),
        **{name: share(f"{name}_references", "path_references") for name in ("serial", "forwarded", "split")},
    }


def line_capacities(shares: NDArray[Any], width_bytes: NDArray[Any], line_bytes: int = 64) -> NDArray[np.float64]:
    """Return how many lines a reference could bring at most, by pattern; ``shares`` has a row (sequential, strided, random,
    dependent) for every block or site, ``width_bytes`` the mean width of its references.

    A unit-stride reference shares its line with its neighbors; the others touch one line each.
    """
    capacities = np.array(shares, dtype=np.float64)
    capacities[:, 0] *= np.minimum(1.0, np.asarray(width_bytes) / line_bytes)
    return capacities


def line_shares(counts: NDArray[Any], width_bytes: NDArray[Any]) -> NDArray[np.float64]:
    """Return which pattern brings the lines of a site, shares that add up to 1, from its references by pattern (rows as above).

    A site without a classified reference counts as sequential.
    """
    capacities = line_capacities(counts, width_bytes)
    whole = capacities.sum(axis=1, keepdims=True)
    return np.where(whole > 0, capacities / np.where(whole > 0, whole, 1.0), np.array([1.0, 0.0, 0.0, 0.0]))


def line_ratios(sums: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float64]]:
    """Return per block, from sums of :data:`convolver.signature.block_columns.LINES`, lines left out before each strided one, and
    references to lines on their way for each line brought; and, where :data:`~convolver.signature.block_columns.ALONE` is known,
    the share of the sequential lines that come in one stream at a time (else 0)."""
    strided, lines = (np.asarray(sums[name], dtype=float) for name in ("strided_lines", "new_lines"))
    between, coming = (np.asarray(sums[name], dtype=float) for name in ("skipped_lines", "coming_references"))
    ratios = {"between": between / np.maximum(strided, 1), "coming": coming / np.maximum(lines, 1)}
    if not set(ALONE) <= set(sums):
        return {**ratios, "alone": np.zeros_like(lines)}
    sequential, alone = (np.asarray(sums[name], dtype=float) for name in ALONE)
    return {**ratios, "alone": alone / np.maximum(sequential, 1)}

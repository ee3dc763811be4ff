"""The program's side of Equation 1: where each block's references fall on one machine, as shares of its references."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from convolver.heavy import pl
from convolver.simulation.hit_rates import EARLY, LINE_MISSES, LONG_STRIDES, PATTERN_MISSES

Array = NDArray[np.float64]
SEQUENTIAL, STRIDED, RANDOM, DEPENDENT = range(4)
"""The patterns by which lines are asked for, in the order of all arrays that have one column for each."""


@dataclass(frozen=True)
class Falls:
    """Shares per block (rows) and level (columns: the caches, then memory).

    ``served`` is the share of the block's references that find their line in a level; each row adds up to 1. ``hit_rates`` is
    cumulative over the caches. ``written_back`` counts dirty lines that leave a level per reference. ``errors`` are standard
    errors of ``served`` beyond the first level: 0 where all was simulated, nan where they are not known. ``brought`` says which
    pattern brings the lines of each farther level, shape (blocks, levels - 1, 4), rows adding up to 1 or, where the hit rates do
    not tell, to 0. ``pages`` are the references whose page's translation is not near, per reference and by pattern, shape
    (blocks, 4); None where that was not simulated. ``long_strides``: the share of the random lines by level, shape (blocks,
    levels - 1), that come in steps too long for a stream, ``early`` that of the sequential and strided ones whose streams had
    just begun; None where nobody looked. ``scattered``, where other caches were simulated for lines out of order: lines
    per reference by level and pattern with them, shape (blocks, levels - 1, 4). Rows of blocks that were not sampled mean
    nothing.
    """

    sampled: NDArray[np.bool_]
    served: Array
    hit_rates: Array
    written_back: Array
    errors: Array
    brought: Array
    pages: Array | None = None
    scattered: Array | None = None
    long_strides: Array | None = None
    early: Array | None = None

    @property
    def page_misses(self) -> Array:
        """:attr:`pages`, zeros where they were not simulated."""
        return np.zeros((len(self.sampled), 4)) if self.pages is None else self.pages

    def lines(self, references: Array) -> Array:
        """Return the lines by farther level and pattern, shape (blocks, levels - 1, 4), given the number of references of each
        block; those out of order from the last level as they find it."""
        shares = self.served[:, 1:, None] * self.brought
        if self.scattered is not None:
            shares[:, :, RANDOM:] = self.scattered[:, :, RANDOM:]
        return np.asarray(shares * references[:, None, None])


def _numbers(column: pl.Series) -> Array:
    """Return a column as numbers; nan for null. Expressions on a column take longer than all the rest of a small table."""
    return column.to_numpy().astype(float)


def _errors(rows: pl.DataFrame) -> Array:
    """Return the standard errors of the miss rates of a level's rows: nan where they are not known, 0 without an access.

    Groups of sets or bursts that are all alike tell none: where every access missed, or none did, the deviation of the rate under
    a uniform prior stands in (Laplace). It is of the order of one access; 0 would claim more.
    """
    if "standard_error" not in rows.columns:
        return np.full(rows.height, np.nan)
    accesses, misses, errors = (_numbers(rows[name]) for name in ("accesses", "misses", "standard_error"))
    grouped = rows["sample"].str.contains("sets|bursts").to_numpy() if "sample" in rows.columns else np.zeros(len(errors), bool)
    alike = grouped & np.isnan(errors) & ((misses == 0) | (misses == accesses))
    laplace = np.sqrt((misses + 1) * (accesses - misses + 1) / (accesses + 3)) / (accesses + 2)
    return np.where(accesses > 0, np.where(alike, laplace, errors), 0.0)


def _counts(table: pl.DataFrame, levels: list[str], blocks: int) -> dict[str, Array]:
    """Return the columns as arrays of shape (blocks, levels); zeros for columns that the hit rates lack."""
    names = ("accesses", "misses", "write_backs", *LINE_MISSES)
    result = {name: np.zeros((blocks, len(levels))) for name in ("standard_error", *names)}
    own = table.filter(pl.col("level").is_in(levels))
    at = own["block"].to_numpy()
    level = own["level"].replace_strict(levels, range(len(levels))).to_numpy().astype(np.intp)
    result["standard_error"][at, level] = _errors(own)
    for name in names:
        if name in own.columns:
            result[name][at, level] = np.nan_to_num(_numbers(own[name]))
    return result


def fold(table: pl.DataFrame, machine: str, levels: list[str], blocks: int) -> Falls:
    """Fold a table of hit rates into shares per block.

    Levels may have been sampled differently, so that the accesses of one need not be the misses of the one before: local miss
    rates are multiplied. A block that a level's own sample missed takes that level's rate over the whole program. One that the
    sample of the first level missed counts nowhere.
    """
    counts = _counts(table.filter(pl.col("machine") == machine), levels, blocks)
    accesses, misses = counts["accesses"], counts["misses"]
    missed = np.flatnonzero((accesses[:, 0] == 0) & accesses.any(axis=1))
    for array in counts.values():
        array[missed] = 0.0
    whole = misses.sum(axis=0) / np.maximum(accesses.sum(axis=0), 1)
    local = np.where(accesses > 0, misses / np.maximum(accesses, 1), whole)
    reach = np.cumprod(np.hstack([np.ones((len(local), 1)), local]), axis=1)
    served = np.hstack([reach[:, :-1] - reach[:, 1:], reach[:, -1:]])
    written = counts["write_backs"] / np.maximum(accesses, 1) * reach[:, :-1]
    return Falls(
        sampled=accesses[:, 0] > 0,
        served=served,
        hit_rates=1 - reach[:, 1:],
        written_back=written,
        errors=counts["standard_error"] * reach[:, :-1],
        brought=_brought(reach[:, 1:], misses, [counts[name] for name in PATTERN_MISSES]),
        long_strides=counts[LONG_STRIDES] / np.maximum(counts[PATTERN_MISSES[RANDOM - 1]], 1),
        early=counts[EARLY] / np.maximum(misses - sum(counts[name] for name in PATTERN_MISSES[RANDOM - 1 :]), 1),
    )


def with_scattered(where: Falls, other: Falls) -> Falls:
    """Return shares in which lines out of order find the last level that ``other`` was simulated with; the same where the hit
    rates know no patterns."""
    return replace(where, scattered=other.lines(np.ones(len(other.sampled)))) if other.brought.any() else where


def with_frames(where: Falls, other: Falls) -> Falls:
    """Return shares in which lines out of order find the second level that ``other`` was simulated with: what misses there more
    often comes from the third one, as much as before from memory."""
    ones = np.ones(len(where.sampled))
    lines, found = where.lines(ones), other.lines(ones)
    farther = np.clip(found[:, 1:].sum(axis=1) - lines[:, 1:].sum(axis=1), -lines[:, 1], lines[:, 0])
    lines[:, 0] -= farther
    lines[:, 1] += farther
    return replace(where, scattered=lines) if other.brought.any() else where


def with_written_past(where: Falls, lines: Array, share: Array) -> Falls:
    """Return shares in which so many lines per reference of each block are written past the caches, by that ``share`` of what it
    stores: each comes as one in order from memory, and none is fetched or leaves a level dirty."""
    fetched = where.served[:, 1:] * (1 - np.minimum(lines / np.maximum(where.served[:, 1:].sum(axis=1), 1e-12), 1.0))[:, None]
    fetched[:, -1] += lines
    served = np.hstack([1 - fetched.sum(axis=1, keepdims=True), fetched])
    past = np.divide(lines, fetched[:, -1], out=np.zeros_like(lines), where=fetched[:, -1] > 0)
    brought = where.brought.copy()
    brought[:, -1] *= (1 - past)[:, None]
    brought[:, -1, SEQUENTIAL] += past * where.brought.any()
    hit_rates, written_back = np.cumsum(served[:, :-1], axis=1), where.written_back * (1 - share)[:, None]
    return replace(where, served=served, hit_rates=hit_rates, written_back=written_back, brought=brought)


def blended(falls: Sequence[Falls], shares: Sequence[float]) -> Falls:
    """Return the mean of where references fall with several last levels, weighted by ``shares``, which add up to 1; what streams
    did is that of the level with the largest share."""
    parts = [(one, share) for one, share in zip(falls, shares, strict=True) if share]

    def mean(arrays: Iterable[Array]) -> Array:
        return np.asarray(sum(share * array for array, (_, share) in zip(arrays, parts, strict=True)))

    lines = mean(one.served[:, 1:, None] * one.brought for one, _ in parts)
    sums = lines.sum(axis=2, keepdims=True)
    return replace(
        max(parts, key=lambda part: part[1])[0],
        served=mean(one.served for one, _ in parts),
        hit_rates=mean(one.hit_rates for one, _ in parts),
        written_back=mean(one.written_back for one, _ in parts),
        errors=mean(one.errors for one, _ in parts),
        brought=np.where(sums > 0, lines / np.where(sums > 0, sums, 1.0), mean(one.brought for one, _ in parts)),
    )


def page_misses(table: pl.DataFrame, machine: str, level: str, blocks: int) -> Array:
    """Return the misses of a cache of translations (the one level of ``machine``) by pattern, per reference, shape (blocks, 4).

    A block that their sample missed takes the mean.
    """
    counts = _counts(table.filter(pl.col("machine") == machine), [level], blocks)
    accesses, misses = counts["accesses"], counts["misses"]
    others = np.concatenate([counts[name] for name in PATTERN_MISSES], axis=1)
    by_pattern = np.concatenate([np.maximum(misses - others.sum(axis=1, keepdims=True), 0.0), others], axis=1)
    whole = by_pattern.sum(axis=0) / np.maximum(accesses.sum(), 1)
    return np.where(accesses > 0, by_pattern / np.maximum(accesses, 1), whole)


def _brought(reach: Array, misses: Array, by_pattern: list[Array]) -> Array:
    """Return which pattern brings the lines of each farther level: what missed in one level and not in the next.

    ``reach`` is the share of the references that miss in each level. Only shares are used, since levels may have been sampled
    differently; a level whose sample saw none of a block's misses takes the patterns of the level before.
    """
    others = np.stack(by_pattern, axis=2)
    if not others.any():
        return np.zeros((*misses.shape, 4))  # from arrays, which have no patterns
    whole = np.concatenate([np.maximum(misses[:, :, None] - others.sum(axis=2, keepdims=True), 0.0), others], axis=2)
    total = whole.sum(axis=2, keepdims=True)
    shares = whole / np.where(total > 0, total, 1.0)
    for level in range(1, misses.shape[1]):
        shares[:, level] = np.where(total[:, level] > 0, shares[:, level], shares[:, level - 1])
    beyond = reach[:, :, None] * shares
    found = np.maximum(beyond - np.concatenate([beyond[:, 1:], np.zeros_like(beyond[:, :1])], axis=1), 0.0)
    sums = found.sum(axis=2, keepdims=True)
    return found / np.where(sums > 0, sums, 1.0)

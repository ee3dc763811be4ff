"""From counters to the table of hit rates: which level comes from which sample, and how certain it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from convolver._native.simulator import Counts
from convolver.heavy import pl
from convolver.simulation.group import BlockCounts, BlockSums, Group, ratio_error
from convolver.simulation.hit_rates import LINE_MISSES, HitRates
from convolver.simulation.level_samples import ALL, BURSTS, EXACT_CLASSES, Sampled
from convolver.simulation.targets import Target

EVEN = 0.1
"""References that may be too many or too few in the set sample of a block, and in those of all blocks, as a share of them."""


class _Level(NamedTuple):
    """Rows of one level: ``touched`` are the places of its blocks, ``counts`` and ``more`` by block.

    ``other``: blocks that are not from the level's ``sample`` but from the references in order.
    """

    name: str
    sample: str
    touched: NDArray[np.intp]
    counts: BlockCounts
    more: dict[str, NDArray[np.uint64]]
    other: NDArray[np.bool_] | None = None


def _texts(texts: Sequence[str], counts: Sequence[int]) -> pl.Series:
    """Return a column of texts, each so many times; unlike ``polars.repeat`` it starts no threads: small tables cost little."""
    column = pl.Series([], dtype=pl.String)
    for text, count in zip(texts, counts, strict=True):
        column.append(pl.Series([text], dtype=pl.String).new_from_index(0, count))
    return column


def _samples(levels: Sequence[_Level], windows: str) -> pl.Series:
    """Return the samples of the rows of levels; ``windows`` names that of the blocks that are from another than their level's."""
    if all(level.other is None for level in levels):
        return _texts([level.sample for level in levels], [len(level.touched) for level in levels])
    rows: list[str] = []
    for level in levels:
        other = np.zeros(len(level.touched), dtype=bool) if level.other is None else level.other[level.touched]
        rows += [windows if elsewhere else level.sample for elsewhere in other.tolist()]
    return pl.Series(rows, dtype=pl.String)


def _frame(machine: str, blocks: NDArray[np.uint32], levels: Sequence[_Level], windows: str) -> pl.DataFrame:
    """Return the rows of levels, one after another."""
    counts = [len(level.touched) for level in levels]

    def joined(of: Callable[[_Level], NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([of(level)[level.touched] for level in levels])

    columns: dict[str, Any] = {
        "block": joined(lambda level: blocks),
        "machine": _texts([machine], [sum(counts)]),
        "level": _texts([level.name for level in levels], counts),
        "accesses": joined(lambda level: level.counts.accesses),
        "hits": joined(lambda level: level.counts.accesses - level.counts.misses),
        "misses": joined(lambda level: level.counts.misses),
        "write_backs": joined(lambda level: level.counts.write_backs),
        "sample": _samples(levels, windows),
        "standard_error": pl.Series(joined(lambda level: level.counts.standard_error), dtype=pl.Float64, nan_to_null=True),
    }
    for name in levels[0].more:
        columns[name] = joined(lambda level, name=name: level.more[name])  # type: ignore[misc]
    return pl.DataFrame(columns)


class _Shares(NamedTuple):
    """References of each block in the set sample, and how many there would be if the sets had their share of them.

    ``ordered``: blocks that the references in order have.
    """

    seen: NDArray[np.float64]
    expected: NDArray[np.float64]
    ordered: NDArray[np.bool_]

    @property
    def even(self) -> bool:
        return float(np.abs(self.seen - self.expected).sum()) <= EVEN * max(self.expected.sum(), 1.0)

    @property
    def other(self) -> NDArray[np.bool_]:
        """Blocks that the set sample has too much or too little of, and the references in order have."""
        return self.ordered & (np.abs(self.seen - self.expected) > EVEN * self.expected)


class Counted(Protocol):
    """Counts per owner of the levels of machines; :class:`convolver.simulation.group.Group` has them."""

    def grouped_counts(self, machine: Target, level: int) -> Counts:
        """Return the counts that every engine has, shape (owners, groups)."""

    def more_counts(self, machine: Target, level: int) -> dict[str, NDArray[np.uint64]]:
        """Return the counts that only the detailed engine has."""


class SimulatedRuns:
    """What was simulated: the references in order, and the set-sampled ones where the trace has them.

    ``line_shares``: per owner, the shares of its misses by pattern (columns: sequential, then as in :data:`LINE_MISSES`).
    """

    def __init__(
        self,
        sampled: Sampled,
        windows: Counted,
        sets: Group | None,
        blocks: BlockSums,
        line_shares: NDArray[np.float64] | None = None,
        memops: NDArray[np.uint64] | None = None,
    ) -> None:
        """``memops``: exact references of all blocks, where they are known."""
        self.sampled = sampled
        self._memops = memops
        self.blocks = blocks
        self._line_shares = line_shares
        self._windows = windows
        self._sets = sets
        self._shares: dict[str, _Shares | None] = {}
        self._totals: dict[tuple[str, int], tuple[NDArray[np.uint64], NDArray[np.uint64]]] = {}
        """Misses and accesses of a machine's level by group."""
        self._block_of = blocks.numbers

    def regrouped(self, blocks: BlockSums, block_of: NDArray[np.uint32]) -> SimulatedRuns:
        """Return the same runs with other sums of owners in place of blocks, each a part of the block ``block_of`` says.

        Each level of a block comes from the same sample.
        """
        other = SimulatedRuns(self.sampled, self._windows, self._sets, blocks, self._line_shares)
        other._shares, other._block_of = self._shares, block_of
        return other

    def _from_sets(self, machine: Target, level: int) -> bool:
        has_sets = self._sets is not None and machine in self._sets
        if level == 0 and self.sampled.classes > EXACT_CLASSES:
            return has_sets and self.sampled.windows is None
        return has_sets and (level > 0 or self.sampled.windows is None or self._even(machine))

    def _set_shares(self, machine: Target) -> _Shares | None:
        """Return what the set sample has of each block's references; None where nothing is known of those."""
        if machine.name not in self._shares:
            self._shares[machine.name] = None if self._memops is None else self._compared(machine, self._memops)
        return self._shares[machine.name]

    def _compared(self, machine: Target, memops: NDArray[np.uint64]) -> _Shares:
        seen = np.zeros(len(memops))
        counts = self._sets.grouped_counts(machine, 0)  # type: ignore[union-attr]
        seen[self.blocks.numbers] = self.blocks.fold(counts.accesses).sum(axis=1)
        ordered = np.zeros(len(memops), dtype=bool)
        ordered[self.blocks.numbers] = self.blocks.fold(self._windows.grouped_counts(machine, 0).accesses).any(axis=1)
        return _Shares(seen, memops.astype(float) / self.sampled.classes * self.sampled.set_share, ordered)

    def _even(self, machine: Target) -> bool:
        """True when the set sample has of each block the share of references that the sets are of all.

        Then it can stand for the first level, too, where the bursts begin with the wrong lines. A program that hammers few sets
        (its stack's, say) is not even: its first level comes from the bursts.
        """
        shares = self._set_shares(machine)
        return shares is not None and shares.even

    def _other(self, machine: Target, level: int) -> NDArray[np.bool_] | None:
        """Return the blocks of a level that come from the references in order although the level comes from the set sample.

        What refers to a few lines all the time, as to the stack or to what a structure holds, lies in sampled sets in whole
        or not at all. An even sample has few such blocks, but says nothing of those it lacks and the wrong thing of those it
        has in part. The larger levels seldom hear of them.
        """
        mixed = level == 0 and self.sampled.windows is not None and self._from_sets(machine, level)
        shares = self._set_shares(machine) if mixed else None
        if shares is None:
            return None
        other = shares.other[self._block_of]
        return other if other.any() else None

    def sample(self, machine: Target, level: int) -> str:
        """Name the sample that a level comes from."""
        return self.sampled.sets if self._from_sets(machine, level) else str(self.sampled.windows)

    def _grouped(self, machine: Target, level: int) -> Counts:
        """Return the counts of a level from its sample, shape (owners, groups); keeps their totals by group."""
        source = self._sets if self._from_sets(machine, level) else self._windows
        counts: Counts = source.grouped_counts(machine, level)  # type: ignore[union-attr]
        self._totals[machine.name, level] = (counts.misses.sum(axis=0), counts.accesses.sum(axis=0))
        return counts

    def _level(self, machine: Target, level: int, touched: NDArray[np.intp] | None = None) -> _Level:
        """Return a level of the caches; ``touched`` are its blocks, without them those with an access."""
        counts, more = self._by_block(self._grouped(machine, level), self._error(machine, level))
        other = self._other(machine, level)
        if other is not None:
            ordered, misses = self._by_block(self._windows.grouped_counts(machine, level), self._window_error)
            counts = BlockCounts(*(np.where(other, there, here) for here, there in zip(counts, ordered, strict=True)))
            more = {name: np.where(other, misses[name], here) for name, here in more.items()}
        more |= {name: self.blocks.fold(array) for name, array in self._windows.more_counts(machine, level).items()}
        touched = np.flatnonzero(counts.accesses) if touched is None else touched
        return _Level(machine.hierarchy[level].level, self.sample(machine, level), touched, counts, more, other)

    def _error(self, machine: Target, level: int) -> float | None:
        """Return the standard error of a level whose sample has none or an unknown one; None: its groups tell."""
        return None if self._from_sets(machine, level) else self._window_error

    @property
    def _window_error(self) -> float | None:
        return {ALL: 0.0, BURSTS: None}.get(str(self.sampled.windows), math.nan)

    def _by_block(self, counts: Counts, error: float | None) -> tuple[BlockCounts, dict[str, NDArray[np.uint64]]]:
        """Return the counts of a level per block, and the misses by pattern.

        Of a program with much code most owners have nothing, of the farther levels nearly all.
        """
        owners = np.flatnonzero((counts.accesses | counts.write_backs).any(axis=1))
        blocks, some = self.blocks.of(owners), Counts(*(array[owners] for array in counts))
        more = {}
        if self._line_shares is not None:
            misses, shares = some.misses.sum(axis=1, dtype=np.uint64), self._line_shares[owners]
            more = {name: blocks.fold_shares(misses, shares[:, number]) for number, name in enumerate(LINE_MISSES, 1)}
        return blocks.level(some, error), more

    def rows(self, machine: Target) -> pl.DataFrame:
        """Return the rows of a machine: every block with an access to the first level that is wanted, level by level, and those
        of its TLB."""
        nearest, *farther = machine.wanted
        first = self._level(machine, nearest)
        caches = [first, *(self._level(machine, level, first.touched) for level in farther)]
        tlb = [self._tlb_level(machine, level) for level in range(len(machine.system.tlb))]
        windows = str(self.sampled.windows)
        frames = [_frame(machine.name, self.blocks.numbers, levels, windows) for levels in (caches, tlb) if levels]
        return pl.concat(frames, how="diagonal")

    def _tlb_level(self, machine: Target, level: int) -> _Level:
        """Return the rows of a level of the TLB, whose name no cache level has."""
        counts = self._windows.grouped_counts(machine, len(machine.hierarchy) + level)
        folded, _ = self._by_block(counts, self._window_error)
        name, sample = machine.system.tlb[level].level, str(self.sampled.windows)
        return _Level(name, sample, np.flatnonzero(folded.accesses), folded, {})

    def _whole_error(self, machine: Target, level: int) -> float | None:
        """Standard error of a level's miss rate over the whole program; None where it is not known."""
        error = self._error(machine, level)
        if error is None:
            if (machine.name, level) not in self._totals:
                self._grouped(machine, level)
            error = float(ratio_error(*self._totals[machine.name, level]))
        return None if math.isnan(error) else error

    def document(self, machine: Target) -> dict[str, Any]:
        """Return the machine's entry in the header."""
        levels = [
            {"level": name, "sample": self.sample(machine, level), "standard_error": self._whole_error(machine, level)}
            for level, name in ((level, machine.hierarchy[level].level) for level in machine.wanted)
        ]
        return {**machine.to_document(), "samples": levels}

    def hit_rates(
        self,
        machines: Sequence[Target],
        references: int,
        inputs: Mapping[str, Any],
        sampling: Any,
        about: Mapping[str, Any] = MappingProxyType({}),
    ) -> HitRates:
        """Return the hit rates of machines; ``about`` stands in the header beside what is said of each of them."""
        table = pl.concat([self.rows(machine) for machine in machines], how="diagonal")
        documents = [{**self.document(machine), **about} for machine in machines]
        return HitRates.make(table, machines=documents, references=references, inputs=inputs, sampling=sampling)

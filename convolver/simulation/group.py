"""The machines of one pass, and their counts per block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from convolver._native.detailed_engine import AnySimulator
from convolver._native.relay import Relay
from convolver._native.simulator import Counts, Geometry, Simulator
from convolver.machine.hierarchy import PAGE_FRAMES, POLICIES, Level
from convolver.machine.memory_system import MemorySystem
from convolver.machine.page_frames import lines_of_page
from convolver.simulation.detailed import DetailedMachine, Details
from convolver.simulation.parallel import ParallelSimulator, SideBySide, dealt, shares
from convolver.simulation.targets import Target

FEED, LEAST_FEED = 1 << 20, 1 << 16
LINE_BYTES = 64
"""Line size that set-sampled references are cut to."""
_NO_DETAILS = Details()
_AnyFed = TypeVar("_AnyFed", AnySimulator, ParallelSimulator, SideBySide, Simulator)


def class_geometry(sets: int, ways: int, classes: int) -> tuple[int, int]:
    """Return sets and ways for a level that gets the lines of one of ``classes`` of sets alone.

    A multiple of the classes stays as it is. Of other numbers of sets the nearest multiple is taken; a level with fewer sets has
    as many as there are classes, with the ways that are their share: what it passes on is about right.
    """
    if sets < classes:
        return classes, max(1, round(ways * sets / classes))
    return (round(sets / classes) or 1) * classes, ways


def _set_geometry(level: Level, classes: int) -> tuple[int, int]:
    """Return :func:`class_geometry` of a level. Of one whose pages lie in frames, classes beyond the lines of a page are some of
    the pages: they find as many frames fewer."""
    if level.index == PAGE_FRAMES and classes > lines_of_page(level.line_bytes):
        return max(level.sets * lines_of_page(level.line_bytes) // classes, lines_of_page(level.line_bytes)), level.ways
    return class_geometry(level.sets, level.ways, classes)


def _sharing(system: MemorySystem, number: int) -> dict[str, Any]:
    """Return which threads share a level, as :class:`Geometry` has it."""
    if number >= system.private_levels:
        return {"parts": system.placed.complexes, "adjacent": system.placed.adjacent}
    return {"parts": system.placed.cores} if system.placed.cores else {"own": True}


class Group:
    """The machines of one pass; those with equal memory systems share one simulation.

    Plain ones go through the fast engine together, the others each through the detailed engine, as do all where ``details`` are
    asked for; there so many ``threads`` have levels of their own. ``by_burst``: counts are kept by groups of bursts, whose
    differences tell how certain they are. ``classes``: all references are to one of so many classes of sets
    (:func:`class_geometry`). ``farther``: the group that has the farther levels of its machines, of which only the first one is
    simulated here.
    """

    def __init__(
        self,
        machines: list[Target],
        details: Details = _NO_DETAILS,
        *,
        by_burst: bool = False,
        classes: int = 1,
        threads: int = 1,
        farther: Group | None = None,
    ) -> None:
        distinct = {machine.hierarchy_id: machine.system for machine in machines}
        fast = {key: system for key, system in distinct.items() if system.plain and not details}
        self._place = {key: place for place, key in enumerate(fast)}
        self._hierarchies = [
            [
                Geometry(
                    *_set_geometry(level, classes),
                    line_bytes=level.line_bytes,
                    policy=POLICIES.index(level.policy),
                    **_sharing(system, number),
                    frames=level.index == PAGE_FRAMES,
                )
                for number, level in enumerate(system.hierarchy[: 1 if farther is not None and key in farther._place else None])
            ]
            for key, system in fast.items()
        ]
        self._detailed = {key: DetailedMachine(system, details, threads) for key, system in distinct.items() if key not in fast}
        self._shared: ParallelSimulator | SideBySide | None = None
        self._by_burst = by_burst
        for machine in self._detailed.values():
            self._grouped(machine.simulator)

    def _grouped(self, simulator: _AnyFed) -> _AnyFed:
        if self._by_burst:
            simulator.group_bursts()
        return simulator

    @cached_property
    def simulator(self) -> Simulator:
        """The simulator of all plain machines, on one thread."""
        return self._grouped(Simulator(self._hierarchies))

    @property
    def _others(self) -> list[AnySimulator]:
        return [machine.simulator for machine in self._detailed.values()]

    @property
    def simulators(self) -> list[AnySimulator]:
        """All simulators; each is to be fed every reference. The fast one comes first, if there is one."""
        fast: list[AnySimulator] = [self.simulator] if self._hierarchies else []
        return [*fast, *self._others]

    def share(self, jobs: int) -> list[ParallelSimulator | AnySimulator]:
        """Return simulators of which the fast one works on several threads; its counts then come from there."""
        if not self._hierarchies:
            return list(self._others)
        shared = self._grouped(ParallelSimulator(self._hierarchies, jobs))
        self._shared = shared
        return [shared, *self._others]

    @contextmanager
    def share_decoded(self, jobs: int) -> Iterator[tuple[AnySimulator | Relay, ...]]:
        """Lend those that a decoder feeds, the fast one on ``jobs`` threads beside it, which end with the context.

        Several machines are dealt out, which costs nothing; of a single one, or where all have one first level, the sets are
        shared out if that is possible.
        """
        shared: ParallelSimulator | SideBySide
        threads = dealt(self._hierarchies, jobs)
        if len(threads) > 1:
            shared = self._grouped(SideBySide(self._hierarchies, threads))
        elif jobs > 1 and self._hierarchies and shares(self._hierarchies, jobs) > 1:
            shared = self._grouped(ParallelSimulator(self._hierarchies, jobs))
        else:
            yield tuple(self.simulators)
            return
        self._shared = shared
        with closing(shared.relay()) as relay:
            yield relay, *self._others

    @property
    def at_once(self) -> int:
        """References to feed in one call into the C core: some tens of milliseconds, so that an interrupt is seen soon."""
        return LEAST_FEED if self._detailed else max(FEED // len(self._hierarchies), LEAST_FEED)

    @property
    def _fed(self) -> ParallelSimulator | SideBySide | AnySimulator:
        return self._shared or self.simulators[0]

    @property
    def owners(self) -> int:
        """One more than the largest owner fed."""
        return self._fed.owners

    @property
    def references(self) -> int:
        """References fed."""
        return self._fed.references

    def __contains__(self, machine: Target) -> bool:
        return machine.hierarchy_id in self._place or machine.hierarchy_id in self._detailed

    def grouped_counts(self, machine: Target, level: int) -> Counts:
        """Return the counts of one level of a machine, shape (owners, groups): of sets or bursts, or one of all."""
        if detailed := self._detailed.get(machine.hierarchy_id):
            return detailed.grouped_counts(level)
        return (self._shared or self.simulator).grouped_counts(self._place[machine.hierarchy_id], level)

    def more_counts(self, machine: Target, level: int) -> dict[str, NDArray[np.uint64]]:
        """Return the counts per owner that only the detailed engine has: none of a machine that the fast engine simulated."""
        detailed = self._detailed.get(machine.hierarchy_id)
        return detailed.more_counts(level) if detailed else {}


class BlockCounts(NamedTuple):
    """Counts of one level; arrays over blocks, in any one order."""

    accesses: NDArray[np.uint64]
    misses: NDArray[np.uint64]
    write_backs: NDArray[np.uint64]
    standard_error: NDArray[np.float64]


class BlockSums:
    """Sums counts per owner into counts per block. ``numbers`` are the blocks, rising."""

    def __init__(self, owner_blocks: NDArray[np.uint32] | None, owners: int) -> None:
        """``owner_blocks``: block of each owner; None where owners are blocks and there are ``owners`` of them."""
        blocks = np.arange(owners, dtype=np.uint32) if owner_blocks is None else owner_blocks[:owners]
        self.numbers, self._place = np.unique(blocks, return_inverse=True)
        """``_place``: of each owner, where its block stands in ``numbers``."""
        self._orders: dict[int, tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]] = {}

    def of(self, owners: NDArray[np.intp]) -> BlockSums:
        """Return the sums over these owners alone; arrays are then of them."""
        part = copy(self)
        part._place, part._orders = self._place[owners], {}
        return part

    def fold(self, by_owner: NDArray[Any]) -> NDArray[Any]:
        """Return the sums over the owners of each block; further axes stay. Owners beyond the array count for nothing."""
        found = np.zeros((len(self.numbers), *by_owner.shape[1:]), dtype=by_owner.dtype)
        order, places, first = self._by_place(len(by_owner))
        found[places] = np.add.reduceat(by_owner[order], first, axis=0)
        return found

    def _by_place(self, owners: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Return the first owners in the order of their blocks, these blocks' places, and where in that order each one begins."""
        if owners not in self._orders:
            order = np.argsort(self._place[:owners], kind="stable")
            places = self._place[order]
            first = np.flatnonzero(np.diff(places, prepend=-1))
            self._orders[owners] = order, places[first], first
        return self._orders[owners]

    def fold_shares(self, counts: NDArray[np.uint64], shares: NDArray[np.float64]) -> NDArray[np.uint64]:
        """Return the counts of the blocks, each owner's weighted with its share, rounded down."""
        return self.fold(counts * shares[: len(counts)]).astype(np.uint64)

    def level(self, counts: Counts, error: float | None) -> BlockCounts:
        """Return the counts of a level per block, given those by group.

        ``error`` is the standard error of all of them (0: exact, nan: unknown); None: the groups tell it.
        """
        accesses, misses, write_backs = (self.fold(array) for array in counts)
        error_of = ratio_error(misses, accesses) if error is None else np.full(len(accesses), error)
        return BlockCounts(accesses.sum(axis=1), misses.sum(axis=1), write_backs.sum(axis=1), error_of)


def ratio_error(misses: NDArray[np.uint64], accesses: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Standard error of sum(misses) / sum(accesses) along the last axis, whose elements are groups of sets or of bursts.

    Groups without an access say nothing; with fewer than two others the error is unknown (nan), and where all accesses miss
    or none does, since groups that are all alike cannot tell how far off they are. The usual estimate for a ratio of totals
    (Cochran, Sampling Techniques, equation 6.13), with one miss more or less in each group: groups that agree leave that open.
    """
    a, m = accesses.astype(float), misses.astype(float)
    total, used = a.sum(axis=-1), (a > 0).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        residuals = m - a * (m.sum(axis=-1) / total)[..., np.newaxis]
        error = np.sqrt(((residuals**2).sum(axis=-1) / (used - 1) + 1) * used) / total
    total_misses = m.sum(axis=-1)
    return np.where((used > 1) & (total_misses > 0) & (total_misses < total), error, np.nan)

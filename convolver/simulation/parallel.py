"""Exact simulation on several threads: each simulates some of the machines, or its share of the cache sets of every machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.relay import Relay
from convolver._native.simulator import Counts, Geometry, Simulator
from convolver.machine.hierarchy import DEPENDENT_POLICIES, POLICIES
from convolver.machine.page_frames import lines_of_page


def shares(hierarchies: Sequence[Sequence[Geometry]], jobs: int) -> int:
    """Return into how many equal shares the sets can be cut for ``jobs`` threads: a power of two that divides all set counts.

    Lines of a page stay apart where pages lie in frames. One where a level has a policy whose sets depend on each other.
    """
    every = [level for levels in hierarchies for level in levels]
    if any(POLICIES[level.policy] in DEPENDENT_POLICIES for level in every):
        return 1
    common = math.gcd(*(level.sets for level in every), *(lines_of_page(level.line_bytes) for level in every if level.frames))
    return min(common & -common, 1 << (max(jobs, 1).bit_length() - 1))


class _OnThreads:
    """Simulators that are fed beside a decoder, each on a thread of its own."""

    simulators: list[Simulator]

    def group_bursts(self) -> None:
        """As :meth:`Simulator.group_bursts`."""
        for simulator in self.simulators:
            simulator.group_bursts()

    def relay(self) -> Relay:
        """Return what a decoder feeds: the simulators on threads beside it."""
        return Relay(self.simulators)

    @property
    def references(self) -> int:
        """References fed so far."""
        return self.simulators[0].references

    @property
    def owners(self) -> int:
        """One more than the largest owner fed so far."""
        return max(simulator.owners for simulator in self.simulators)


class ParallelSimulator(_OnThreads):
    """Used like a :class:`Simulator`.

    Lines whose numbers differ in their low bits never meet in a set, so the threads share nothing.
    """

    def __init__(self, hierarchies: Sequence[Sequence[Geometry]], jobs: int) -> None:
        count = shares(hierarchies, jobs)
        self.simulators = [Simulator(hierarchies) for _ in range(count)]
        for value, simulator in enumerate(self.simulators):
            simulator.select(count - 1, value)
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

    def limit_owners(self, owners: int) -> None:
        """As :meth:`Simulator.limit_owners`."""
        for simulator in self.simulators:
            simulator.limit_owners(owners)

    def feed(self, *arrays: NDArray[Any] | None) -> None:
        """Simulate a batch; the C core runs without the interpreter's lock."""
        if self._pool is None:
            self.simulators[0].feed(*arrays)  # type: ignore[arg-type]
            return
        for done in [self._pool.submit(simulator.feed, *arrays) for simulator in self.simulators]:  # type: ignore[arg-type]
            done.result()

    def grouped_counts(self, hierarchy: int, level: int) -> Counts:
        """Return the counts of one level of one hierarchy, shape (owners, groups)."""
        shape = (self.owners, self.simulators[0].groups)
        total = Counts(*(np.zeros(shape, dtype=np.uint64) for _ in range(3)))
        for simulator in self.simulators:
            for sums, part in zip(total, simulator.grouped_counts(hierarchy, level), strict=True):
                sums[: len(part)] += part
        return total


def dealt(hierarchies: Sequence[Sequence[Geometry]], jobs: int) -> list[list[int]]:
    """Return the machines (their places) of each of at most ``jobs`` threads, none empty.

    Those with equal first levels stay together, since one simulator simulates what they have in common once.
    """
    alike: dict[Geometry, list[int]] = {}
    for place, levels in enumerate(hierarchies):
        alike.setdefault(levels[0], []).append(place)
    threads: list[list[int]] = [[] for _ in range(min(jobs, len(alike)))]
    for places in sorted(alike.values(), key=len, reverse=True):
        min(threads, key=len).extend(places)
    return threads


class SideBySide(_OnThreads):
    """Machines dealt out to threads beside a decoder; used like a :class:`Simulator` once they were fed."""

    def __init__(self, hierarchies: Sequence[Sequence[Geometry]], threads: Sequence[Sequence[int]]) -> None:
        """``threads`` are the places of each thread's machines."""
        self.simulators = [Simulator([hierarchies[place] for place in places]) for places in threads]
        self._home = {place: (thread, at) for thread, places in enumerate(threads) for at, place in enumerate(places)}

    def grouped_counts(self, hierarchy: int, level: int) -> Counts:
        """Return the counts of one level of one hierarchy, shape (owners, groups)."""
        thread, place = self._home[hierarchy]
        return self.simulators[thread].grouped_counts(place, level)

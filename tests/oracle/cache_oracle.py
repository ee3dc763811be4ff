"""A slow, obvious model of cache hierarchies: one reference at a time, every line in its way."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from tests.oracle.policies import POLICIES


class Counts(NamedTuple):
    accesses: Counter
    misses: Counter
    write_backs: Counter


class Set:
    """One set: lines and dirty bits by way, and what the policy remembers."""

    def __init__(self, ways: int, number: int, policy: str, shared: dict) -> None:
        self.lines: list[int | None] = [None] * ways
        self.dirty = [False] * ways
        self.policy = POLICIES[policy](ways, number, shared)


class Cache:
    """One level."""

    def __init__(self, sets: int, ways: int, below: Cache | None, policy: str = "lru") -> None:
        shared: dict = {}
        self.sets = [Set(ways, number, policy, shared) for number in range(sets)]
        self.below = below
        self.counts = Counts(Counter(), Counter(), Counter())

    def _place(self, line: int, dirty: bool, block: int) -> None:
        """Put a line into an empty way or instead of a victim, which is written to the level below when it is dirty."""
        own = self.sets[line % len(self.sets)]
        way = own.lines.index(None) if None in own.lines else own.policy.victim()
        victim, was_dirty = own.lines[way], own.dirty[way]
        own.lines[way], own.dirty[way] = line, dirty
        own.policy.fill(way)
        if was_dirty:
            self.counts.write_backs[block] += 1
            if self.below:
                self.below.write_line(victim, block)

    def _promote(self, line: int, dirty: bool) -> bool:
        own = self.sets[line % len(self.sets)]
        if line not in own.lines:
            return False
        way = own.lines.index(line)
        own.dirty[way] = own.dirty[way] or dirty
        own.policy.hit(way)
        return True

    def access(self, line: int, write: bool, block: int) -> None:
        """A demand access: fetch on a miss, then make room."""
        self.counts.accesses[block] += 1
        if self._promote(line, write):
            return
        self.counts.misses[block] += 1
        if self.below:
            self.below.access(line, False, block)
        self._place(line, write, block)

    def write_line(self, line: int, block: int) -> None:
        """A whole dirty line comes from the level above: no access, no fetch."""
        if not self._promote(line, True):
            self._place(line, True, block)


def simulate(references, hierarchy, line_bytes):
    """Run (address, size, write, block) tuples through [(sets, ways, policy), ...]; returns Counts per level."""
    caches: list[Cache] = []
    for sets, ways, policy in reversed(hierarchy):
        caches.insert(0, Cache(sets, ways, caches[0] if caches else None, policy))
    for address, size, write, block in references:
        for line in range(address // line_bytes, (min(address + size, 1 << 64) - 1) // line_bytes + 1):
            caches[0].access(line, write, block)
    return [cache.counts for cache in caches]

"""A slow, obvious model of cache hierarchies: lists in recency order, one reference at a time."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class Counts(NamedTuple):
    accesses: Counter
    misses: Counter
    write_backs: Counter


class Cache:
    """One level. Each set is a list of [line, dirty], most recent first."""

    def __init__(self, sets: int, ways: int, below: Cache | None) -> None:
        self.sets = [[] for _ in range(sets)]
        self.ways = ways
        self.below = below
        self.counts = Counts(Counter(), Counter(), Counter())

    def _find(self, line: int) -> list | None:
        return next((entry for entry in self.sets[line % len(self.sets)] if entry[0] == line), None)

    def _place(self, line: int, dirty: bool, block: int) -> None:
        """Put a line in front; what falls out at the back is written to the level below when it is dirty."""
        entries = self.sets[line % len(self.sets)]
        entries.insert(0, [line, dirty])
        if len(entries) > self.ways:
            victim, was_dirty = entries.pop()
            if was_dirty:
                self.counts.write_backs[block] += 1
                if self.below:
                    self.below.write_line(victim, block)

    def _promote(self, line: int, dirty: bool) -> bool:
        entry = self._find(line)
        if entry is None:
            return False
        entries = self.sets[line % len(self.sets)]
        entries.remove(entry)
        entries.insert(0, [line, entry[1] or dirty])
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
    """Run (address, size, write, block) tuples through [(sets, ways), ...]; returns Counts per level."""
    caches: list[Cache] = []
    for sets, ways in reversed(hierarchy):
        caches.insert(0, Cache(sets, ways, caches[0] if caches else None))
    for address, size, write, block in references:
        for line in range(address // line_bytes, (min(address + size, 1 << 64) - 1) // line_bytes + 1):
            caches[0].access(line, write, block)
    return [cache.counts for cache in caches]

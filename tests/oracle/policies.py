"""Slow, obvious models of the replacement policies: what a set remembers, and which way it gives up."""

from __future__ import annotations

MASK = (1 << 64) - 1


class Fifo:
    """Ways in the order in which they were filled."""

    def __init__(self, ways: int, number: int) -> None:
        self.order: list[int] = []

    def hit(self, way: int) -> None:
        pass

    def fill(self, way: int) -> None:
        if way in self.order:
            self.order.remove(way)
        self.order.append(way)

    def victim(self) -> int:
        return self.order[0]


class Lru(Fifo):
    """Ways in the order in which they were used."""

    def hit(self, way: int) -> None:
        self.fill(way)


class Random:
    """A hash of the set's number and how many lines it gave up (splitmix64)."""

    def __init__(self, ways: int, number: int) -> None:
        self.ways, self.number, self.given_up = ways, number, 0

    def hit(self, way: int) -> None:
        pass

    def fill(self, way: int) -> None:
        pass

    def victim(self) -> int:
        self.given_up += 1
        z = (self.number * 0x9E3779B97F4A7C15 + self.given_up * 0xD1B54A32D192ED03) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % self.ways


class TreePlru:
    """Halves within halves; each remembers which of its two was used less recently."""

    def __init__(self, ways: int, number: int) -> None:
        self.ways = ways
        self.older_is_upper: dict[tuple[int, int], bool] = {}

    def hit(self, way: int) -> None:
        low, size = 0, self.ways
        while size > 1:
            size //= 2
            upper = way >= low + size
            self.older_is_upper[low, size] = not upper
            low += size if upper else 0

    fill = hit

    def victim(self) -> int:
        low, size = 0, self.ways
        while size > 1:
            size //= 2
            low += size if self.older_is_upper.get((low, size), False) else 0
        return low


class BitPlru:
    """The ways used since they were last all used."""

    def __init__(self, ways: int, number: int) -> None:
        self.ways = ways
        self.used: set[int] = set()

    def hit(self, way: int) -> None:
        self.used.add(way)
        if len(self.used) == self.ways:
            self.used = {way}

    fill = hit

    def victim(self) -> int:
        return min(set(range(self.ways)) - self.used, default=0)


class Srrip:
    """Predicted intervals until the next use, 0 to 3."""

    def __init__(self, ways: int, number: int) -> None:
        self.interval = [3] * ways

    def hit(self, way: int) -> None:
        self.interval[way] = 0

    def fill(self, way: int) -> None:
        self.interval[way] = 2

    def victim(self) -> int:
        while 3 not in self.interval:
            self.interval = [interval + 1 for interval in self.interval]
        return self.interval.index(3)


POLICIES = {"lru": Lru, "fifo": Fifo, "random": Random, "tree-plru": TreePlru, "bit-plru": BitPlru, "srrip": Srrip}

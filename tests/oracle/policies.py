"""Slow, obvious models of the replacement policies: what a set remembers, and which way it gives up."""

from __future__ import annotations

MASK = (1 << 64) - 1


def random_number(seed: int, number: int, count: int) -> int:
    """A hash of a seed, a set's number and a count (splitmix64)."""
    z = (number * 0x9E3779B97F4A7C15 + count * 0xD1B54A32D192ED03 + seed * 0x8BB84B93962EACC9) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class Policy:
    """One set of a level; ``shared`` is a dictionary that all sets of the level have in common."""

    def __init__(self, ways: int, number: int, shared: dict | None = None, seed: int = 0) -> None:
        self.ways, self.number, self.seed = ways, number, seed
        self.shared = {} if shared is None else shared
        self.begin()

    def begin(self) -> None:
        """Nothing was filled yet."""

    def hit(self, way: int) -> None:
        """The line in a way was used again."""

    def fill(self, way: int) -> None:
        """A new line is in a way."""


class Fifo(Policy):
    """Ways in the order in which they were filled."""

    def begin(self) -> None:
        self.order: list[int] = []

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


class Random(Policy):
    """A hash of the set's number and how many lines it gave up."""

    def begin(self) -> None:
        self.given_up = 0

    def victim(self) -> int:
        self.given_up += 1
        return random_number(self.seed, self.number, self.given_up) % self.ways


class Nmru(Policy):
    """A random way among those that were not used last."""

    def begin(self) -> None:
        self.last, self.given_up = 0, 0

    def hit(self, way: int) -> None:
        self.last = way

    fill = hit

    def victim(self) -> int:
        self.given_up += 1
        others = [way for way in range(self.ways) if way != self.last]
        return others[random_number(self.seed, self.number, self.given_up) % len(others)] if others else 0


class TreePlru(Policy):
    """Halves within halves; each remembers which of its two was used less recently."""

    def begin(self) -> None:
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


class BitPlru(Policy):
    """The ways used since they were last all used."""

    def begin(self) -> None:
        self.used: set[int] = set()

    def hit(self, way: int) -> None:
        self.used.add(way)
        if len(self.used) == self.ways:
            self.used = {way}

    fill = hit

    def victim(self) -> int:
        return min(set(range(self.ways)) - self.used, default=0)


class Srrip(Policy):
    """Predicted intervals until the next use, 0 to 3."""

    def begin(self) -> None:
        self.interval = [3] * self.ways

    def hit(self, way: int) -> None:
        self.interval[way] = 0

    def fill(self, way: int) -> None:
        self.interval[way] = 2

    def victim(self) -> int:
        while 3 not in self.interval:
            self.interval = [interval + 1 for interval in self.interval]
        return self.interval.index(3)


class Drrip(Srrip):
    """Sets 0, 32, ... fill as Srrip, sets 16, 48, ... mostly with the longest interval; the others follow the better."""

    def fill(self, way: int) -> None:
        score = self.shared.get("score", 0)  # misses of the first kind minus those of the second
        bimodal = score > 0
        if self.number % 32 == 0:
            self.shared["score"], bimodal = min(score + 1, 511), False
        elif self.number % 32 == 16:
            self.shared["score"], bimodal = max(score - 1, -512), True
        self.interval[way] = 2
        if bimodal:
            self.shared["bimodal"] = self.shared.get("bimodal", 0) + 1
            self.interval[way] = 2 if self.shared["bimodal"] % 32 == 0 else 3


POLICIES = {
    "lru": Lru,
    "fifo": Fifo,
    "random": Random,
    "tree-plru": TreePlru,
    "bit-plru": BitPlru,
    "srrip": Srrip,
    "drrip": Drrip,
    "nmru": Nmru,
}

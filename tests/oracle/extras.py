"""Slow, obvious models of what a level may have beside lines: index functions, prefetchers, write combining, the shadow cache."""

from __future__ import annotations

from collections import OrderedDict

MASK = (1 << 64) - 1
INTEL_BITS = (
    (6, 10, 12, 14, 16, 17, 18, 20, 22, 24, 25, 26, 27, 28, 30, 32, 33, 35, 36),
    (7, 11, 13, 15, 17, 19, 20, 21, 22, 23, 24, 26, 28, 29, 31, 33, 34, 35, 37),
    (8, 12, 13, 16, 19, 22, 23, 26, 27, 30, 31, 34, 35, 36, 37),
)
"""Address bits whose parity is a bit of the slice (Maurice et al., RAID 2015, table 2)."""


def set_number(options, number: int) -> int:
    """The set of a line."""
    sets, slices = options.sets, options.slices
    if options.index == "xor":
        found = 0
        while number and sets > 1:
            number, group = divmod(number, sets)
            found ^= group
        return found
    if options.index == "intel-slices":
        address = number * options.line
        bits = [sum(address >> bit & 1 for bit in places) % 2 for places in INTEL_BITS[: slices.bit_length() - 1]]
        return sum(bit << place for place, bit in enumerate(bits)) * (sets // slices) + number % (sets // slices)
    if options.index == "mixed-slices":
        z = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % slices * (sets // slices) + number % (sets // slices)
    if options.index == "page-frames" and options.line < 4096:
        page, within = divmod(number, 4096 // options.line)
        z = ((page & (1 << 49) - 1) + 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) * (4096 // options.line) + within) % sets
    return number % sets


class NextLine:
    """The lines after one that missed or that was prefetched and is used for the first time."""

    def __init__(self, options) -> None:
        self.degree = options.degree

    def learn(self, number: int, address: int, owner: int, news: bool) -> list[int]:
        return [number + k for k in range(1, self.degree + 1)] if news else []


class Stride:
    """The same distance three times in a row, by owner; owners share entries by remainder."""

    def __init__(self, options) -> None:
        self.line, self.degree, self.entries = options.line, options.degree, options.entries
        self.known: dict[int, dict] = {}

    def learn(self, number: int, address: int, owner: int, news: bool) -> list[int]:
        entry = self.known.get(owner % self.entries)
        if entry is None or entry["owner"] != owner:
            self.known[owner % self.entries] = {"owner": owner, "last": address, "step": 0, "times": 0}
            return []
        step = (address - entry["last"] + (1 << 63)) % (1 << 64) - (1 << 63)
        if step == 0:
            return []
        entry["times"] = entry["times"] + 1 if step == entry["step"] else 0
        entry["step"], entry["last"] = step, address
        if entry["times"] < 2:
            return []
        if abs(step) < self.line:
            return [number + (k if step > 0 else -k) for k in range(1, self.degree + 1)]
        return [(address + k * step) % (1 << 64) // self.line for k in range(1, self.degree + 1)]


class Stream:
    """Lines that follow each other within four, in one direction."""

    def __init__(self, options) -> None:
        self.degree, self.entries = options.degree, options.entries
        self.streams: list[dict | None] = [None] * options.entries
        self.now = 0

    def learn(self, number: int, address: int, owner: int, news: bool) -> list[int]:
        if not news:
            return []
        self.now += 1
        for stream in self.streams:
            if stream and 1 <= abs(number - stream["last"]) <= 4:
                way = 1 if number > stream["last"] else -1
                if stream["way"] in (0, way):
                    stream.update(last=number, way=way, lines=stream["lines"] + 1, used=self.now)
                    return [number + k * way for k in range(1, self.degree + 1)] if stream["lines"] >= 3 else []
        oldest = min(range(self.entries), key=lambda i: self.streams[i]["used"] if self.streams[i] else 0)
        self.streams[oldest] = {"last": number, "way": 0, "lines": 1, "used": self.now}
        return []


def prefetcher(options):
    """The prefetcher of a level, or None."""
    kinds = {"next-line": NextLine, "stride": Stride, "stream": Stream}
    return kinds[options.prefetcher](options) if options.prefetcher != "none" else None


class Combining:
    """Stores by line, in order of arrival: which bytes, and who wrote last."""

    def __init__(self, entries: int, line: int) -> None:
        self.entries, self.line = entries, line
        self.waiting: OrderedDict[int, tuple[set[int], int]] = OrderedDict()

    def take(self, number: int):
        """Remove a line: ((first, end), owner, without holes); None where nothing waits."""
        if number not in self.waiting:
            return None
        written, owner = self.waiting.pop(number)
        first, end = min(written), max(written) + 1
        return (first, end), owner, len(written) == end - first

    def make_room(self, where):
        """The oldest line, where another one needs its place."""
        number = where[0] // self.line
        full = number not in self.waiting and len(self.waiting) == self.entries
        return self.take(next(iter(self.waiting))) if full else None

    def add(self, where, owner: int):
        """Join a store to its line; returns the line when it is full."""
        number = where[0] // self.line
        written, _ = self.waiting.get(number, (set(), 0))
        written |= set(range(*where))
        self.waiting[number] = (written, owner)
        return self.take(number) if len(written) == self.line else None


class Shadow:
    """A fully associative LRU cache asked for the same lines, and everything that was ever asked for."""

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self.held: OrderedDict[int, None] = OrderedDict()
        self.seen: set[tuple[int, int]] = set()

    def access(self, number: int, sectors: set[int]) -> str:
        """Return the cause that a miss would have, and remember the access."""
        asked = {(number, sector) for sector in sectors}
        cause = "conflict" if number in self.held else "capacity"
        if not asked <= self.seen:
            cause = "compulsory"
        self.seen |= asked
        self.held[number] = None
        self.held.move_to_end(number)
        if len(self.held) > self.lines:
            self.held.popitem(last=False)
        return cause

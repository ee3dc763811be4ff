"""A slow, obvious model of hierarchies with every option: one line at a time, sectors as Python sets, no shortcut.

Bytes are pairs (first, end), ``end`` excluded. What each level does is explained in docs/cache-model.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.oracle.extras import Combining, Shadow, prefetcher, set_number
from tests.oracle.policies import POLICIES

Bytes = tuple[int, int]


@dataclass
class Options:
    """One level, as in the machine document, with numbers of sets."""

    sets: int
    ways: int
    line: int = 64
    sector: int = 0
    policy: str = "lru"
    seed: int = 0
    inclusion: str = "non-inclusive"
    write: str = "back"
    allocate: bool = True
    combining: int = 0
    index: str = "modulo"
    slices: int = 1
    prefetcher: str = "none"
    degree: int = 1
    entries: int = 1
    classify: bool = False
    shared: bool = False


@dataclass
class Line:
    """A line in a way: sectors by number."""

    number: int
    valid: set[int] = field(default_factory=set)
    dirty: set[int] = field(default_factory=set)
    fresh: bool = False


class Cache:
    """One level of one core. ``counts``: by column and owner; the cores' are one."""

    def __init__(self, options: Options, below: Cache | None, counts: dict[str, Counter], run: Run) -> None:
        self.is_, self.below, self.counts, self.run = options, below, counts, run
        self.sector = options.sector or options.line
        self.above: list[Cache] = []
        if below:
            below.above.append(self)
        shared: dict = {}
        self.ways: list[list[Line | None]] = [[None] * options.ways for _ in range(options.sets)]
        self.policies = [POLICIES[options.policy](options.ways, n, shared, options.seed) for n in range(options.sets)]
        self.prefetcher = prefetcher(options)
        self.shadow = Shadow(options.sets * options.ways) if options.classify else None
        self.combining = Combining(options.combining, options.line) if options.combining else None

    @property
    def takes_victims(self) -> bool:
        return self.is_.inclusion in ("exclusive", "victim")

    @property
    def allocates(self) -> bool:
        return self.is_.allocate and not self.takes_victims

    def count(self, column: str, owner: int, amount: int = 1) -> None:
        self.counts[column][owner] += amount

    # Lines and sectors

    def lines_of(self, where: Bytes) -> list[tuple[int, Bytes]]:
        """Lines with the part of the bytes in each."""
        size = self.is_.line
        return [
            (n, (max(where[0], n * size), min(where[1], (n + 1) * size)))
            for n in range(where[0] // size, (where[1] - 1) // size + 1)
        ]

    def touched(self, where: Bytes) -> set[int]:
        return {byte % self.is_.line // self.sector for byte in (*range(where[0], where[1], self.sector), where[1] - 1)}

    def covered(self, where: Bytes) -> set[int]:
        """Sectors of the line that lie in the bytes as a whole."""
        start = where[0] // self.is_.line * self.is_.line
        inside = range(self.is_.line // self.sector)
        return {n for n in inside if where[0] <= start + n * self.sector and start + (n + 1) * self.sector <= where[1]}

    def runs(self, number: int, sectors: set[int]) -> list[Bytes]:
        """Adjacent sectors of a line as bytes."""
        found: list[Bytes] = []
        start = number * self.is_.line
        for sector in sorted(sectors):
            first, end = start + sector * self.sector, start + (sector + 1) * self.sector
            if found and found[-1][1] == first:
                found[-1] = (found[-1][0], end)
            else:
                found.append((first, end))
        return found

    def find(self, number: int) -> tuple[int, int | None]:
        """Set and way of a line."""
        place = set_number(self.is_, number)
        found = [way for way, line in enumerate(self.ways[place]) if line and line.number == number]
        return place, found[0] if found else None

    def line(self, number: int) -> Line | None:
        place, way = self.find(number)
        return None if way is None else self.ways[place][way]

    def promote(self, number: int) -> None:
        place, way = self.find(number)
        self.policies[place].hit(way)

    def take_out(self, number: int, owner: int) -> Line:
        """Remove a line; an inclusive level takes it from all levels above and keeps what was dirty there."""
        place, way = self.find(number)
        line = self.ways[place][way]
        if self.is_.inclusion == "inclusive":
            for cache in self.above:
                for first, end in cache.remove_all((number * self.is_.line, (number + 1) * self.is_.line), owner):
                    line.dirty |= self.touched((first, end))
        self.count("evictions", owner)
        self.count("unused_prefetches", owner, int(line.fresh))
        self.ways[place][way] = None
        return line

    def remove_all(self, where: Bytes, owner: int) -> list[Bytes]:
        """Remove the lines of these bytes here and above; returns what was dirty."""
        dirty: list[Bytes] = []
        for number, _ in self.lines_of(where):
            if self.line(number):
                self.count("back_invalidations", owner)
                dirty += self.runs(number, self.take_out(number, owner).dirty)
        return dirty + [part for cache in self.above for part in cache.remove_all(where, owner)]

    def put(self, line: Line, owner: int) -> None:
        """A new line into the lowest empty way, or instead of a victim, which goes down."""
        place = set_number(self.is_, line.number)
        ways, victim = self.ways[place], None
        if None in ways:
            way = ways.index(None)
        else:
            way = self.policies[place].victim()
            victim = self.take_out(ways[way].number, owner)
        ways[way] = line
        self.policies[place].fill(way)
        self.count("fills", owner)
        if victim:
            self.send_down(victim, owner)

    def merge(self, new: Line, owner: int) -> None:
        """Add sectors to the line that is there, or put a new one."""
        old = self.line(new.number)
        if old is None:
            self.put(new, owner)
            return
        old.valid |= new.valid
        old.dirty |= new.dirty
        self.promote(new.number)

    # What leaves

    def send_down(self, line: Line, owner: int) -> None:
        below = self.below
        if line.dirty:
            self.count("write_backs", owner)
        if below and below.takes_victims:
            self.count("castouts", owner, int(not line.dirty))
            self.count("bytes_written", owner, len(line.valid) * self.sector)
            below.merge(Line(line.number, line.valid, line.dirty), owner)
            return
        self.count("bytes_written", owner, len(line.dirty) * self.sector)
        for where in self.runs(line.number, line.dirty):
            if below:
                below.write_back(where, owner)

    def write_back(self, where: Bytes, owner: int) -> None:
        """Dirty bytes come from above: no access, and a fetch only of sectors that they do not fill."""
        for number, part in self.lines_of(where):
            line, need = self.line(number), self.touched(part)
            if self.run.semantics == "pycachesim":
                if line is None:
                    self.read(part, owner)
                self.line(number).dirty |= need
            elif line is None and not self.allocates and not self.takes_victims:
                self.hand_on(part, owner)
            else:
                missing = need - self.covered(part) - (line.valid if line else set())
                moved = self.fetch(number, missing, owner)
                dirty = need if self.is_.write == "back" else set()
                self.merge(Line(number, need | moved.valid, dirty | moved.dirty), owner)
                if self.is_.write == "through":
                    self.hand_on(part, owner)

    def hand_on(self, where: Bytes, owner: int) -> None:
        self.count("write_backs", owner)
        self.count("bytes_written", owner, where[1] - where[0])
        if self.below:
            self.below.write_back(where, owner)

    # What is asked

    def access(self, number: int, where: Bytes, owner: int) -> bool:
        """Count; True for a hit."""
        line, need = self.line(number), self.touched(where)
        hit = line is not None and need <= line.valid
        self.count("accesses", owner)
        cause = self.shadow.access(number, need) if self.shadow else None
        if not hit:
            self.count("misses", owner)
            if cause:
                self.count(cause, owner)
        return hit

    def use_fresh(self, number: int, owner: int) -> bool:
        line = self.line(number)
        was = line is not None and line.fresh
        if was:
            line.fresh = False
            self.count("useful_prefetches", owner)
        return was

    def fetch(self, number: int, missing: set[int], owner: int, demand: bool = True) -> Line:
        """Ask below for sectors; returns what an exclusive level gives away."""
        moved = Line(number)
        if self.combining and missing:
            self.send_combined(self.combining.take(number))
        while missing:
            first, end = self.runs(number, missing)[0]
            missing = missing - self.touched((first, end))
            self.count("bytes_read", owner, end - first)
            if demand:
                self.count("fetches", owner, len(self.below.lines_of((first, end))) if self.below else 1)
            if self.below:
                got = self.below.read((first, end), owner, demand)
                moved.valid |= got.valid
                moved.dirty |= got.dirty
                missing = missing - moved.valid
        return moved

    def read(self, where: Bytes, owner: int, demand: bool = True) -> Line:
        moved = Line(-1)
        for number, part in self.lines_of(where):
            got = self.read_line(number, part, owner, demand)
            moved.valid |= got.valid
            moved.dirty |= got.dirty
        return moved

    def read_line(self, number: int, where: Bytes, owner: int, demand: bool) -> Line:
        need = self.touched(where)
        line = self.line(number)
        have = line is not None and need <= line.valid
        news = False
        if demand:
            news = not self.access(number, where, owner)
            news |= self.use_fresh(number, owner)
        missing = need - (line.valid if line else set())
        if self.takes_victims:
            moved = Line(number)
            if line and self.is_.inclusion == "exclusive":
                moved = self.take_out(number, owner)
            elif line:
                self.promote(number)
            got = self.fetch(number, missing, owner, demand)
            return Line(number, moved.valid | got.valid, moved.dirty | got.dirty)
        if have:
            self.promote(number)
        else:
            moved = self.fetch(number, missing, owner, demand)
            self.merge(Line(number, need | moved.valid, set(moved.dirty)), owner)
        if demand:
            self.learn(number, where, owner, news)
        return Line(number)

    def store(self, where: Bytes, owner: int, complete: bool = False) -> None:
        """A store: ``complete`` ones need no fetch of what they cover, unless an inclusive level below must see it."""
        for number, part in self.lines_of(where):
            self.store_line(number, part, owner, complete)

    def store_line(self, number: int, where: Bytes, owner: int, complete: bool) -> None:
        need, line = self.touched(where), self.line(number)
        hit = self.access(number, where, owner)
        news = not hit
        news |= self.use_fresh(number, owner)
        if hit and self.run.semantics != "pycachesim":
            self.promote(number)
        if not hit and self.allocates:
            missing = need - (line.valid if line else set())
            if complete and not self.inclusive_below():
                missing -= self.covered(where)
            moved = self.fetch(number, missing, owner)
            self.merge(Line(number, need | moved.valid, set(moved.dirty)), owner)
        if (hit or self.allocates) and self.is_.write == "back":
            self.line(number).dirty |= need
        else:
            self.pass_on(where, owner, complete)
        self.learn(number, where, owner, news)

    def inclusive_below(self) -> bool:
        below = self.below
        return below is not None and (below.is_.inclusion == "inclusive" or below.inclusive_below())

    def pass_on(self, where: Bytes, owner: int, complete: bool) -> None:
        if self.combining:
            while out := self.combining.make_room(where):
                self.send_combined(out)
            self.send_combined(self.combining.add(where, owner))
        else:
            self.send_store(where, owner, complete)

    def send_combined(self, entry: tuple[Bytes, int, bool] | None) -> None:
        if entry:
            self.send_store(*entry)

    def send_store(self, where: Bytes, owner: int, complete: bool) -> None:
        self.count("writes_through", owner, len(self.below.lines_of(where)) if self.below else 1)
        self.count("bytes_written", owner, where[1] - where[0])
        if self.below:
            self.below.store(where, owner, complete)

    # Prefetching

    def learn(self, number: int, where: Bytes, owner: int, news: bool) -> None:
        if self.prefetcher:
            self.run.wishes += [(self, wish) for wish in self.prefetcher.learn(number, where[0], owner, news)]

    def prefetch(self, number: int, owner: int) -> None:
        if not 0 <= number < (1 << 64) // self.is_.line or self.line(number):
            return
        self.count("prefetches", owner)
        all_ = set(range(self.is_.line // self.sector))
        moved = self.fetch(number, all_, owner, demand=False)
        self.put(Line(number, all_ | moved.valid, set(moved.dirty), fresh=True), owner)

    def access_as_cachegrind(self, where: Bytes, owner: int) -> None:
        missed = False
        for number, _ in self.lines_of(where):
            if self.line(number):
                self.promote(number)
            else:
                missed = True
                self.put(Line(number, {0}), owner)
        self.count("accesses", owner)
        if missed:
            self.count("misses", owner)
            self.count("fetches", owner)
            if self.below:
                self.below.access_as_cachegrind(where, owner)


class Run:
    """A hierarchy of some cores, and the lines that prefetchers wait for."""

    def __init__(self, levels: list[Options], cores: int = 1, semantics: str = "write-back") -> None:
        self.semantics = semantics
        self.wishes: list[tuple[Cache, int]] = []
        self.counts: list[dict[str, Counter]] = [_Columns() for _ in levels]
        shared: dict[int, Cache] = {}
        self.first = [self._chain(levels, shared) for _ in range(cores)]

    def _chain(self, levels: list[Options], shared: dict[int, Cache]) -> Cache:
        below = None
        for number in reversed(range(len(levels))):
            if number not in shared or not levels[number].shared:
                shared[number] = Cache(levels[number], below, self.counts[number], self)
            below = shared[number]
        return below

    def feed(self, references, core: int = 0) -> None:
        """Simulate (address, size, write, owner) tuples of one core."""
        for address, size, write, owner in references:
            first = self.first[core]
            where = (address, min(address + size, 1 << 64))
            if self.semantics == "cachegrind":
                first.access_as_cachegrind(where, owner)
                continue
            for _, part in first.lines_of(where):
                if write and self.semantics != "no-write-backs":
                    first.store(part, owner)
                else:
                    first.read(part, owner)
                for cache, number in self.wishes:
                    cache.prefetch(number, owner)
                self.wishes.clear()

    def resident(self, level: int) -> int:
        caches = {id(cache): cache for first in self.first for cache in [_at(first, level)]}
        return sum(line is not None for cache in caches.values() for ways in cache.ways for line in ways)


def _at(cache: Cache, level: int) -> Cache:
    return cache if level == 0 else _at(cache.below, level - 1)


class _Columns(dict):
    def __missing__(self, column: str) -> Counter:
        self[column] = Counter()
        return self[column]

"""Slow, obvious model of chains of loads along paths (csrc/include/cv_chains.h)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.oracle.paths_oracle import Piece
from tests.oracle.wire_oracle import Segment

STRETCH = 512
FLAGS = 32


@dataclass
class Flow:
    """Origins, each a pair of sets: registers at the segment's beginning, numbers of its loads."""

    addresses: dict[int, tuple[set[int], set[int]]] = field(default_factory=dict)
    values: dict[int, tuple[set[int], set[int]]] = field(default_factory=dict)
    registers: dict[int, tuple[set[int], set[int]]] = field(default_factory=dict)


def _place(granule: int) -> int:
    """Where a store to 8 bytes is remembered: another one may come to the same place."""
    return (granule ^ granule >> 10) % 1024


@dataclass(eq=False)
class Load:
    """A load of a stretch: its site (None: not counted), line, and how many loads the chain that ends with it has."""

    site: int | None
    line: int
    length: int


@dataclass
class Chains:
    """Walks pieces; ``flows`` by segment, missing where nothing is known. A value is the list of loads on its longest chain."""

    segments: list[Segment]
    flows: dict[int, Flow]
    counts: Counter[tuple[int, str]] = field(default_factory=Counter)
    registers: dict[int, list[Load]] = field(default_factory=dict)
    stored: dict[int, tuple[int, int, list[Load]]] = field(default_factory=dict)
    serials: dict[int, int] = field(default_factory=dict)
    loads: list[list[Load]] = field(default_factory=list)
    now: int = STRETCH
    begun: int = STRETCH
    thread: int = 0

    def finish(self) -> None:
        """Count the longest chain, the last of several, and begin a stretch."""
        longest: list[Load] = []
        for chain in self.loads:
            longest = chain if len(chain) >= len(longest) else longest
        for load in longest:
            if load.site is not None:
                self.counts[load.site, "serial"] += 1
        self._count_bringing(longest)
        self.loads, self.registers, self.begun = [], {}, self.now

    def _count_bringing(self, longest: list[Load]) -> None:
        """Of the loads that waited as long as a member in their line (the first of several members), count the first; each member
        is remembered in one of 1024 places, and the first load in its line clears it."""
        members = {(load.line ^ load.line >> 10) % 1024: load for load in reversed(longest)}
        for load in (chain[-1] for chain in self.loads):
            place = (load.line ^ load.line >> 10) % 1024
            member = members.pop(place) if place in members and members[place].line == load.line else None
            if member is not None and member.length == load.length and load.site is not None:
                self.counts[load.site, "bringing"] += 1

    def _longest(self, origin: tuple[set[int], set[int]], loaded: dict[int, list[Load]]) -> list[Load]:
        chains = [self.registers.get(r, []) for r in origin[0]] + [loaded.get(k, []) for k in origin[1]]
        return max(chains, key=self._rank, default=[])

    def _rank(self, chain: list[Load]) -> tuple[int, int]:
        """Longer chains first, of equal ones that whose last load came later."""
        places = [place for place, known in enumerate(self.loads) if known is chain]
        return len(chain), places[-1] if places else -1

    def _load(self, site: int, address: int, pointer: list[Load], counted: bool) -> list[Load]:
        granule, when, value = self.stored.get(_place(address // 8), (0, 0, []))
        if granule == address // 8 and self.now - when < STRETCH:
            self.counts[site, "forwarded"] += counted
            return max(pointer, value, key=self._rank) if when >= self.begun else pointer
        chain = [*pointer, Load(site if counted else None, address >> 6, len(pointer) + 1)]
        self.loads.append(chain)
        return chain

    def _visit(self, segment: Segment, references: list[tuple[int, int]], counted: bool) -> None:
        flow, nothing = self.flows.get(segment.id, Flow()), (set[int](), set[int]())
        loaded: dict[int, list[Load]] = {}
        for address, number in references:
            site, k = segment.sites[number - segment.first_site], number - segment.first_site
            self.counts[number, "references"] += counted
            self.counts[number, "split"] += counted and address % 64 + site.size_bytes > 64
            if site.is_store:
                value = self._longest(flow.values.get(k, nothing), loaded)
                first = address // 8
                for granule in range(first, min(first + 8, (address + site.size_bytes - 1) // 8 + 1)):
                    self.stored[_place(granule)] = granule, self.now, value
                continue
            chain = self._load(number, address, self._longest(flow.addresses.get(k, nothing), loaded), counted)
            if k < 64:
                loaded[k] = chain
        self.registers |= {r: self._longest(origin, loaded) for r, origin in flow.registers.items()}

    def walk(self, piece: Piece) -> None:
        if not (piece.continues and piece.thread == self.thread):
            self.finish()
            self.now += STRETCH
            self.begun, self.thread = self.now, piece.thread
        for number, (segment, references) in enumerate(zip(piece.segments, piece.references, strict=True)):
            if self.now - self.begun >= STRETCH:
                self.finish()
            self._visit(self.segments[segment], references, number >= piece.warm_visits)
            self.now += len(self.segments[segment].instructions)

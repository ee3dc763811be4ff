"""Slow, obvious model of branch prediction along paths (csrc/include/cv_branch.h)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.oracle.paths_oracle import UNKNOWN, Piece

M64 = (1 << 64) - 1
LENGTHS = (6, 12, 24, 48, 96, 200)
TARGET_LENGTHS = (8, 24, 72, 200)
KNOWN, TAKEN, MISPREDICTED, OVERRIDDEN = 1, 2, 4, 8


@dataclass
class End:
    """How a segment ends: kind, address of its last instruction, address after it, target of a direct branch."""

    kind: str
    branch: int
    after: int
    target: int = 0
    turn: bool = False


@dataclass
class Entry:
    tag: int
    counter: int
    useful: int = 0


class History:
    """What branches did before, as one large number."""

    def __init__(self) -> None:
        self.bits = 0

    def add(self, value: int, bits: int) -> None:
        self.bits = (self.bits << bits | value) & ((1 << 256) - 1)

    def hash(self, length: int, table: int, branch: int) -> int:
        h = (branch + table) * 0x9E3779B97F4A7C15 & M64
        left, rest = length, self.bits
        while left:
            bits = min(left, 64)
            h = (h ^ (rest & ((1 << bits) - 1))) * 0xD6E8FEB86659FD93 & M64
            h ^= h >> 32
            left, rest = left - bits, rest >> 64
        return h


class Draw:
    """The table where room for a new entry is looked for first."""

    def __init__(self) -> None:
        self.state = 0

    def table(self, provider: int, tables: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & M64
        bits, table = self.state >> 32, provider + 1
        while table + 1 < tables and bits & 1:
            bits, table = bits >> 1, table + 1
        return table


class Tage:
    """A bimodal table and six tagged ones, all dictionaries."""

    def __init__(self) -> None:
        self.bimodal: dict[int, int] = {}
        self.own: dict[int, int] = {}
        self.tables: list[dict[int, Entry]] = [{} for _ in LENGTHS]
        self.draw = Draw()

    def step(self, history: History, branch: int, taken: bool) -> int:
        """Return MISPREDICTED, or OVERRIDDEN where the branch's own last outcomes say otherwise, and learn."""
        last = self.own.get(branch % 8192, 2)
        self.own[branch % 8192] = min(3, last + 1) if taken else max(0, last - 1)
        base = self.bimodal.get(branch % 8192, 2)
        hashes = [history.hash(length, table, branch) for table, length in enumerate(LENGTHS)]
        places = [(h % 2048, 1 + (h >> 20) % 1023) for h in hashes]
        hits = [t for t in range(6) if (e := self.tables[t].get(places[t][0])) and e.tag == places[t][1]]
        provider = hits[-1] if hits else -1
        predicted = base >= 2
        if hits:
            entry = self.tables[provider][places[provider][0]]
            own = entry.counter >= 0
            other = self.tables[hits[-2]][places[hits[-2]][0]].counter >= 0 if len(hits) > 1 else base >= 2
            predicted = other if entry.useful == 0 and entry.counter in (0, -1) else own
            if own != other:
                entry.useful = min(3, entry.useful + 1) if own == taken else max(0, entry.useful - 1)
            entry.counter = min(3, entry.counter + 1) if taken else max(-4, entry.counter - 1)
        else:
            self.bimodal[branch % 8192] = min(3, base + 1) if taken else max(0, base - 1)
        if predicted != taken:
            self._allocate(places, provider, taken)
        history.add(taken, 1)
        return MISPREDICTED if predicted != taken else OVERRIDDEN * (predicted != (last >= 2))

    def _allocate(self, places: list[tuple[int, int]], provider: int, taken: bool) -> None:
        for table in range(self.draw.table(provider, 6), 6):
            index, tag = places[table]
            there = self.tables[table].get(index)
            if there and there.useful:
                there.useful -= 1
                continue
            self.tables[table][index] = Entry(tag, 0 if taken else -1)
            return


@dataclass
class TargetEntry:
    key: int
    target: int
    sure: int = 0


class Targets:
    """Indirect targets by branch and history, or by itself; return addresses on a stack of 32."""

    def __init__(self) -> None:
        self.tables: list[dict[int, TargetEntry]] = [{} for _ in TARGET_LENGTHS]
        self.last: dict[int, tuple[int, int]] = {}
        self.draw = Draw()
        self.stack: list[int] = []
        self.lost = 0

    def step(self, history: History, branch: int, target: int) -> bool:
        known, predicted = self.last.get(branch % 2048, (0, 0))
        predicted = predicted if known == branch else 0
        self.last[branch % 2048] = (branch, target)
        keys = [history.hash(length, table, branch) | 1 for table, length in enumerate(TARGET_LENGTHS)]
        entries = [table.get((key >> 1) % 384) for table, key in zip(self.tables, keys, strict=True)]
        hits = [t for t, entry in enumerate(entries) if entry and entry.key == keys[t]]
        if hits:
            entry = entries[hits[-1]]
            predicted = entry.target
            if predicted != target and not entry.sure:
                entry.target = target
            else:
                entry.sure = min(3, entry.sure + 1) if predicted == target else entry.sure - 1
        if predicted != target:
            self._allocate(keys, hits[-1] if hits else -1, target)
        history.add((target * 0x9E3779B97F4A7C15 & M64) >> 60, 4)
        return predicted != target

    def _allocate(self, keys: list[int], provider: int, target: int) -> None:
        for table in range(self.draw.table(provider, 4), 4):
            there = self.tables[table].get((keys[table] >> 1) % 384)
            if there and there.sure:
                there.sure -= 1
                continue
            self.tables[table][(keys[table] >> 1) % 384] = TargetEntry(keys[table], target)
            return

    def call(self, after: int) -> None:
        self.stack.append(after)
        if len(self.stack) > 32:
            self.stack.pop(0)
            self.lost += 1

    def back(self, target: int) -> bool:
        if self.stack:
            return self.stack.pop() != target
        self.lost, wrong = max(0, self.lost - 1), self.lost > 0
        return wrong


@dataclass
class Repetition:
    """Visits that end in one repeated instruction: which segment began it, unless the path did, and those of its turns."""

    branch: int
    began: int | None
    turns: list[int] = field(default_factory=list)


@dataclass
class Branches:
    """Walks pieces; ``ends`` and ``addresses`` have one element a segment."""

    ends: list[End]
    addresses: list[int]
    history: History = field(default_factory=History)
    tage: Tage = field(default_factory=Tage)
    targets: Targets = field(default_factory=Targets)
    counts: Counter[tuple[int, str]] = field(default_factory=Counter)
    edges: Counter[tuple[int, int]] = field(default_factory=Counter)
    thread: int = 0
    repetition: Repetition | None = None
    fresh: bool = True

    def _outcome(self, end: End, following: int) -> int:
        if following == UNKNOWN:
            return 0
        next_address, wrong = self.addresses[following], 0
        taken = end.kind not in ("fall", "repeat", "other") and next_address != end.after
        if end.kind == "conditional":
            if taken and next_address != end.target:
                return 0
            wrong = self.tage.step(self.history, end.branch, taken)
        if end.kind in ("call", "indirect call"):
            self.targets.call(end.after)
        if end.kind in ("indirect call", "indirect jump"):
            wrong = MISPREDICTED * self.targets.step(self.history, end.branch, next_address)
        if end.kind == "return":
            wrong = MISPREDICTED * self.targets.back(next_address)
        return KNOWN | TAKEN * taken | wrong

    def walk(self, piece: Piece) -> list[int]:
        """Return the flags of the visits."""
        if not (piece.continues and piece.thread == self.thread):
            self.targets.stack, self.targets.lost = [], 0
            self.thread, self.repetition, self.fresh = piece.thread, None, True
        flags = []
        for number, here in enumerate(piece.segments):
            following = [*piece.segments, piece.following][number + 1]
            end = self.ends[here]
            found = self._outcome(end, following)
            flags.append(found)
            self._repeat(here, end, number >= piece.warm_visits)
            if number >= piece.warm_visits:
                self._count(here, following, end, found)
        return flags

    def _repeat(self, here: int, end: End, counted: bool) -> None:
        """A repetition counts when a visit that is counted shows its end, unless the path began within it."""
        alone = self.addresses[here] == end.branch
        goes_on = self.repetition and end.kind == "repeat" and alone and end.branch == self.repetition.branch
        if self.repetition and not goes_on:
            if counted and self.repetition.began is not None:
                self.counts[self.repetition.began, "repeats"] += 1
                if self.repetition.turns:
                    self.counts[self.repetition.turns[0], "turns"] += len(self.repetition.turns)
            self.repetition = None
        if end.kind == "repeat":
            within = end.turn or (alone and self.fresh)
            self.repetition = self.repetition or Repetition(end.branch, None if within else here)
            self.repetition.turns += [here] * end.turn
        self.fresh = False

    def _count(self, here: int, following: int, end: End, found: int) -> None:
        wrong = bool(found & MISPREDICTED)
        self.counts[here, "visits"] += 1
        self.counts[here, "known"] += bool(found & KNOWN)
        self.counts[here, "taken"] += bool(found & TAKEN)
        self.counts[here, "mispredicted"] += wrong and end.kind == "conditional"
        self.counts[here, "indirect_mispredicted"] += wrong and end.kind != "conditional"
        if found & KNOWN:
            self.edges[here, following] += 1

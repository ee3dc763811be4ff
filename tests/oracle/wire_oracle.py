"""A slow, obvious decoder of the tracer's stream and counter file (csrc/include/cv_wire.h), for tests."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = 0x0A1A0A0D45524957
VERSION = 1
NOT_EXECUTED = 1 << 62
THREAD, WINDOW_OPEN, WINDOW_CLOSE, SETS_LOST, WINDOW_WARM, MODULE, SEGMENT, END = 1, 2, 3, 4, 6, 32, 33, 34
STORE, GUARDED, DEPENDENT, ATOMIC = 1, 2, 4, 8
CONTINUED = 1
COUNTERS_MAGIC = 0x31525443564E4F43
COUNTERS_OFFSET = 4096


@dataclass
class Module:
    id: int
    address: int
    size_bytes: int
    file_offset: int
    path: str


@dataclass
class Instruction:
    offset: int
    length: int
    flags: int
    flops: int

    @property
    def continued(self) -> bool:
        return bool(self.flags & CONTINUED)


@dataclass
class Site:
    id: int
    displacement: int
    guard_counter: int
    size_bytes: int
    instruction: int
    base: int
    flags: int

    @property
    def is_store(self) -> bool:
        return bool(self.flags & STORE)

    @property
    def guarded(self) -> bool:
        return bool(self.flags & GUARDED)


@dataclass
class Segment:
    id: int
    address: int
    file_offset: int
    module: int
    counter: int
    first_site: int
    words: int
    instructions: list[Instruction]
    sites: list[Site]
    code: bytes


@dataclass
class Visit:
    segment: int
    words: tuple[int, ...]


@dataclass
class SetReference:
    site: int
    line: int


@dataclass
class Thread:
    id: int


@dataclass
class WindowOpen:
    memops: int


@dataclass
class WindowClose:
    memops: int


@dataclass
class WindowWarm:
    memops: int


@dataclass
class End:
    reason: int
    code: int
    windows: int


@dataclass
class Reference:
    thread: int
    site: int
    address: int
    size: int
    is_store: bool
    window: int
    """Index of the burst it was recorded in; -1 outside bursts (full streams)."""


Event = Visit | SetReference | Thread | WindowOpen | WindowClose | WindowWarm | End


def _module(identity: int, payload: bytes) -> Module:
    address, size, offset, length, _ = struct.unpack_from("<QQQII", payload)
    return Module(identity, address, size, offset, payload[32 : 32 + length].decode(errors="surrogateescape"))


def _segment(payload: bytes) -> Segment:
    address, file_offset, identity, module, counter, first_site, words, n_sites, n_instructions, n_code = struct.unpack_from(
        "<QQIIIIHHHH", payload
    )
    at = 40
    instructions = []
    for _ in range(n_instructions):
        instructions.append(Instruction(*struct.unpack_from("<HBBH", payload, at)))
        at += 8
    sites = []
    for k in range(n_sites):
        sites.append(Site(first_site + k, *struct.unpack_from("<qIHHhB", payload, at)))
        at += 24
    code = payload[at : at + n_code]
    return Segment(identity, address, file_offset, module, counter, first_site, words, instructions, sites, code)


def read_stream(data: bytes) -> tuple[list[Module], list[Segment], list[Event]]:
    """Decode a whole stream; what a cut or a kill left incomplete at its end is dropped."""
    words = struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8])
    modules: list[Module] = []
    segments: list[Segment] = []
    events: list[Event] = []
    if not words:
        return modules, segments, events
    assert words[0] == MAGIC
    assert words[1] == VERSION
    at = 2
    while at < len(words):
        head = words[at]
        at += 1
        if head >> 63 == 0:
            events.append(SetReference(head & 0x3FFFFF, head >> 22))
        elif head >> 62 == 2:
            segment = segments[head & 0xFFFFFFFF]
            if at + segment.words > len(words):
                break
            events.append(Visit(segment.id, words[at : at + segment.words]))
            at += segment.words
        else:
            kind, argument = head >> 56 & 63, head & ((1 << 56) - 1)
            if kind == SETS_LOST:
                if at == len(words):
                    break
                events.append(SetReference(argument, words[at] >> 6))
                at += 1
            elif kind < MODULE:
                simple = {THREAD: Thread, WINDOW_OPEN: WindowOpen, WINDOW_CLOSE: WindowClose, WINDOW_WARM: WindowWarm}.get(kind)
                if simple:
                    events.append(simple(argument))
            else:
                length = head & 0xFFFFFFFF
                if at + length > len(words):
                    break
                payload = struct.pack(f"<{length}Q", *words[at : at + length])
                at += length
                if kind == MODULE:
                    assert head >> 32 & 0xFFFFFF == len(modules)
                    modules.append(_module(len(modules), payload))
                elif kind == SEGMENT:
                    segments.append(_segment(payload))
                    assert segments[-1].id == len(segments) - 1
                elif kind == END:
                    events.append(End(*struct.unpack_from("<IiQ", payload)))
    return modules, segments, events


def references(segments: list[Segment], events: list[Event]) -> Iterator[Reference]:
    """Every recorded reference of every visit, in program order (set-sampled references are not among them)."""
    thread, window, windows = 0, -1, 0
    for event in events:
        if isinstance(event, Thread):
            thread = event.id
        elif isinstance(event, WindowOpen):
            window = windows
            windows += 1
        elif isinstance(event, WindowClose):
            window = -1
        elif isinstance(event, Visit):
            for site in segments[event.segment].sites:
                base = event.words[site.base] if site.base >= 0 else 0
                if site.guarded and base == NOT_EXECUTED:
                    continue
                address = (base + site.displacement) % (1 << 64)
                yield Reference(thread, site.id, address, site.size_bytes, site.is_store, window)


@dataclass
class Counters:
    capacity: int
    used: int
    finished: bool
    pid: int
    values: tuple[int, ...]


def read_counters(path: Path | str) -> Counters:
    """Read a counter file; ``values`` holds the counters in use."""
    data = Path(path).read_bytes()
    magic, capacity, used, finished, pid = struct.unpack_from("<QQQQq", data)
    assert magic == COUNTERS_MAGIC
    return Counters(capacity, used, bool(finished), pid, struct.unpack_from(f"<{used}Q", data, COUNTERS_OFFSET))


@dataclass
class Totals:
    instructions: int = 0
    loads: int = 0
    stores: int = 0
    load_bytes: int = 0
    store_bytes: int = 0
    flops: int = 0


def totals(segments: list[Segment], counters: Counters) -> Totals:
    """Executed totals: counters times what each segment holds."""
    result = Totals()
    for segment in segments:
        visits = counters.values[segment.counter]
        result.instructions += visits * sum(not i.continued for i in segment.instructions)
        result.flops += visits * sum(i.flops for i in segment.instructions)
        for site in segment.sites:
            times = counters.values[site.guard_counter] if site.guarded else visits
            if site.is_store:
                result.stores += times
                result.store_bytes += times * site.size_bytes
            else:
                result.loads += times
                result.load_bytes += times * site.size_bytes
    return result

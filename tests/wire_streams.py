"""Made-up streams of the tracer's wire format: a builder and hypothesis strategies on top of it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

MAGIC, VERSION = 0x0A1A0A0D45524957, 1
VISIT, CONTROL, NOT_EXECUTED = 2 << 62, 3 << 62, 1 << 62
THREAD, OPEN, CLOSE, LOST, WARM = 1, 2, 3, 4, 6
MODULE, SEGMENT, END, FLOW, OBJECT, SYMBOLS, EVENT = 32, 33, 34, 35, 36, 37, 38
STORE, GUARDED, DEPENDENT = 1, 2, 4


@dataclass
class Site:
    """A static memory reference."""

    displacement: int = 0
    size: int = 8
    instruction: int = 0
    base: int = 0
    flags: int = 0
    guard_counter: int = 0


@dataclass
class Segment:
    """A run of instructions; ``lengths`` and ``flops`` have one entry an instruction. ``code`` None: some bytes."""

    address: int
    lengths: list[int]
    sites: list[Site] = field(default_factory=list)
    words: int = 0
    flops: list[int] | None = None
    module: int = 0
    counter: int = 0
    file_offset: int | None = None
    code: bytes | None = None
    continued: bool = False


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def varint(number: int) -> bytes:
    """Return a number as recorded chunks hold it: seven bits a byte, the lowest first."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


class Stream:
    """Collects records; ``bytes()`` is the stream."""

    def __init__(self) -> None:
        self.parts: list[bytes] = [struct.pack("<QQ", MAGIC, VERSION)]
        self.segments: list[Segment] = []
        self.modules = 0
        self.sites: list[tuple[int, Site]] = []

    def word(self, value: int) -> None:
        """Add one word."""
        self.parts.append(struct.pack("<Q", value & (1 << 64) - 1))

    def control(self, kind: int, argument: int = 0) -> None:
        """Add a control record of one word."""
        self.word(CONTROL | kind << 56 | argument)

    def payload(self, kind: int, data: bytes, argument: int = 0) -> None:
        """Add a control record with payload."""
        assert len(data) % 8 == 0
        self.word(CONTROL | kind << 56 | argument << 32 | len(data) // 8)
        self.parts.append(data)

    def module(self, path: str = "/bin/x", address: int = 0x400000, size: int = 0x10000, file_offset: int = 0) -> int:
        """Define a module and return its id."""
        text = path.encode()
        self.payload(MODULE, struct.pack("<QQQII", address, size, file_offset, len(text), 0) + _pad(text), self.modules)
        self.modules += 1
        return self.modules - 1

    def segment(self, segment: Segment) -> int:
        """Define a segment and return its id."""
        number, length = len(self.segments), sum(segment.lengths)
        offset = segment.address - 0x400000 if segment.file_offset is None else segment.file_offset
        data = struct.pack("<QQIIII", segment.address, offset, number, segment.module, segment.counter, len(self.sites))
        data += struct.pack("<HHHH", segment.words, len(segment.sites), len(segment.lengths), length)
        at = 0
        for i, size in enumerate(segment.lengths):
            flags = int(segment.continued and i == 0)
            data += struct.pack("<HBBHH", at, size, flags, segment.flops[i] if segment.flops else 0, 0)
            at += size
        for site in segment.sites:
            data += struct.pack(
                "<qIHHhB5x", site.displacement, site.guard_counter, site.size, site.instruction, site.base, site.flags
            )
        self.payload(SEGMENT, data + _pad(segment.code or bytes(i & 255 for i in range(length))))
        self.segments.append(segment)
        self.sites += [(number, site) for site in segment.sites]
        return number

    def object(self, kind: int, text: str = "malloc", thread: int = 0) -> None:
        """Define a data object that no place in the code made."""
        data = struct.pack("<QIIII", 0, 0xFFFFFFFF, kind, thread, len(text))
        self.payload(OBJECT, data + _pad(text.encode()))

    def symbol(self, address: int, size: int, name: str = "abc") -> None:
        """Define a symbol of module 0."""
        self.payload(SYMBOLS, struct.pack("<QQII", address, size, 0, len(name)) + _pad(name.encode()))

    def event(self, kind: int, *words: int) -> None:
        """Add an event of data objects."""
        self.payload(EVENT, struct.pack(f"<{len(words)}Q", *words), kind)

    def visit(self, segment: int, words: list[int]) -> None:
        """Add a visit."""
        assert len(words) == self.segments[segment].words
        self.word(VISIT | segment)
        for word in words:
            self.word(word)

    def sampled(self, site: int, address: int) -> None:
        """Add a set-sampled reference."""
        self.word(address >> 6 << 22 | site)

    def end(self, reason: int = 0, code: int = 0, windows: int = 0) -> None:
        """Add the end record."""
        self.payload(END, struct.pack("<IiQ", reason, code, windows))

    def bytes(self) -> bytes:
        """Return the stream."""
        return b"".join(self.parts)


def _sites(words: int, instructions: int) -> st.SearchStrategy[list[Site]]:
    return st.lists(
        st.builds(
            Site,
            displacement=st.integers(-4096, 4096),
            size=st.sampled_from([1, 2, 4, 8, 16, 32, 64, 512]),
            instruction=st.integers(0, instructions - 1),
            base=st.integers(-1, words - 1),
            flags=st.integers(0, 15),
        ),
        max_size=5,
    )


@st.composite
def _segment(draw: st.DrawFn, number: int, modules: int) -> Segment:
    lengths = draw(st.lists(st.integers(1, 15), min_size=1, max_size=6))
    words = draw(st.integers(0, 3))
    return Segment(
        address=0x400000 + draw(st.integers(0, 0xFFFF)),
        lengths=lengths,
        sites=draw(_sites(words, len(lengths))),
        words=words,
        flops=draw(st.lists(st.integers(0, 16), min_size=len(lengths), max_size=len(lengths))),
        module=draw(st.integers(0, modules - 1)),
        counter=number,
    )


def burst_stream(windows: Iterable[tuple[Sequence[int] | None, Sequence[int]]]) -> bytes:
    """Return bursts by one site: lines of 64 bytes that only warm up (None: no such part), and lines that count."""
    stream = Stream()
    stream.module()
    stream.segment(Segment(0x400000, [4], [Site()], words=1))
    for warm, counted in windows:
        stream.control(OPEN)
        if warm is not None:
            for line in warm:
                stream.visit(0, [64 * line])
            stream.control(WARM)
        for line in counted:
            stream.visit(0, [64 * line])
        stream.control(CLOSE)
    stream.end()
    return stream.bytes()


_address = st.one_of(
    st.integers(0x1000, 0x1100), st.integers(0, (1 << 47) - 1), st.just(NOT_EXECUTED), st.integers(0, (1 << 64) - 1)
)


@st.composite
def streams(draw: st.DrawFn, max_events: int = 40) -> Stream:
    """Strategy: valid streams with a few segments, visits, windows, thread switches, set samples and unknown records."""
    stream = Stream()
    stream.module()
    if draw(st.booleans()):
        stream.module("")
    for number in range(draw(st.integers(1, 5))):
        stream.segment(draw(_segment(number, stream.modules)))
    for _ in range(draw(st.integers(0, max_events))):
        _event(draw, stream)
    if draw(st.booleans()):
        stream.end(draw(st.integers(0, 2)), draw(st.integers(-1, 255)))
    return stream


def _event(draw: st.DrawFn, stream: Stream) -> None:
    choice = draw(st.integers(0, 11))
    if choice <= 6:
        segment = draw(st.integers(0, len(stream.segments) - 1))
        words = stream.segments[segment].words
        stream.visit(segment, draw(st.lists(_address, min_size=words, max_size=words)))
    elif choice == 7 and stream.sites:
        stream.sampled(draw(st.integers(0, len(stream.sites) - 1)), draw(st.integers(0, (1 << 47) - 1)))
    elif choice == 8:
        stream.control(draw(st.sampled_from([THREAD, OPEN, CLOSE, WARM, 17])), draw(st.integers(0, 5)))
    elif choice == 9:
        stream.payload(draw(st.integers(40, 63)), bytes(8 * draw(st.integers(0, 4))))
    elif choice == 10 and len(stream.segments) < 9:
        stream.segment(draw(_segment(len(stream.segments), stream.modules)))
    elif choice == 11 and stream.sites:
        stream.control(LOST, draw(st.integers(0, len(stream.sites) - 1)))
        stream.word(draw(_address))

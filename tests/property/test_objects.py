"""References are attributed as a slow model of memory says, however the stream is cut and whether it is live or from a file."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver._native.trace_decoder import SETS, Decoder
from convolver.errors import FormatError
from tests.oracle.objects_oracle import HEAP, SYMBOL, Memory
from tests.wire_streams import OBJECT, SYMBOLS, Segment, Site, Stream

EVENTS = 7
PLACED, FREED, UNMAPPED, MOVED, LOADED = 1, 2, 3, 4, 5
STACK, MAPPING, FILE = 3, 4, 5
KINDS = [HEAP, HEAP, STACK, SYMBOL, SYMBOL, MAPPING, FILE]
PLACES = {4: (200, 30), 5: (215, 40)}
SPACE = 600


def define(stream: Stream) -> None:
    """Define one object of each kind, two of some."""
    stream.module("/bin/x")
    stream.segment(Segment(0x400000, [4], [Site(size=1)], words=1))
    stream.segment(Segment(0x400040, [4], [Site(size=1, flags=1)], words=1))
    for number, kind in enumerate(KINDS, 1):
        if kind == SYMBOL:
            stream.symbol(*PLACES[number])
        else:
            stream.object(kind)


_number, _address, _size = st.integers(1, len(KINDS)), st.integers(0, SPACE), st.integers(1, 90)
_actions = st.lists(
    st.one_of(
        st.tuples(st.just("place"), _number, _address, _size),
        st.tuples(st.just("free"), _address),
        st.tuples(st.just("free_one"), st.integers(0, 20)),
        st.tuples(st.just("unmap"), _address, _size),
        st.tuples(st.just("move"), _address, _address, _size),
        st.tuples(st.just("load"), st.integers(1, 4), st.integers(0, 3)),
        st.tuples(st.just("refer"), st.integers(0, 1), _address),
        st.tuples(st.just("refer"), st.integers(0, 1), _address),
        st.tuples(st.just("sample"), st.integers(0, 1), _address),
    ),
    max_size=60,
)


def carry_out(actions, stream, memory):
    """Write actions as records; returns the objects of window references, and of set-sampled ones the possible ones."""
    exact, possible, starts = [], [], []
    for what, *words in actions:
        if what == "refer":
            stream.visit(words[0], [words[1]])
            exact.append(memory.at(words[1]))
        elif what == "sample":
            stream.sampled(words[0], words[1])
            possible.append(memory.in_line(words[1] // 64 * 64))
        elif what == "free_one":
            address = starts[words[0] % len(starts)] if starts else 0
            stream.event(FREED, address)
            memory.free(address)
        else:
            kind = {"place": PLACED, "free": FREED, "unmap": UNMAPPED, "move": MOVED, "load": LOADED}[what]
            starts += [words[1]] if what == "place" else []
            getattr(memory, what)(*words)
            stream.event(kind, *([words[0] - 1, *words[1:]] if what in ("place", "load") else words))
    return exact, possible


def attributed(decoder, collector):
    pairs = decoder.pairs()
    found = {False: [], True: []}
    for batch in collector.take():
        found[batch.kind == SETS] += pairs["object"][batch.sites].tolist()
    return found[False], found[True]


@given(_actions, st.integers(1, 5), st.data())
def test_references_belong_to_what_is_there_at_their_moment(actions, pieces, data):
    stream, memory = Stream(), Memory(KINDS, PLACES)
    define(stream)
    exact, possible = carry_out(actions, stream, memory)
    wire = stream.bytes()
    live, reader = Decoder(), Decoder()
    live.record()
    collectors = []
    for decoder in (live, reader):
        decoder.attribute(owners=True)
        collectors.append(decoder.add_collector())
    bounds = sorted(data.draw(st.lists(st.integers(0, len(wire)), min_size=pieces, max_size=pieces)))
    for start, stop in zip([0, *bounds], [*bounds, len(wire)], strict=True):
        live.feed(wire[start:stop])
        part = live.take()
        for take, content in ((reader.define, part.modules), (reader.define, part.segments), (reader.events, part.events)):
            if content:
                take(content)
        reader.replay(part.addresses)
    live.flush()
    reader.flush()
    for decoder, collector in zip((live, reader), collectors, strict=True):
        references, samples = attributed(decoder, collector)
        assert references == exact
        assert len(samples) == len(possible)
        assert all(number in some for number, some in zip(samples, possible, strict=True))
        pairs = decoder.pairs()
        assert (int(pairs["references"].sum()), int(pairs["sets"].sum())) == (len(exact), len(possible))
        held = np.zeros(len(KINDS) + 1, dtype=int)
        for layer in (memory.blocks, memory.regions):
            for number, _ in layer.values():
                held[number] += 1
        if len(decoder.objects()):
            assert decoder.objects()["live_bytes"].tolist() == held.tolist()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (PLACED, (7, 0, 8)),
        (PLACED, (0, (1 << 64) - 4, 8)),
        (PLACED, (0, 8, 0)),
        (PLACED, (0, 8)),
        (UNMAPPED, ((1 << 64) - 4, 8)),
        (MOVED, (0, (1 << 64) - 4, 8)),
        (LOADED, (3, 5)),
        (9, (1,)),
    ],
)
def test_impossible_events_are_refused(kind, words):
    stream = Stream()
    define(stream)
    stream.event(kind, *words)
    with pytest.raises(FormatError, match="damaged at word"):
        Decoder().feed(stream.bytes())


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (OBJECT, bytes(16)),
        (OBJECT, struct.pack("<QIIII", 0, 0, 9, 0, 0)),
        (OBJECT, struct.pack("<QIIII", 0, 5, 1, 0, 0)),
        (OBJECT, struct.pack("<QIIII", 0, 0, 1, 0, 9)),
        (SYMBOLS, struct.pack("<QQII", 8, 8, 5, 0)),
        (SYMBOLS, struct.pack("<QQII", 8, 8, 0, 9)),
        (SYMBOLS, struct.pack("<QQII", 8, 0, 0, 0)),
        (SYMBOLS, bytes(8)),
    ],
)
def test_impossible_definitions_are_refused(kind, payload):
    stream = Stream()
    stream.module("/bin/x")
    stream.payload(kind, payload)
    with pytest.raises(FormatError, match="damaged at word"):
        Decoder().feed(stream.bytes())


def test_marks_without_their_events_are_refused_only_where_objects_are_asked_for():
    stream = Stream()
    define(stream)
    stream.control(EVENTS, 2)
    Decoder().feed(stream.bytes())
    decoder = Decoder()
    decoder.attribute()
    with pytest.raises(FormatError, match="events of data objects are missing"):
        decoder.feed(stream.bytes())
    for damaged in (b"\x01", b"\x09", bytes([PLACED, 0, 0]), bytes([FREED]) + b"\xff" * 11, bytes([PLACED, 40, 0, 1])):
        with pytest.raises(FormatError, match="data object"):
            Decoder().events(damaged)

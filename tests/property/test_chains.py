"""Chains of loads along paths equal a slow model; damaged flows are refused."""

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convolver._native.load_chains import COUNTS, STRETCH, Chains
from convolver._native.path_builder import Paths
from convolver._native.trace_decoder import Decoder
from convolver.errors import FormatError
from tests.oracle import chains_oracle as oracle
from tests.oracle import paths_oracle as paths
from tests.oracle import wire_oracle as wire
from tests.wire_streams import FLOW, OPEN, STORE, THREAD, WARM, Segment, Site, Stream

REGISTERS = [0, 1, 5, 15, 16, 31, 32]


def _set(numbers):
    return sum(1 << number for number in numbers)


def write_flow(stream, segment, flow):
    """Add the record of a segment's flows."""
    data = struct.pack("<QQ", segment, 0)
    for kind, origins in enumerate((flow.addresses, flow.values, flow.registers)):
        for index, (registers, references) in origins.items():
            data += struct.pack("<QQ", _set(registers) | kind << 62 | index << 40, _set(references))
    stream.payload(FLOW, data)


def _origins(sites):
    references = st.sets(st.integers(0, sites - 1), max_size=2) if sites else st.just(set())
    return st.tuples(st.sets(st.sampled_from(REGISTERS), max_size=2), references)


@st.composite
def _flow(draw, segment):
    """Origins of a segment; a reference waits for earlier loads only, and only stores have values."""
    flow = oracle.Flow()
    for number, site in enumerate(segment.sites):
        earlier = {k for k in range(number) if not segment.sites[k].flags & STORE}
        for origins, wanted in ((flow.addresses, True), (flow.values, bool(site.flags & STORE))):
            if wanted and draw(st.booleans()):
                registers, references = draw(_origins(len(segment.sites)))
                origins[number] = registers, references & earlier
    loads = {k for k, site in enumerate(segment.sites) if not site.flags & STORE}
    for register in draw(st.sets(st.sampled_from(REGISTERS), max_size=3)):
        registers, references = draw(_origins(len(segment.sites)))
        flow.registers[register] = registers, references & loads
    return flow


@st.composite
def programs(draw):
    stream, flows = Stream(), {}
    stream.module()
    for number in range(draw(st.integers(1, 4))):
        sites = [
            Site(size=draw(st.sampled_from([1, 8, 16, 64])), base=k, flags=draw(st.sampled_from([0, 0, STORE])))
            for k in range(draw(st.integers(0, 4)))
        ]
        lengths = [3] * draw(st.sampled_from([1, 2, 100]))
        stream.segment(Segment(0x400000 + 512 * number, lengths, sites, words=len(sites), counter=number))
        if draw(st.integers(0, 5)):
            flows[number] = draw(_flow(stream.segments[number]))
            write_flow(stream, number, flows[number])
    address = st.one_of(st.integers(0x1000, 0x1080), st.integers(0x1000, 0x8000))
    for _ in range(draw(st.integers(0, 60))):
        if draw(st.integers(0, 14)) == 0:
            stream.control(draw(st.sampled_from([THREAD, OPEN, WARM])), draw(st.integers(1, 2)))
        segment = draw(st.integers(0, len(stream.segments) - 1))
        words = stream.segments[segment].words
        stream.visit(segment, draw(st.lists(address, min_size=words, max_size=words)))
    return stream, flows


def walked(data, max_visits=1 << 20, warmup=False):
    decoder = Decoder()
    chains = Chains(decoder, Paths(decoder, max_visits, warmup=warmup))
    decoder.feed(data)
    decoder.flush()
    return chains


@given(programs(), st.integers(1, 40), st.booleans())
@settings(max_examples=200)
def test_counts_equal_the_slow_model(program, max_visits, warmup):
    stream, flows = program
    data = stream.bytes()
    found = walked(data, max_visits, warmup).counts()
    model = oracle.Chains(wire.read_stream(data)[1], flows)
    for piece in paths.pieces(data, max_visits, warmup):
        model.walk(piece)
    model.finish()
    for site in range(len(found)):
        assert {n: int(found[n][site]) for n in COUNTS.names} == {n: model.counts[site, n] for n in COUNTS.names}
    assert len(found) or not model.counts.total()


@given(programs())
def test_recorded_flows_give_the_same_counts(program):
    data = program[0].bytes()
    recorder, reader = Decoder(), Decoder()
    recorder.record()
    recorder.feed(data)
    recorded = recorder.take()
    chains = Chains(reader, Paths(reader, 1 << 20))
    for definitions in (recorded.modules, recorded.segments):
        if definitions:
            reader.define(definitions)
    reader.replay(recorded.addresses)
    reader.flush()
    assert chains.counts()["serial"].tolist() == walked(data).counts()["serial"].tolist()


@given(programs(), st.data())
@settings(max_examples=200)
def test_flipped_words_are_decoded_or_refused_but_never_harm(program, data):
    words = bytearray(program[0].bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(words) // 8 - 1)) * 8
        words[at : at + 8] = struct.pack("<Q", data.draw(st.integers(0, (1 << 64) - 1)))
    with contextlib.suppress(FormatError):
        walked(bytes(words)).counts()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (struct.pack("<Q", 0), "impossible length"),
        (struct.pack("<QQ", 9, 0), "not defined"),
        (struct.pack("<4Q", 0, 0, 3 << 62, 0), "kind that is not known"),
        (struct.pack("<4Q", 0, 0, 5 << 40, 0), "place that its segment does not have"),
        (struct.pack("<4Q", 0, 0, 2 << 62 | 33 << 40, 0), "place that its segment does not have"),
    ],
)
def test_each_breach_of_the_contract_is_named(data, why):
    stream = Stream()
    stream.module()
    stream.segment(Segment(0x400000, [4], [Site()], words=1))
    stream.payload(FLOW, data)
    with pytest.raises(FormatError, match=why):
        walked(stream.bytes())


def test_flows_come_once():
    stream = Stream()
    stream.module()
    stream.segment(Segment(0x400000, [4]))
    for _ in range(2):
        write_flow(stream, 0, oracle.Flow())
    with pytest.raises(FormatError, match="defined twice"):
        walked(stream.bytes())


def _loop(flow, visits=2000, sites=1):
    stream = Stream()
    stream.module()
    stream.segment(Segment(0x400000, [4] * 4, [Site(base=k) for k in range(sites)], words=sites))
    write_flow(stream, 0, flow)
    for visit in range(visits):
        stream.visit(0, [0x100000 + 64 * (sites * visit + k) for k in range(sites)])
    return walked(stream.bytes())


def test_a_list_is_one_chain():
    chains = _loop(oracle.Flow({0: ({3}, set())}, {}, {3: (set(), {0})}))
    assert chains.counts()["serial"].tolist() == [2000]
    assert chains.totals() == {"instructions": 8000, "loads": 2000, "chained": 2000}


def test_a_gather_has_two_loads_a_stretch():
    chains = _loop(oracle.Flow({1: (set(), {0})}), sites=2)
    stretches = -(-8000 // STRETCH)
    assert chains.counts()["serial"].tolist() == [stretches, stretches]


def _nodes(second, visits=2000):
    """Load two fields of a node a visit, the second one a pointer to the next node, wherever ``second`` lies from the first."""
    stream = Stream()
    stream.module()
    stream.segment(Segment(0x400000, [4] * 4, [Site(base=0), Site(base=1)], words=2))
    write_flow(stream, 0, oracle.Flow({0: ({3}, set()), 1: ({3}, set())}, {}, {3: (set(), {1})}))
    for visit in range(visits):
        stream.visit(0, [0x100000 + 256 * visit, 0x100000 + 256 * visit + second])
    return walked(stream.bytes()).counts()


def test_the_field_touched_first_brings_the_line_of_a_node():
    counts = _nodes(8)
    assert counts["serial"].tolist() == [0, 2000]
    assert counts["bringing"].tolist() == [2000, 0]


def test_fields_in_other_lines_bring_nothing():
    assert _nodes(64)["bringing"].tolist() == [0, 2000]

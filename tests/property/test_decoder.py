"""The decoder equals a slow model, however the stream is cut, and refuses malformed streams without harm."""

import contextlib
import itertools
import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from convolver._native.load_chains import Chains
from convolver._native.path_builder import Paths
from convolver._native.trace_decoder import WINDOW, Decoder
from convolver.errors import FormatError
from tests.oracle.references import by_kind, listed, references
from tests.wire_streams import MAGIC, VERSION, Segment, Site, Stream, streams


def decode(data, cuts=()):
    decoder = Decoder()
    collector = decoder.add_collector()
    bounds = [0, *sorted(cuts), len(data)]
    for start, stop in itertools.pairwise(bounds):
        decoder.feed(data[start:stop])
    decoder.flush()
    return decoder, listed(collector.take())


@given(streams(), st.data())
def test_references_equal_the_slow_model_wherever_the_stream_is_cut(stream, data):
    wire = stream.bytes()
    cuts = data.draw(st.lists(st.integers(0, len(wire)), max_size=6))
    _, found = decode(wire, cuts)
    assert by_kind(found) == by_kind(references(wire))


@given(streams())
def test_recorded_chunks_replay_to_the_same_references(stream):
    wire = stream.bytes()
    recorder = Decoder()
    recorder.record()
    middle = len(wire) // 2
    chunks = []
    for part in (wire[:middle], wire[middle:]):
        recorder.feed(part)
        chunks.append(recorder.take())
    reader = Decoder()
    collector = reader.add_collector()
    for chunk in chunks:
        for definitions in (chunk.modules, chunk.segments):
            if definitions:
                reader.define(definitions)
        reader.replay(chunk.addresses)
    reader.flush()
    assert by_kind(listed(collector.take())) == by_kind(references(wire))
    assert np.array_equal(reader.features(), recorder_features(wire))
    assert np.array_equal(reader.segments(), recorder.segments())


def recorder_features(wire):
    return decode(wire)[0].features()


@given(streams(max_events=15), st.data())
@settings(max_examples=300)
def test_a_stream_with_flipped_words_decodes_or_is_refused_but_never_harms(stream, data):
    words = bytearray(stream.bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(words) // 8 - 1)) * 8
        value = data.draw(st.one_of(st.integers(0, (1 << 64) - 1), st.sampled_from([2 << 62, 3 << 62, (3 << 62) | 33 << 56 | 5])))
        words[at : at + 8] = struct.pack("<Q", value)
    with contextlib.suppress(FormatError):
        decode(bytes(words))


@given(st.binary(max_size=400), streams(max_events=0))
@example(b"\x00" * 5, Stream())
def test_random_address_payloads_are_decoded_or_refused(payload, stream):
    decoder = Decoder()
    decoder.feed(stream.bytes())
    with contextlib.suppress(FormatError):
        decoder.replay(payload)
        decoder.flush()


def _one_segment(**site):
    stream = Stream()
    stream.module()
    stream.segment(Segment(0x400000, [4], [Site(**site)], words=1))
    return stream


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda s: s.word(2 << 62 | 7), "visit of a segment that is not defined"),
        (lambda s: s.sampled(9, 64), "sampled reference of a site that is not defined"),
        (lambda s: s.segment(Segment(0x400000, [1], module=5)), "module that is not defined"),
        (lambda s: s.segment(Segment(0x400000, [1], [Site(base=3)], words=1)), "address word lies outside"),
        (lambda s: s.segment(Segment(0x400000, [1], [Site(size=0)], words=1)), "zero bytes"),
        (lambda s: s.segment(Segment(0x400000, [1], [Site(instruction=4)], words=1)), "no instruction"),
        (lambda s: s.payload(33, bytes(8)), "too short"),
        (lambda s: s.payload(33, bytes(80)), "another length"),
        (lambda s: s.payload(32, bytes(32), 7), "module ids have a gap"),
        (lambda s: s.payload(34, bytes(8)), "end record is too short"),
        (lambda s: s.word(3 << 62 | 33 << 56 | 0xFFFFFFFF), "longer than 4 MiB"),
        (lambda s: s.word(3 << 62 | 50 << 56 | 9), "stops inside a record"),
    ],
)
def test_each_breach_of_the_contract_is_named(break_it, why):
    stream = _one_segment()
    break_it(stream)
    with pytest.raises(FormatError, match=why):
        decode(stream.bytes())


def test_a_foreign_or_newer_stream_is_refused():
    with pytest.raises(FormatError, match="no stream of Convolver"):
        decode(struct.pack("<QQ", MAGIC + 1, VERSION))
    with pytest.raises(FormatError, match="another version"):
        decode(struct.pack("<QQ", MAGIC, VERSION + 1))


def _classes(addresses, **site):
    stream = _one_segment(**site)
    for address in addresses:
        stream.visit(0, [address])
    decoder, _ = decode(stream.bytes())
    feature = decoder.features()[0]
    return (int(decoder.sampled()[0]), *(int(feature[name]) for name in ("unit", "strided", "random")))


def test_the_first_reference_of_a_window_has_no_class():
    assert _classes([0x1000]) == (1, 0, 0, 0)


def test_walking_by_elements_is_unit_in_both_directions_and_on_the_spot():
    assert _classes(range(0x1000, 0x2000, 8)) == (512, 511, 0, 0)
    assert _classes(range(0x2000, 0x1000, -64)) == (64, 63, 0, 0)
    assert _classes([0x1000] * 10) == (10, 9, 0, 0)


def test_a_constant_distance_is_strided_from_its_second_repetition():
    assert _classes(range(0x1000, 0x9000, 4096)) == (8, 0, 6, 1)


def test_changing_distances_are_random():
    assert _classes([0x1000, 0x9000, 0x2000, 0x7000, 0x100000]) == (5, 0, 0, 4)


def test_a_new_window_forgets_the_last_address():
    stream = _one_segment()
    for _ in range(2):
        stream.control(2)
        stream.visit(0, [0x1000])
        stream.visit(0, [0x1008])
        stream.control(3)
    decoder, _ = decode(stream.bytes())
    assert (decoder.sampled()[0], decoder.features()[0]["unit"]) == (4, 2)


@pytest.mark.parametrize(("every", "windows"), [(0, 6), (1, 6), (2, 3), (3, 2), (7, 0)])
def test_shares_come_from_one_window_in_so_many(every, windows):
    stream = _one_segment()
    for _ in range(6):
        stream.control(2)
        for turn in range(5):
            stream.visit(0, [0x1000 + 8 * turn])
        stream.control(3)
    decoder = Decoder()
    chains = Chains(decoder, Paths(decoder, 1 << 10))
    decoder.shares_alone(every)
    decoder.feed(stream.bytes())
    decoder.flush()
    feature = decoder.features()[0]
    assert (decoder.sampled()[0], feature["unit"], feature["lines"].sum()) == (30, 4 * windows, windows > 0)
    assert chains.counts()["references"].sum() == 5 * windows
    assert decoder.distinct(0) is None


def test_set_sampled_references_feed_no_features():
    stream = _one_segment()
    for line in range(100):
        stream.sampled(0, line * 64)
    decoder, found = decode(stream.bytes())
    assert (decoder.sampled()[0], decoder.features()[0]["sets"], len(found)) == (0, 100, 100)
    assert decoder.distinct(0) is None


def test_distinct_lines_are_estimated_within_fifteen_percent():
    from convolver.tracing.site_features import distinct_lines

    for lines in (10, 1000, 100_000):
        stream = _one_segment()
        for line in range(lines):
            stream.visit(0, [0x10000 + line * 64 * 3])
        registers = decode(stream.bytes())[0].distinct(0)
        assert abs(distinct_lines(registers) - lines) <= 0.15 * lines


def test_a_masked_reference_that_did_not_happen_is_left_out():
    stream = Stream()
    stream.module()
    stream.segment(Segment(0x400000, [4], [Site(flags=2), Site(base=1)], words=2))
    stream.visit(0, [1 << 62, 0x5000])
    stream.visit(0, [0x4000, 0x5000])
    assert [r.site for r in decode(stream.bytes())[1]] == [1, 0, 1]


def test_long_streams_arrive_whole_and_in_order():
    stream = _one_segment()
    addresses = np.arange(30_000, dtype=np.uint64) * 24
    for address in addresses:
        stream.visit(0, [int(address)])
    decoder = Decoder()
    collector = decoder.add_collector()
    decoder.feed(stream.bytes())
    decoder.flush()
    batches = collector.take()
    assert {batch.kind for batch in batches} == {WINDOW}
    assert np.array_equal(np.concatenate([batch.addresses for batch in batches]), addresses)

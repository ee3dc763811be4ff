"""Pieces of executed path equal a slow model, and put together they are what the decoder hands out as references."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from convolver._native.path_builder import UNKNOWN, Paths
from convolver._native.trace_decoder import Decoder
from tests.oracle import paths_oracle as oracle
from tests.oracle.references import listed, references
from tests.path_pieces import PathCollector
from tests.wire_streams import WARM, Segment, Site, Stream, streams


def built(wire, max_visits, warmup=False, cuts=()):
    decoder = Decoder()
    collector = PathCollector(Paths(decoder, max_visits, warmup=warmup))
    for start, stop in itertools.pairwise([0, *sorted(cuts), len(wire)]):
        decoder.feed(wire[start:stop])
    decoder.flush()
    return collector.take()


def _piece(found):
    firsts = found.first_references.tolist()
    pairs = list(zip(found.addresses.tolist(), found.sites.tolist(), strict=True))
    visits = [pairs[begin:end] for begin, end in itertools.pairwise(firsts)]
    about = (found.window, found.thread, found.continues, found.following, found.warm_visits)
    return oracle.Piece(*about, found.segments.tolist(), visits)


@given(streams(), st.integers(1, 12), st.booleans(), st.data())
def test_pieces_equal_the_slow_model_wherever_the_stream_is_cut(stream, max_visits, warmup, data):
    wire = stream.bytes()
    cuts = data.draw(st.lists(st.integers(0, len(wire)), max_size=4))
    assert [_piece(found) for found in built(wire, max_visits, warmup, cuts)] == oracle.pieces(wire, max_visits, warmup)


@given(streams(), st.integers(1, 50))
def test_the_references_of_all_pieces_are_those_of_the_plain_decode(stream, max_visits):
    wire = stream.bytes()
    plain = [r for r in references(wire) if not r.sets]
    found = [(p.thread, p.window, s, a) for p in built(wire, max_visits) for a, s in zip(p.addresses, p.sites, strict=True)]
    assert found == [(r.thread, r.window, r.site, r.address) for r in plain]


def _joined(pieces):
    """Put pieces that continue each other together, per window and thread."""
    whole = []
    last = {}
    for piece in pieces:
        key = piece.window, piece.thread
        if piece.continues:
            before = last[key]
            assert before[2] in (UNKNOWN, piece.segments[0])
            before[0].extend(piece.segments.tolist())
            before[1].extend(piece.addresses.tolist())
            before[2] = piece.following
            before[3] += piece.warm_visits
        else:
            last[key] = [piece.segments.tolist(), piece.addresses.tolist(), piece.following, piece.warm_visits]
            whole.append((key, last[key]))
    return whole


@given(streams(), st.integers(1, 12), st.booleans())
def test_short_pieces_put_together_are_the_long_ones(stream, max_visits, warmup):
    wire = stream.bytes()
    assert _joined(built(wire, max_visits, warmup)) == _joined(built(wire, 1 << 20, warmup))


@given(streams(), st.integers(1, 9))
def test_recorded_chunks_give_the_same_paths(stream, max_visits):
    wire = stream.bytes()
    recorder, reader = Decoder(), Decoder()
    recorder.record()
    recorder.feed(wire)
    recorded = recorder.take()
    collector = PathCollector(Paths(reader, max_visits))
    for definitions in (recorded.modules, recorded.segments):
        if definitions:
            reader.define(definitions)
    reader.replay(recorded.addresses)
    reader.flush()
    assert [_piece(p) for p in collector.take()] == [_piece(p) for p in built(wire, max_visits)]


def _loop(visits):
    stream = Stream()
    stream.module()
    stream.segment(Segment(0x400000, [4], [Site()], words=1))
    stream.segment(Segment(0x400004, [2]))
    for visit in visits:
        stream.visit(visit % 2, [0x1000 + visit] if visit % 2 == 0 else [])
    return stream


def test_a_full_piece_knows_what_followed():
    found = built(_loop(range(10)).bytes(), 4)
    assert [(len(p.segments), p.following, p.continues) for p in found] == [(4, 0, False), (4, 0, True), (2, UNKNOWN, True)]


def test_any_number_of_readers_see_the_same():
    decoder = Decoder()
    paths = Paths(decoder, 4)
    pieces = [PathCollector(paths) for _ in range(70)]
    collectors = [decoder.add_collector() for _ in range(70)]
    decoder.feed(_loop(range(10)).bytes())
    decoder.flush()
    assert {tuple(len(piece.segments) for piece in one.take()) for one in pieces} == {(4, 4, 2)}
    assert len({tuple(map(str, listed(one.take()))) for one in collectors}) == 1


def test_what_was_left_out_by_choice_breaks_the_path():
    decoder = Decoder()
    decoder.choose(ranges=[("/bin/x", 0, 4)])
    collector = PathCollector(Paths(decoder, 100))
    decoder.feed(_loop(range(4)).bytes())
    decoder.flush()
    assert [(p.segments.tolist(), p.continues) for p in collector.take()] == [([0], False), ([0], False)]


def test_warm_up_is_marked_across_pieces():
    stream = Stream()
    stream.module()
    stream.segment(Segment(0x400000, [4]))
    for _ in range(2):
        stream.control(2)
        for visit in range(5):
            if visit == 3:
                stream.control(WARM)
            stream.visit(0, [])
        stream.control(3)
    assert [p.warm_visits for p in built(stream.bytes(), 2, True)] == [2, 1, 0, 2, 1, 0]


def test_memory_does_not_grow_with_the_trace():
    stream = _loop(range(40_000))
    found = built(stream.bytes(), 1000)
    assert max(len(p.segments) for p in found) == 1000
    assert np.array_equal(np.concatenate([p.addresses for p in found]), np.arange(0x1000, 0x1000 + 40_000, 2))

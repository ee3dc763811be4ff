"""Trace files: round trips, cuts at every byte, flipped bits, parts that a reader does not know."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convolver._native.simulator import Geometry, Simulator
from convolver._native.sinks import Sinks
from convolver._native.trace_decoder import Decoder, crc32c
from convolver.errors import ChecksumError, FormatError, SchemaError, UnsupportedVersionError
from convolver.tracing import format as cvt
from convolver.tracing.reader import Trace
from convolver.tracing.writer import TraceWriter
from tests.oracle.references import by_kind, listed, references
from tests.wire_streams import Segment, Site, Stream, streams

QUICK = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(path, wire, pieces=1, counters=b"\x05" + bytes(7), **trailer):
    """Write a trace file as the tracer does, with ``pieces`` rounds of chunks."""
    writer = TraceWriter(path, {"command": ["x"], "sampling": {"mode": "full"}})
    decoder = Decoder()
    decoder.record()
    step = len(wire) // pieces + 1
    for start in range(0, len(wire), step):
        decoder.feed(wire[start : start + step])
        writer.put_recorded(decoder.take())
    writer.put_counts(counters)
    writer.finish({"complete": True, **trailer})
    return Trace.load(path)


def small_stream(visits=20):
    stream = Stream()
    stream.module("/usr/bin/some")
    stream.segment(Segment(0x400000, [4, 3], [Site(flags=1), Site(displacement=8, instruction=1)], words=1))
    stream.control(1, 1)
    for visit in range(visits):
        stream.visit(0, [0x10000 + visit * 8])
    return stream


@QUICK
@given(stream=streams(), pieces=st.integers(1, 4))
def test_a_trace_file_gives_back_every_reference(tmp_path, stream, pieces):
    wire = stream.bytes()
    trace = write(tmp_path / "a.cvt", wire, pieces)
    trace.verify()
    assert trace.complete
    assert by_kind(listed(trace.batches())) == by_kind(references(wire))


def test_a_trace_feeds_a_simulator_without_python_objects(tmp_path):
    trace = write(tmp_path / "a.cvt", small_stream(1000).bytes())
    simulator = Simulator([[Geometry(64, 8, 64)]])
    trace.feed(Sinks((simulator,)))
    counts = simulator.counts(0, 0)
    assert simulator.references == 2000
    assert counts.accesses.sum() == 2000
    assert counts.misses.sum() == len({(r.address + i) // 64 for r in listed(trace.batches()) for i in (0, r.size - 1)})


def test_set_sampled_references_go_to_a_simulator_of_their_own(tmp_path):
    stream = small_stream(10)
    for line in range(100):
        stream.sampled(1, line * 64 * 32)
    trace = write(tmp_path / "a.cvt", stream.bytes())
    whole, sets = (Simulator([[Geometry(64, 8, 64)]]) for _ in range(2))
    trace.feed(Sinks((whole,), sets))
    assert (whole.references, sets.references) == (20, 100)


def test_the_id_follows_the_content(tmp_path):
    one, two = (write(tmp_path / name, small_stream().bytes()) for name in ("a.cvt", "b.cvt"))
    other = write(tmp_path / "c.cvt", small_stream(21).bytes())
    assert one.id == two.id != other.id
    assert len(one.id) == 32


def test_a_trace_cut_at_any_byte_gives_a_prefix_or_is_refused(tmp_path):
    wire = small_stream().bytes()
    path = tmp_path / "whole.cvt"
    write(path, wire, pieces=5)
    data, expected = path.read_bytes(), references(wire)
    cut, lengths = tmp_path / "cut.cvt", set()
    for size in range(len(data)):
        cut.write_bytes(data[:size])
        try:
            trace = Trace.load(cut)
        except FormatError:
            assert size < 300
            continue
        found = listed(trace.batches())
        assert not trace.complete
        assert found == expected[: len(found)]
        trace.verify()
        lengths.add(len(found))
    assert {0, len(expected)} < lengths


def test_every_flipped_bit_of_a_file_is_noticed(tmp_path):
    path = tmp_path / "a.cvt"
    write(path, small_stream(3).bytes())
    data, bad = bytearray(path.read_bytes()), tmp_path / "bad.cvt"
    for at in range(0, len(data)):
        data[at] ^= 1 << at % 8
        bad.write_bytes(data)
        data[at] ^= 1 << at % 8
        if 10 <= at < 16:  # oldest reader and flags, which later versions may use
            continue
        try:
            trace = Trace.load(bad)
            trace.verify()
        except FormatError:
            continue
        assert not trace.complete or 8 <= at < 10, at


@QUICK
@given(data=st.binary(max_size=300))
def test_random_bytes_after_a_header_never_harm(tmp_path, data):
    path = tmp_path / "a.cvt"
    path.write_bytes(cvt.pack_header() + data)
    with pytest.raises(FormatError):
        Trace.load(path)


@QUICK
@given(content=st.binary(max_size=200), kind=st.sampled_from([cvt.MODULES, cvt.SEGMENTS, cvt.ADDRESSES, cvt.COUNTS, cvt.TRAILER]))
def test_chunks_with_a_right_checksum_and_wrong_content_are_refused_or_harmless(tmp_path, content, kind):
    path = tmp_path / "a.cvt"
    write(path, small_stream(2).bytes())
    path.write_bytes(path.read_bytes() + cvt.pack_chunk(kind, content, cvt.CRITICAL))
    try:
        trace = Trace.load(path)
        list(trace.batches())
        trace.verify()
    except FormatError:
        return
    assert kind in (cvt.COUNTS, cvt.TRAILER) or not content or trace.complete


def _with_extra(path, kind, flags):
    with open(path, "rb") as file:
        cvt.read_header(file, "x")
        chunks = list(cvt.read_chunks(file, "x"))
    extra = cvt.pack_chunk(kind, b"from the future", flags)
    path.write_bytes(cvt.pack_header() + cvt.repack(chunks[0]) + extra + b"".join(cvt.repack(c) for c in chunks[1:]))


def test_an_unknown_part_is_passed_over_and_an_unknown_critical_one_refused(tmp_path):
    path = tmp_path / "a.cvt"
    wire = small_stream().bytes()
    write(path, wire)
    _with_extra(path, b"XTRA", 0)
    assert listed(Trace.load(path).batches()) == references(wire)
    _with_extra(path, b"XTRA", cvt.CRITICAL)
    with pytest.raises(UnsupportedVersionError, match="XTRA"):
        Trace.load(path)


def test_foreign_missing_and_newer_files_are_distinguished(tmp_path):
    path = tmp_path / "a.cvt"
    with pytest.raises(FormatError, match=r"There is no file .*`convolver trace"):
        Trace.load(path)
    path.write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(SchemaError, match="no Convolver trace"):
        Trace.load(path)
    path.write_bytes(cvt.MAGIC + b"\x09\x00\x09\x00" + bytes(4))
    with pytest.raises(UnsupportedVersionError, match="version 9"):
        Trace.load(path)


def test_a_changed_trailer_no_longer_matches(tmp_path):
    path = tmp_path / "a.cvt"
    write(path, small_stream().bytes())
    with open(path, "rb") as file:
        cvt.read_header(file, "x")
        chunks = list(cvt.read_chunks(file, "x"))
    trailer = {**json.loads(chunks[-1].payload), "id": "0" * 32}
    changed = cvt.pack_chunk(cvt.TRAILER, json.dumps(trailer).encode(), cvt.CRITICAL)
    path.write_bytes(cvt.pack_header() + b"".join(cvt.repack(c) for c in chunks[:-1]) + changed)
    with pytest.raises(ChecksumError, match="id does not match"):
        Trace.load(path).verify()


def test_the_last_counts_count(tmp_path):
    path = tmp_path / "a.cvt"
    writer = TraceWriter(path, {})
    for value in (1, 2):
        writer.put_counts(value.to_bytes(8, "little"))
    writer.keep()
    assert list(Trace.load(path).counters) == [2]


def test_a_trace_without_counts_still_gives_its_addresses(tmp_path):
    path = tmp_path / "a.cvt"
    writer = TraceWriter(path, {})
    decoder = Decoder()
    decoder.record()
    decoder.feed(small_stream().bytes())
    writer.put_recorded(decoder.take())
    writer.keep()
    trace = Trace.load(path)
    assert len(listed(trace.batches())) == 40
    with pytest.raises(FormatError, match="cut off before its execution counts"):
        _ = trace.signature


def test_a_signature_can_be_made_from_a_trace_that_has_none(tmp_path):
    counters = np.array([20], dtype="<u8").tobytes()
    trace = write(tmp_path / "a.cvt", small_stream().bytes(), counters=counters)
    totals = trace.signature.totals
    assert (totals["instructions"], totals["loads"], totals["stores"], totals["bytes"]) == (40, 20, 20, 320)
    row = trace.signature.table.row(0, named=True)
    assert (row["sampled_references"], row["unit_references"], row["random_references"]) == (40, 40, 0)
    assert row["working_set_bytes"] == 64 * 3
    assert trace.signature.inputs == {"trace": trace.id}


def test_a_full_disk_keeps_what_was_whole(tmp_path):
    writer = TraceWriter(tmp_path / "a.cvt", {})
    decoder = Decoder()
    decoder.record()
    decoder.feed(small_stream().bytes())
    writer.put_recorded(decoder.take())
    kept = writer.size_bytes

    class Full(io.FileIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    writer._file.close()
    writer._file = Full(writer.part, "r+")
    with pytest.raises(FormatError, match="No space left on device; what is whole was kept"):
        writer.put_counts(bytes(80))
    writer.keep()
    assert Path(tmp_path / "a.cvt").stat().st_size == kept
    assert len(listed(Trace.load(tmp_path / "a.cvt").batches())) == 40


def test_crc32c_has_the_known_check_value_and_continues():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


def test_a_second_writer_of_a_name_is_refused_and_the_first_one_s_trace_stays_whole(tmp_path):
    first = TraceWriter(tmp_path / "a.cvt", {"command": ["x"], "sampling": {"mode": "counts"}})
    with pytest.raises(FormatError, match=r"a\.cvt is being written by another run: wait for its end or choose another name\."):
        TraceWriter(tmp_path / "a.cvt", {"command": ["y"], "sampling": {"mode": "counts"}})
    TraceWriter(tmp_path / "b.cvt", {"command": ["y"], "sampling": {"mode": "counts"}}).discard()
    size = first.size_bytes
    first.keep()
    assert (tmp_path / "a.cvt").stat().st_size == size
    TraceWriter(tmp_path / "a.cvt", {"command": ["z"], "sampling": {"mode": "counts"}}).keep()
    assert b'"z"' in (tmp_path / "a.cvt").read_bytes()

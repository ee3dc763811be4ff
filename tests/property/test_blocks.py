"""Laws of the rebuilt basic blocks: nothing is lost, nothing counted twice, all instructions of a block run equally often."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from convolver._native.trace_decoder import Decoder
from convolver.tracing.blocks import rebuild_blocks
from convolver.tracing.branch_code import Codes, transfers
from convolver.tracing.definitions import Definitions
from tests.wire_streams import Segment, Site, Stream, streams

NOP_LENGTHS = (1, 2, 3, 4)


def _definitions(stream):
    decoder = Decoder()
    decoder.feed(stream.bytes())
    return Definitions.of(decoder)


@st.composite
def programs(draw):
    """Segments as a tracer makes them from one piece of straight code: entries anywhere, ends at exits or at a cut."""
    lengths = draw(st.lists(st.integers(1, 8), min_size=2, max_size=30))
    starts = [0x400000 + sum(lengths[:i]) for i in range(len(lengths))]
    exits = set(draw(st.lists(st.integers(0, len(lengths) - 1), max_size=6))) | {len(lengths) - 1}
    sites = [draw(st.lists(st.sampled_from([(8, 0), (4, 1), (16, 0)]), max_size=2)) for _ in lengths]
    flops = draw(st.lists(st.integers(0, 8), min_size=len(lengths), max_size=len(lengths)))
    limit = draw(st.integers(2, 12))
    stream = Stream()
    stream.module()
    entries = draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=8, unique=True))
    for number, entry in enumerate(entries):
        last = min(next(e for e in sorted(exits) if e >= entry), entry + limit - 1)
        chosen = range(entry, last + 1)
        stream.segment(
            Segment(
                starts[entry],
                [lengths[i] for i in chosen],
                [Site(size=s, flags=f, instruction=i - entry, base=-1) for i in chosen for s, f in sites[i]],
                flops=[flops[i] for i in chosen],
                counter=number,
            )
        )
    counters = draw(st.lists(st.integers(0, 1 << 40), min_size=len(entries), max_size=len(entries)))
    return stream, np.array(counters, dtype=np.uint64)


def _check_sums(stream, counters, blocks):
    def value(number):
        return int(counters[number]) if number < len(counters) else 0

    expected = Counter()
    for segment in stream.segments:
        times = value(segment.counter)
        expected["instructions"] += times * len(segment.lengths)
        expected["flops"] += times * sum(segment.flops or ())
        for site in segment.sites:
            happened = value(site.guard_counter) if site.flags & 2 else times
            kind = "store" if site.flags & 1 else "load"
            expected[f"{kind}s"] += happened
            expected[f"{kind}_bytes"] += happened * site.size
    for name in ("instructions", "flops", "loads", "stores", "load_bytes", "store_bytes"):
        assert sum(int(x) for x in blocks.counts[name]) == expected[name], name


@given(programs())
def test_sums_over_blocks_equal_sums_over_segments(program):
    stream, counters = program
    _check_sums(stream, counters, rebuild_blocks(_definitions(stream), counters))


@given(streams(max_events=5), st.lists(st.integers(0, 1 << 30), max_size=9))
def test_sums_hold_for_arbitrary_overlapping_and_unaligned_segments(stream, counters):
    counters = np.array(counters, dtype=np.uint64)
    _check_sums(stream, counters, rebuild_blocks(_definitions(stream), counters))


@given(programs())
def test_blocks_of_aligned_code_do_not_overlap_and_each_runs_equally_often(program):
    stream, counters = program
    blocks = rebuild_blocks(_definitions(stream), counters)
    ends = blocks.offset + blocks.length_bytes
    assert np.all(blocks.offset[1:] >= ends[:-1])
    executed = Counter()
    for segment in stream.segments:
        at = segment.address - 0x400000
        for length in segment.lengths:
            executed[at] += int(counters[segment.counter])
            at += length
    for place in range(len(blocks)):
        inside = {times for at, times in executed.items() if blocks.offset[place] <= at < ends[place]}
        assert inside == {int(blocks.counts["executions"][place])}


@given(programs())
def test_every_site_belongs_to_the_block_of_its_instruction(program):
    stream, counters = program
    blocks = rebuild_blocks(_definitions(stream), counters)
    assert len(blocks.site_blocks) == len(stream.sites)
    for (number, site), block in zip(stream.sites, blocks.site_blocks, strict=True):
        segment = stream.segments[number]
        at = segment.address - 0x400000 + sum(segment.lengths[: site.instruction])
        assert blocks.offset[block] <= at < blocks.offset[block] + blocks.length_bytes[block]


@settings(max_examples=30)
@given(st.lists(st.integers(1, 8), min_size=4, max_size=40), st.integers(2, 10), st.integers(1, 1000))
def test_cuts_of_straight_code_are_undone(lengths, limit, times):
    stream = Stream()
    stream.module()
    for number, first in enumerate(range(0, len(lengths), limit)):
        address = 0x400000 + sum(lengths[:first])
        stream.segment(Segment(address, lengths[first : first + limit], counter=number))
    counters = np.full(len(stream.segments), times, dtype=np.uint64)
    blocks = rebuild_blocks(_definitions(stream), counters)
    assert len(blocks) == 1 or not all(_plain(segment) for segment in stream.segments)
    assert blocks.counts["instructions"].sum() == times * len(lengths)


def _plain(segment):
    last = sum(segment.lengths[:-1])
    return not transfers(Codes.of([bytes(i & 255 for i in range(last, last + segment.lengths[-1]))]))[0]


def test_an_instruction_that_an_exit_divides_is_counted_once():
    stream = Stream()
    stream.module()
    stream.segment(Segment(0x400000, [4, 2], [Site(base=-1, instruction=1)], counter=0))
    stream.segment(Segment(0x400004, [2, 3], [Site(base=-1, instruction=0, flags=1)], counter=1))
    wire = bytearray(stream.bytes())
    flags = wire.rindex((0x400004).to_bytes(8, "little")) + 40 + 3
    wire[flags] = 1
    decoder = Decoder()
    decoder.feed(bytes(wire))
    blocks = rebuild_blocks(Definitions.of(decoder), np.array([10, 7], dtype=np.uint64))
    assert list(blocks.offset) == [0, 6]
    assert list(blocks.counts["instructions"]) == [20, 7]
    assert list(blocks.counts["loads"]) == [10, 0]
    assert list(blocks.counts["stores"]) == [7, 0]


def test_code_outside_files_that_changed_at_one_address_stays_apart():
    stream = Stream()
    stream.module("")
    for number in range(2):
        stream.segment(Segment(0x400000, [2 + number], counter=number, file_offset=0x400000))
    blocks = rebuild_blocks(_definitions(stream), np.array([3, 5], dtype=np.uint64))
    assert sorted(blocks.counts["executions"]) == [3, 5]


def test_nothing_traced_gives_no_blocks():
    assert len(rebuild_blocks(_definitions(Stream()), np.zeros(0, dtype=np.uint64))) == 0


def test_control_transfers_are_recognised():
    yes = ("c3", "f3c3", "e800000000", "7405", "0f8400000000", "ffd0", "41ffe0", "0f05", "e2fe", "ff2500000000", "f2c3", "3effe0")
    no = ("90", "4889e5", "0f1f00", "ff00", "48ffc0", "f30f1efa", "660f6f00", "c5fe6f00", "0fb600")
    assert transfers(Codes.of(map(bytes.fromhex, yes))).all()
    assert not transfers(Codes.of(map(bytes.fromhex, no))).any()

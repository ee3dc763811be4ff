"""What a budget keeps of a stream: whole intervals, evenly spread, whatever the reader's pace."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from convolver._native.simulator import Geometry, Simulator
from convolver._native.trace_decoder import SETS, WINDOW, Decoder
from convolver.tracing.sampling import STRETCH, SamplingPlan
from convolver.tracing.thinning import Thinning, head
from tests.wire_streams import Segment, Site, Stream

THREAD, OPEN, CLOSE, INTERVAL = 1, 2, 3, 8
VISITS, SETS_EACH = 20, 30


def definitions():
    stream = Stream()
    stream.module()
    stream.segment(Segment(0x400000, [4, 2], [Site(base=0)], words=1, counter=0))
    return stream


def long_run(intervals):
    """A burst of 20 visits and 30 set samples of class 21 of 32 in each interval; thread 2 executes the odd ones."""
    stream, random = definitions(), np.random.default_rng(1)
    addresses = random.integers(0, 1 << 30, (intervals, VISITS))
    lines = random.permutation(1 << 20)[: intervals * SETS_EACH].reshape(intervals, SETS_EACH) * 32 + 21
    for number in range(intervals):
        stream.control(INTERVAL, number)
        stream.control(THREAD, 1 + number % 2)
        stream.control(OPEN, number * 1000)
        for address in addresses[number].tolist():
            stream.visit(0, [address])
        stream.control(CLOSE, number * 1000 + VISITS)
        for line in lines[number].tolist():
            stream.sampled(0, 64 * line)
    return stream.bytes(), addresses, lines


def thinned(data, budget, pieces, asked=(0, 0)):
    """Return what is kept as (kind, thread, stretch or window, warm, addresses), the header, and what the tracer is sent."""
    decoder, sent = Decoder(), []
    decoder.record(units=True)
    plan = SamplingPlan(interval=1000, sample=VISITS, sets=32, budget=budget).check()
    thinning = Thinning(plan, decoder, lambda *every: sent.append(every), lambda: asked)
    defined = b""
    for begin in range(0, len(data), pieces):
        decoder.feed(data[begin : begin + pieces])
        payloads = thinning.take()
        defined += payloads.modules + payloads.segments
    thinning.finish()
    again = Decoder()
    collector = again.add_collector()
    again.define(defined)
    for chunk in thinning.chunks():
        again.replay(chunk)
    again.flush()
    batches = [(one.kind, one.thread, one.window, one.warm, one.addresses.tolist()) for one in collector.take()]
    return batches, thinning.document(), sent


def windows(batches):
    """Return thread and addresses of each burst."""
    found: dict[int, tuple[int, list[int]]] = {}
    for kind, thread, window, _, addresses in batches:
        if kind == WINDOW:
            found.setdefault(window, (thread, []))[1].extend(addresses)
    return list(found.values())


def test_a_budget_keeps_whole_bursts_evenly_spread_over_the_run():
    data, addresses, _ = long_run(600)
    batches, document, sent = thinned(data, 30_000, 50_000)
    kept = windows(batches)
    numbers = [int(np.flatnonzero((addresses == found).all(axis=1))[0]) for _, found in kept]
    assert [thread for thread, _ in kept] == [1 + number % 2 for number in numbers]
    steps = np.diff(numbers)
    assert 20 < len(numbers) < 400
    assert steps.max() <= 2 * steps.min()
    assert numbers[-1] > 600 - 2 * steps.max()
    assert document["burst_interval"] == round(1000 * 600 / len(numbers))
    assert sent
    assert sent[-1][0] > 1


def test_a_budget_keeps_half_of_the_sets_before_it_leaves_gaps():
    data, _, lines = long_run(200)
    batches, document, _ = thinned(data, 60_000, 50_000)
    found = [address // 64 for kind, *_, addresses in batches if kind == SETS for address in addresses]
    assert document["sets"] == 64
    assert document["set_share"] == 1.0
    assert found == [line for line in lines.ravel().tolist() if line % 64 == 21]
    assert not any(warm for _, _, _, warm, _ in batches)


def test_stretches_after_gaps_begin_with_a_warm_up():
    data, _, lines = long_run(40 * STRETCH)
    batches, document, sent = thinned(data, 20_000, 50_000)
    found = [(stretch, warm, [a // 64 for a in addresses]) for kind, _, stretch, warm, addresses in batches if kind == SETS]
    interval_of = {line: number for number, row in enumerate(lines.tolist()) for line in row if line % 256 == 21}
    assert document["sets"] == sent[-1][2] == 256
    kept = {interval_of[line]: (stretch, warm) for stretch, warm, all_lines in found for line in all_lines}
    assert sorted(kept) != list(range(min(kept), max(kept) + 1))
    for interval, (stretch, warm) in kept.items():
        begin = interval // STRETCH * STRETCH
        assert warm == (0 < begin <= interval < begin + STRETCH // 2)
        assert all(kept[other][0] == stretch for other in kept if other // STRETCH == interval // STRETCH)
    counted = len({n for n in kept if not kept[n][1]})
    assert abs(document["set_share"] * 40 * STRETCH - counted) <= 0.35 * counted  # an interval may have no line of the class


def test_of_what_a_tracer_takes_seldom_the_same_is_kept_before():
    data, addresses, _ = long_run(4 * STRETCH)
    batches, document, _ = thinned(data, 10**9, 50_000, (8, 2 * STRETCH))
    numbers = [int(np.flatnonzero((addresses == found).all(axis=1))[0]) for _, found in windows(batches)]
    assert numbers == list(range(0, 4 * STRETCH, 8))
    assert document["burst_interval"] == 8000
    assert document["set_share"] == 0.375


RUN = long_run(150)


@given(st.integers(3_000, 200_000), st.sampled_from([10**3, 10**4, 10**5, 10**9]))
def test_bursts_are_whole_at_any_pace_of_the_reader(pieces, budget):
    data, addresses, _ = RUN
    batches, document, _ = thinned(data, budget, pieces)
    numbers = [int(np.flatnonzero((addresses == found).all(axis=1))[0]) for _, found in windows(batches)]
    assert numbers == sorted(set(numbers))
    assert document["burst_interval"] == round(1000 * 150 / len(numbers))
    assert budget < 10**9 or len(numbers) == 150


@given(st.integers(2, 9), st.integers(1, 200))
def test_of_lines_that_may_have_come_in_a_gap_few_count(one_in, lines):
    simulator = Simulator([[Geometry(sets=64, ways=8, line_bytes=64, policy=0)]])
    decoder = Decoder()
    decoder.add_simulator(simulator, SETS)
    decoder.feed(definitions().bytes())
    stream = Stream()
    for _ in range(2):
        for line in range(lines):
            stream.sampled(0, 64 * line)
    samples = Decoder()
    samples.record()
    samples.feed(definitions().bytes() + stream.bytes()[16:])
    decoder.replay(head(one_in << 2) + samples.take().addresses)
    decoder.flush()
    counts = simulator.counts(0, 0)
    first = -(-lines // one_in)  # of the first references one in so many, of the second, which hit, all
    assert (int(counts.accesses.sum()), int(counts.misses.sum())) == (first + lines, first)

"""The warm-up of bursts: its references fill the caches and are counted nowhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver._native.simulator import Geometry, Simulator
from convolver._native.trace_decoder import Decoder
from convolver.errors import UsageError
from convolver.machine.hierarchy import Level
from convolver.machine.memory_system import MemorySystem
from convolver.simulation.detailed import DetailedMachine, Details
from convolver.tracing.sampling import SamplingPlan
from tests.wire_streams import burst_stream

L1, L2 = Geometry(4, 2, 64), Geometry(8, 4, 64)
lines = st.lists(st.integers(0, 63), max_size=60)


def simulated(data, warmup):
    simulator, decoder = Simulator([[L1, L2]]), Decoder()
    decoder.warmup(warmup)
    decoder.add_simulator(simulator)
    decoder.feed(data)
    decoder.flush()
    return simulator


def misses(sequence, counted):
    """An independent LRU of the first level: misses of the references whose flag is set."""
    sets, missed = [[] for _ in range(L1.sets)], 0
    for line, counts in zip(sequence, counted, strict=True):
        row = sets[line % L1.sets]
        missed += counts and line not in row
        if line in row:
            row.remove(line)
        row.insert(0, line)
        del row[L1.ways :]
    return missed


@given(st.lists(st.tuples(lines, lines), max_size=4))
def test_a_warm_up_fills_the_caches_and_is_not_counted(windows):
    simulator = simulated(burst_stream(windows), True)
    sequence = [line for warm, counted in windows for line in [*warm, *counted]]
    flags = [flag for warm, counted in windows for flag in [False] * len(warm) + [True] * len(counted)]
    counts = simulator.counts(0, 0)
    assert simulator.references == counts.accesses.sum() == sum(flags)
    assert counts.misses.sum() == misses(sequence, flags)
    assert np.array_equal(simulator.counts(0, 1).accesses, counts.misses)


@given(st.lists(st.tuples(lines, lines), max_size=4))
def test_the_detailed_engine_leaves_warm_ups_out_in_the_same_way(windows):
    fast = simulated(burst_stream(windows), True)
    levels = tuple(Level(level=f"L{i}", size_bytes=64 * g.sets * g.ways, ways=g.ways) for i, g in enumerate((L1, L2), 1))
    machine, decoder = DetailedMachine(MemorySystem(levels), Details()), Decoder()
    decoder.warmup()
    decoder.add_simulator(machine.simulator)
    decoder.feed(burst_stream(windows))
    decoder.flush()
    assert machine.simulator.references == fast.references
    for level in (0, 1):
        for ours, theirs in zip(machine.grouped_counts(level), fast.grouped_counts(0, level), strict=True):
            assert ours.sum() == theirs.sum()


@given(st.lists(st.tuples(lines, lines), max_size=4))
def test_without_warm_up_the_mark_means_nothing(windows):
    assert simulated(burst_stream(windows), False).references == sum(len(warm) + len(counted) for warm, counted in windows)


@given(st.lists(lines, max_size=5), st.integers(0, 70))
def test_windows_but_the_first_begin_stale(windows, stale):
    simulator, decoder = Simulator([[L1, L2]]), Decoder()
    decoder.stale(stale)
    decoder.add_simulator(simulator)
    decoder.feed(burst_stream((None, window) for window in windows))
    decoder.flush()
    sequence = [line for window in windows for line in window]
    counted = [not number or place >= stale for number, window in enumerate(windows) for place in range(len(window))]
    assert simulator.references == sum(counted)
    assert simulator.counts(0, 0).misses.sum() == misses(sequence, counted)
    assert decoder.totals["window_references"] == len(sequence)


def test_batches_say_what_is_warm():
    decoder = Decoder()
    decoder.warmup()
    collector = decoder.add_collector()
    decoder.feed(burst_stream([([1, 2], [3]), ([4], [])]))
    decoder.flush()
    assert [(batch.warm, (batch.addresses // 64).tolist()) for batch in collector.take()] == [
        (True, [1, 2]),
        (False, [3]),
        (True, [4]),
    ]


@pytest.mark.parametrize("plan", [{"warmup": 30_000}, {"warmup": 5, "mode": "full"}, {"warmup": -1}])
def test_an_impossible_warm_up_is_refused(plan):
    with pytest.raises(UsageError):
        SamplingPlan(**plan).check()

"""The simulator against the slow model, and the laws that every LRU cache keeps."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convolver._native.simulator import GROUPS, Geometry, Simulator
from convolver.machine.hierarchy import Level
from convolver.simulation.hit_rates import COLUMNS
from convolver.simulation.one_pass import simulate_arrays
from convolver.simulation.parallel import ParallelSimulator
from tests.oracle import cache_oracle as oracle
from tests.reference_streams import arrays, hierarchies, loops, related, streams


def _machines(found):
    return [{"name": f"m{i}", "hierarchy": [level_document(level) for level in levels]} for i, levels in enumerate(found)]


def level_document(level: Level) -> dict:
    names = ("level", "size_bytes", "ways", "line_bytes", "policy")
    return {name: getattr(level, name) for name in names}


def _expected(references, levels, name):
    counts = oracle.simulate(references, [(level.sets, level.ways, level.policy) for level in levels], levels[0].line_bytes)
    blocks = sorted(counts[0].accesses)
    return [
        (block, name, level.level, c.accesses[block], c.accesses[block] - c.misses[block], c.misses[block], c.write_backs[block])
        for level, c in zip(levels, counts, strict=True)
        for block in blocks
    ]


@settings(max_examples=150, deadline=None)
@given(streams(), st.lists(hierarchies(), min_size=1, max_size=3))
def test_counts_per_block_and_level_equal_the_slow_model(references, found):
    rates = simulate_arrays(**arrays(references), machines=_machines(found))
    expected = [row for i, levels in enumerate(found) for row in _expected(references, levels, f"m{i}")]
    assert rates.table.select(COLUMNS).rows() == expected


@pytest.fixture(params=["portable", "avx2", "avx512"])
def simd(request, monkeypatch):
    """Each instruction set that this processor has."""
    monkeypatch.setenv("CONVOLVER_SIMD", request.param)
    if Simulator([[Geometry(1, 1, 64)]]).simd != request.param:
        pytest.skip(f"needs a processor with {request.param}")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(streams(), st.lists(hierarchies(), min_size=1, max_size=3))
def test_each_instruction_set_counts_like_the_slow_model(simd, references, found):
    rates = simulate_arrays(**arrays(references), machines=_machines(found))
    assert rates.table.select(COLUMNS).rows() == [
        row for i, levels in enumerate(found) for row in _expected(references, levels, f"m{i}")
    ]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(loops(), st.lists(hierarchies(max_levels=3), min_size=1, max_size=2))
def test_each_front_filter_changes_nothing(simd, references, found):
    # The first long batch is cut into pieces, and each filter gets two of them.
    rates = simulate_arrays(**arrays(references), machines=_machines(found))
    assert rates.table.select(COLUMNS).rows() == [
        row for i, levels in enumerate(found) for row in _expected(references, levels, f"m{i}")
    ]


@settings(max_examples=100, deadline=None)
@given(streams(), st.lists(hierarchies(any_policy=True), min_size=1, max_size=3))
def test_each_policy_counts_like_its_slow_model(references, found):
    rates = simulate_arrays(**arrays(references), machines=_machines(found))
    assert rates.table.select(COLUMNS).rows() == [
        row for i, levels in enumerate(found) for row in _expected(references, levels, f"m{i}")
    ]


@settings(max_examples=100, deadline=None)
@given(streams(), related())
def test_machines_that_share_their_first_levels_count_like_the_slow_model(references, found):
    rates = simulate_arrays(**arrays(references), machines=_machines(found))
    assert rates.table.select(COLUMNS).rows() == [
        row for i, levels in enumerate(found) for row in _expected(references, levels, f"m{i}")
    ]


@settings(max_examples=25, deadline=None)
@given(loops(), hierarchies(max_levels=2, any_policy=True))
def test_the_front_filters_change_no_policy(references, levels):
    rates = simulate_arrays(**arrays(references), machines=list(levels))
    assert rates.table.select(COLUMNS).rows() == _expected(references, levels, "machine-1")


@settings(max_examples=40, deadline=None)
@given(streams(), hierarchies())
def test_accesses_of_a_level_are_the_misses_of_the_one_before(references, levels):
    table = simulate_arrays(**arrays(references), machines=list(levels)).table
    assert (table["accesses"] == table["hits"] + table["misses"]).all()
    for nearer, farther in itertools.pairwise(levels):
        misses = table.filter(pl.col("level") == nearer.level).select("block", accesses="misses")
        assert table.filter(pl.col("level") == farther.level).select("block", "accesses").equals(misses)


@settings(max_examples=40, deadline=None)
@given(streams(), st.integers(1, 31), st.sampled_from([1, 3, 8, 64]))
def test_more_ways_never_miss_more(references, ways, sets):
    machines = [
        {"name": str(n), "hierarchy": [{"level": "L1", "size_bytes": sets * n * 64, "ways": n, "line_bytes": 64}]}
        for n in sorted({ways, ways + 1, 2 * ways})
    ]
    rates = simulate_arrays(**arrays(references), machines=machines)
    misses = [rates.totals(machine["name"])[0]["misses"] for machine in machines]
    assert misses == sorted(misses, reverse=True)


@settings(max_examples=40, deadline=None)
@given(streams(), hierarchies(), st.lists(st.integers(0, 1500), max_size=8))
def test_cutting_a_stream_into_pieces_changes_nothing(references, levels, cuts):
    geometry = [[Geometry(level.sets, level.ways, level.line_bytes) for level in levels]]
    address, size, write, block = arrays(references).values()
    whole, parts = Simulator(geometry), Simulator(geometry)
    whole.feed(address, size, write, block)
    edges = sorted({0, len(address), *(cut for cut in cuts if cut < len(address))})
    for start, end in itertools.pairwise(edges):
        parts.feed(address[start:end], size[start:end], write[start:end], block[start:end])
    for level in range(len(levels)):
        for one, other in zip(whole.counts(0, level), parts.counts(0, level), strict=True):
            assert np.array_equal(one, other)


@settings(max_examples=20, deadline=None)
@given(streams(), st.integers(0, 2**40))
def test_shifting_every_address_by_whole_caches_changes_nothing(references, shift):
    levels = [Level(level="L1", size_bytes=4096, ways=4), Level(level="L2", size_bytes=12 * 12 * 64, ways=12)]
    near = [(address % (1 << 38), *rest) for address, *rest in references]
    moved = [(address + shift * 4096 * 3, *rest) for address, *rest in near]
    tables = [simulate_arrays(**arrays(refs), machines=levels).table for refs in (near, moved)]
    assert tables[0].equals(tables[1])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(streams(), st.sampled_from([2, 4, 16]), st.lists(st.sampled_from([1, 3, 4, 17]), min_size=2, max_size=3))
def test_the_classes_of_sets_add_up_to_the_whole(simd, references, classes, ways):
    geometry = [[Geometry(classes * factor, n, 64) for factor, n in zip((1, 3, 8), ways, strict=False)]]
    address, size, write, block = arrays(references).values()
    whole, parts = Simulator(geometry), [Simulator(geometry) for _ in range(classes)]
    whole.feed(address, size, write, block)
    for value, part in enumerate(parts):
        part.select(classes - 1, value)
        part.feed(address, size, write, block)
    for level in range(len(ways)):
        sums = [np.zeros(6, dtype=np.uint64) for _ in range(3)]
        for part in parts:
            for total, counts in zip(sums, part.counts(0, level), strict=True):
                total[: len(counts)] += counts
        for total, counts in zip(sums, whole.counts(0, level), strict=True):
            assert np.array_equal(total[: len(counts)], counts)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(streams(), st.sampled_from([2, 4, 16]), st.booleans(), st.sampled_from([1, 7, 40]), st.sampled_from([64, 128]))
def test_threads_that_share_the_sets_count_like_one(simd, references, jobs, sized, times, other_line):
    geometry = [[Geometry(32, 3, 64), Geometry(48, 4, 64)], [Geometry(16, 2, other_line)]]
    address, size, write, block = (np.tile(array, times) for array in arrays(references).values())
    one, several = Simulator(geometry), ParallelSimulator(geometry, jobs)
    assert len(several.simulators) == jobs
    for part in (slice(0, len(address) // 3), slice(len(address) // 3, None)):
        for simulator in (one, several):
            simulator.feed(address[part], size[part] if sized else None, write[part], block[part])
    assert several.references == one.references
    for hierarchy, level in ((0, 0), (0, 1), (1, 0)):
        for sums, counts in zip(several.grouped_counts(hierarchy, level), one.grouped_counts(hierarchy, level), strict=True):
            assert np.array_equal(sums, counts)


@settings(max_examples=30, deadline=None)
@given(streams(), hierarchies(), st.integers(3, 12))
def test_groups_of_sets_add_up_to_the_owner(references, levels, first_bit):
    geometry = [[Geometry(level.sets, level.ways, level.line_bytes) for level in levels]]
    address, _, write, block = arrays(references).values()
    plain, grouped = Simulator(geometry), Simulator(geometry)
    grouped.group_sets(first_bit)
    for simulator in (plain, grouped):
        simulator.feed(address, None, write, block)
    for level in range(len(levels)):
        for one, other in zip(plain.counts(0, level), grouped.grouped_counts(0, level), strict=True):
            assert other.shape == (len(one), GROUPS)
            assert np.array_equal(other.sum(axis=1), one)


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(streams(), st.just(18), st.sampled_from([2, 8]))
def test_levels_of_very_many_sets_count_like_the_slow_model(simd, references, log_sets, ways):
    small, large = [
        Level(level="L1", size_bytes=2 * 64 * 64, ways=2),
        Level(level="L2", size_bytes=(ways << log_sets) * 64, ways=ways),
    ]
    near = [(address % (1 << 40), *rest) for address, *rest in references]
    found = [[small, large]]
    rates = simulate_arrays(**arrays(near), machines=_machines(found))
    assert rates.table.select(COLUMNS).rows() == _expected(near, found[0], "m0")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(loops(), hierarchies(max_levels=2), st.sampled_from([1, 1 << 14, 1 << 15, 1 << 16]))
def test_large_owners_are_counted_as_small_ones(simd, references, levels, factor):
    geometry = [[Geometry(level.sets, level.ways, level.line_bytes) for level in levels]]
    address, size, write, block = arrays(references).values()
    small, large = Simulator(geometry), Simulator(geometry)
    small.feed(address, size, write, block)
    large.feed(address, size, write, (block * factor).astype(np.uint32))
    for level in range(len(levels)):
        for one, other in zip(small.counts(0, level), large.counts(0, level), strict=True):
            assert np.array_equal(one, other[::factor])
            assert other.sum() == one.sum()

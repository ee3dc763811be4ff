"""The detailed engine against the slow model, against the fast engine, and the laws that every hierarchy keeps."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convolver._native.detailed_engine import COUNTS, DetailedSimulator
from convolver._native.simulator import Simulator
from convolver.machine.hierarchy import SEMANTICS
from tests.detailed_strategies import any_hierarchy, fast_geometry, geometry, plain_hierarchy
from tests.oracle.detailed_oracle import Options, Run
from tests.reference_streams import arrays, streams


def _made(levels: list[Options], cores: int = 1, semantics: str = "write-back") -> DetailedSimulator:
    return DetailedSimulator([geometry(level) for level in levels], cores=cores, semantics=SEMANTICS.index(semantics))


def _feed(simulator: DetailedSimulator, references, core: int = 0) -> None:
    address, size, write, block = arrays(references).values()
    simulator.feed(address, size, write, block, core=core)


def _counted(simulator: DetailedSimulator, level: int) -> dict:
    rows = simulator.counts(level)
    return {
        (name, owner): int(rows[owner, column])
        for column, name in enumerate(COUNTS)
        for owner in range(len(rows))
        if rows[owner, column]
    }


def _resident(simulator, level):
    counted = dict(zip(COUNTS, simulator.counts(level).sum(axis=0).tolist(), strict=True))
    return counted["fills"] - counted["evictions"]


def _expected(run: Run, level: int) -> dict:
    return {(name, owner): n for name, by_owner in run.counts[level].items() for owner, n in by_owner.items() if n}


def _same(references, levels, semantics="write-back"):
    simulator, run = _made(levels, semantics=semantics), Run(levels, semantics=semantics)
    _feed(simulator, references)
    run.feed(references)
    for level in range(len(levels)):
        assert _counted(simulator, level) == _expected(run, level)
        assert _resident(simulator, level) == run.resident(level)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(streams(6), any_hierarchy())
def test_every_combination_counts_like_the_slow_model(references, levels):
    _same(references, levels)


@settings(max_examples=60, deadline=None)
@given(streams(6), plain_hierarchy(), st.sampled_from(SEMANTICS))
def test_every_semantics_counts_like_the_slow_model(references, levels, semantics):
    _same(references, levels, semantics)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(streams(2), st.integers(0, 2)), min_size=1, max_size=5), any_hierarchy(cores=3))
def test_cores_that_share_levels_count_like_the_slow_model(turns, levels):
    simulator, run = _made(levels, cores=3), Run(levels, cores=3)
    for references, core in turns:
        _feed(simulator, references, core)
        run.feed(references, core)
    for level in range(len(levels)):
        assert _counted(simulator, level) == _expected(run, level)
        assert _resident(simulator, level) == run.resident(level)


@settings(max_examples=100, deadline=None)
@given(streams(8), plain_hierarchy())
def test_the_detailed_engine_counts_like_the_fast_one(references, levels):
    fast = Simulator([[fast_geometry(level) for level in levels]])
    detailed = _made(levels)
    address, size, write, block = arrays(references).values()
    fast.feed(address, size, write, block)
    detailed.feed(address, size, write, block)
    for level in range(len(levels)):
        assert np.array_equal(np.stack(fast.counts(0, level), axis=1), detailed.counts(level)[:, :3])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(streams(2), st.integers(0, 3)), min_size=1, max_size=8), plain_hierarchy(), st.integers(0, 3))
def test_threads_with_levels_of_their_own_count_like_cores(turns, levels, own):
    levels = [replace(level, shared=number >= own) for number, level in enumerate(levels)]
    geometries = [fast_geometry(one)._replace(own=not one.shared) for one in levels]
    alone = [one._replace(own=False) for one in geometries]
    fast, detailed = Simulator([geometries, alone]), _made(levels, cores=4)
    for references, thread in turns:
        address, size, write, block = arrays(references).values()
        fast.thread(thread)
        fast.feed(address, size, write, block)
        detailed.feed(address, size, write, block, core=thread)
    for level in range(len(levels)):
        assert np.array_equal(np.stack(fast.counts(0, level), axis=1), detailed.counts(level)[:, :3])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(streams(2), st.integers(0, 5)), min_size=1, max_size=10),
    *(plain_hierarchy(), st.integers(0, 2), st.integers(1, 3), st.integers(1, 3)),
)
def test_complexes_count_like_machines_of_their_own(turns, levels, own, parts, adjacent):
    plain = [fast_geometry(one)._replace(own=number < own) for number, one in enumerate(levels)]
    one_each = [level._replace(parts=parts, adjacent=adjacent) for level in plain]
    together, alone = Simulator([plain, one_each]), [Simulator([plain]) for _ in range(parts)]
    for references, thread in turns:
        address, size, write, block = arrays(references).values()
        for simulator in (together, alone[thread // adjacent % parts]):
            simulator.thread(thread)
            simulator.feed(address, size, write, block)
    for level in range(len(levels)):
        counts = np.stack(together.counts(1, level), axis=1)
        for one in alone:
            found = np.stack(one.counts(0, level), axis=1)
            counts[: len(found)] -= found
        assert not counts.any()


@settings(max_examples=150, deadline=None)
@given(streams(6), any_hierarchy())
def test_lines_accesses_and_prefetches_are_conserved(references, levels):
    simulator = _made(levels)
    _feed(simulator, references)
    totals = [dict(zip(COUNTS, simulator.counts(level).sum(axis=0).tolist(), strict=True)) for level in range(len(levels))]
    for own, level in zip(totals, levels, strict=True):
        assert 0 <= own["fills"] - own["evictions"] <= level.sets * level.ways
        assert own["misses"] <= own["accesses"]
        assert own["useful_prefetches"] + own["unused_prefetches"] <= own["prefetches"]
        if level.classify:
            assert own["compulsory"] + own["capacity"] + own["conflict"] == own["misses"]
    for nearer, farther in itertools.pairwise(totals):
        assert farther["accesses"] == nearer["fetches"] + nearer["writes_through"]


@settings(max_examples=60, deadline=None)
@given(streams(6), st.integers(1, 31), st.sampled_from([1, 3, 8]))
def test_fewer_ways_of_lru_never_hit_more_and_one_set_has_no_conflicts(references, ways, sets):
    misses = []
    for n in sorted({ways, ways + 1, 2 * ways}):
        simulator = _made([Options(sets=sets, ways=n, classify=True)])
        _feed(simulator, references)
        totals = dict(zip(COUNTS, simulator.counts(0).sum(axis=0).tolist(), strict=True))
        misses.append(totals["misses"])
        assert sets > 1 or totals["conflict"] == 0
    assert misses == sorted(misses, reverse=True)


@settings(max_examples=60, deadline=None)
@given(streams(4), streams(4), any_hierarchy())
def test_what_a_warm_up_would_have_counted_is_missing(before, after, levels):
    warmed, first, both = _made(levels), _made(levels), _made(levels)
    warmed.warm(True)
    _feed(warmed, before)
    warmed.warm(False)
    _feed(warmed, after)
    _feed(first, before)
    _feed(both, before)
    _feed(both, after)
    assert warmed.references == len(after)
    for level in range(len(levels)):
        assert np.array_equal(warmed.counts(level).sum(axis=0), both.counts(level).sum(axis=0) - first.counts(level).sum(axis=0))


def _chain(cache):
    while cache:
        yield cache
        cache = cache.below


def _held(cache) -> set[int]:
    """First bytes of the pieces of 8 bytes that are valid."""
    lines = [line for ways in cache.ways for line in ways if line]
    return {byte for line in lines for first, end in cache.runs(line.number, line.valid) for byte in range(first, end, 8)}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(streams(5), any_hierarchy())
def test_inclusive_levels_hold_all_that_is_above_and_exclusive_ones_nothing(references, levels):
    run = Run(levels)
    run.feed(references)
    chain = list(_chain(run.first[0]))
    for level, cache in enumerate(chain):
        if cache.is_.inclusion == "inclusive":
            assert all(_held(above) <= _held(cache) for above in chain[:level])
        if cache.is_.inclusion == "exclusive" and level == 1:
            assert not _held(cache) & _held(chain[0])

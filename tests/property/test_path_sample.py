"""Windows of path: how they are spread over the run, what they keep, and that their walks add up to those of the path."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver._native import core_walk as native
from convolver._native.branch_predictor import Branches
from convolver._native.core_walk import Code, Core, PortClass
from convolver._native.path_builder import Paths
from convolver._native.path_sample import FOUND, PathSample, SamplePlan, SampleWalk
from convolver._native.trace_decoder import Decoder
from convolver.errors import ConvolverError
from convolver.execution.sampled_walk import NO_STRATUM, BlockCycles, _as_share, _estimate, walk_windows
from convolver.execution.shared_walk import SharedWalk
from tests.path_pieces import PathCollector
from tests.property.test_core_model import PARAMS, _op
from tests.wire_streams import Segment, Site, Stream

LENGTH = 10
COMMON, RARE = 0, 1


def gathered(visits, plan, max_visits=1 << 20, lines=()):
    """Return a sample of these visits, and the pieces of path that it was gathered from; ``lines``: that visits load from."""
    stream = Stream()
    stream.module()
    for number in (COMMON, RARE):
        sites = [Site(base=0)] if lines else []
        stream.segment(Segment(0x401000 + 64 * number, [1] * LENGTH, sites, len(sites), code=b"\x90" * LENGTH))
    for at, number in enumerate(visits):
        stream.visit(number, [64 * lines[at]] if lines else [])
    decoder = Decoder()
    paths = Paths(decoder, max_visits)
    branches = Branches(decoder)
    branches.attach(paths)
    collector = PathCollector(paths)
    sample = PathSample(decoder, paths, branches, plan, np.arange(2 * bool(lines), dtype=np.uint32), 2)
    decoder.feed(stream.bytes())
    decoder.flush()
    return sample, collector.take()


ADDITION = _op(reads=(3,), writes=(3,))


def _core(rates=(), op=ADDITION):
    """Return a core of chained additions; ``rates``: of the loads of both segments, share of lines from the one farther level."""
    ops = np.array([op] * 2 * LENGTH, dtype=native.OP)
    address = np.array([0x401000, 0x401040], dtype=np.uint64)
    sites = np.zeros(len(rates), dtype=np.uint16)
    classes = [PortClass(0, 0, 0, 1), PortClass(1, 1, 1, 1)]
    code = Code(np.array([0, LENGTH, 2 * LENGTH]), address, address + np.uint64(LENGTH), ops, sites, sites + 8, sites > 0)
    core = Core(PARAMS | {"code_bytes": 0, "near_targets": 0}, classes, code)
    if rates:
        shares = np.array(rates).reshape(-1, 1)
        core.levels(np.arange(len(rates)), shares, np.full(shares.shape, 300), np.zeros(len(rates)))
    return core


@given(st.integers(1, 2000), st.integers(1, 12), st.integers(1, 20), st.integers(1, 300))
def test_memory_is_bounded_and_each_stratum_has_one_window(visits, most, counted, max_visits):
    sample, pieces = gathered([COMMON] * visits, SamplePlan(counted * LENGTH, 0, most, 0), max_visits)
    assert sample.stretches == sum(-(-len(piece.segments) // counted) for piece in pieces)
    windows = sample.windows()
    assert len(windows) <= most + most % 2
    every = 1
    while -(-sample.stretches // every) > most + most % 2:
        every *= 2
    strata = windows["stretch"] // every
    whole = sample.stretches // every
    assert strata[:whole].tolist() == list(range(whole))


@given(st.integers(0, 900), st.integers(1, 8))
def test_code_that_ran_once_is_in_some_window(at, most):
    visits = [COMMON] * 900
    visits.insert(at, RARE)
    sample, _ = gathered(visits, SamplePlan(5 * LENGTH, 2 * LENGTH, most, 1))
    shows = sample.showing(np.array([segment == RARE for segment in (COMMON, RARE)]))
    assert shows.tolist() == [RARE in sample.visits(window) for window in range(len(sample))]
    assert shows.any()
    assert len(sample) <= 2 * (most + 1)


@given(st.lists(st.sampled_from([COMMON, RARE]), min_size=1, max_size=300), st.integers(1, 40))
def test_windows_of_whole_pieces_add_up_to_the_walk_of_the_path(visits, max_visits):
    sample, pieces = gathered(visits, SamplePlan(1 << 30, 0, 1 << 10, 0), max_visits)
    blocks = np.repeat(np.arange(2, dtype=np.uint32), LENGTH)
    walk = SampleWalk(sample, _core(), blocks, np.ones(2 * LENGTH, dtype=bool), 2)
    walk.walk(np.arange(len(sample), dtype=np.uint32))
    found, core = walk.found(), _core()
    for piece in pieces:
        core.walk(piece._replace(continues=False))
    assert np.bincount(found["block"], found["cycles"], 2).tolist() == core.cycles.reshape(2, LENGTH).sum(axis=1).tolist()
    assert np.bincount(found["block"], found["executions"], 2).tolist() == core.executions.reshape(2, LENGTH).sum(axis=1).tolist()


_VISITS = st.lists(st.tuples(st.sampled_from([COMMON, RARE]), st.integers(0, 1 << 20)), min_size=1, max_size=200)
_RATES = st.tuples(st.floats(0, 1), st.floats(0, 1))


def _found(sample, windows, rates):
    walk = SampleWalk(sample, _core(rates), np.repeat(np.arange(2, dtype=np.uint32), LENGTH), np.ones(2 * LENGTH, dtype=bool), 2)
    walk.walk(np.array(windows, dtype=np.uint32))
    return sorted(map(tuple, walk.found().tolist()))


@given(_VISITS, _RATES, st.randoms())
def test_a_window_takes_as_long_whichever_were_walked_before(visits, rates, random):
    sample, _ = gathered([segment for segment, _ in visits], SamplePlan(50, 20, 8, 2), lines=[line for _, line in visits])
    windows = list(range(len(sample)))
    assert _found(sample, random.sample(windows, len(windows)), rates) == _found(sample, windows, rates)
    assert _found(sample, windows[:1], rates) == [row for row in _found(sample, windows, rates) if row[0] == 0]


_ASKED = st.lists(st.lists(st.integers(0, 6), max_size=6), min_size=1, max_size=5)


@given(_VISITS, _ASKED, _ASKED, st.integers(0, 5))
def test_a_shared_walk_finds_what_one_alone_does(visits, first, other, alike):
    """The second walk asks for the same windows as the first one, and from some point on for others, or for no more."""
    sample, _ = gathered([segment for segment, _ in visits], SamplePlan(50, 20, 8, 2))

    def begun():
        return SampleWalk(sample, _core(), np.repeat(np.arange(2, dtype=np.uint32), LENGTH), np.ones(2 * LENGTH, dtype=bool), 2)

    def asked(walk, batches):
        steps = []
        for windows in batches:
            walk.walk(np.array([one % len(sample) for one in windows], dtype=np.uint32))
            steps.append(walk.found().tolist())
        return steps, walk.causes.tolist()

    shared = SharedWalk(begun)
    assert asked(shared, first) == asked(begun(), first)
    for batches in (first, first[:alike] + other):
        assert asked(SharedWalk(begun, shared), batches) == asked(begun(), batches)


def test_a_second_walk_of_the_same_windows_walks_nothing():
    sample, _ = gathered([COMMON] * 500, SamplePlan(20 * LENGTH, 10 * LENGTH, 1 << 10, 0))
    begun = []

    def begin():
        begun.append(SampleWalk(sample, _core(), np.zeros(2 * LENGTH, dtype=np.uint32), np.ones(2 * LENGTH, dtype=bool), 1))
        return begun[-1]

    first = SharedWalk(begin)
    for walk in (first, SharedWalk(begin, first)):
        walk.walk(np.arange(len(sample), dtype=np.uint32))
        assert len(walk.found()) == len(sample)
        assert (walk.causes == begun[0].causes).all()
    assert len(begun) == 1


@given(_VISITS, _RATES, st.integers(1, 40))
def test_a_window_waits_for_the_lines_that_the_path_waits_for(visits, rates, max_visits):
    """Pieces are walked as the whole path is: what lines its blocks are owed when one begins follows from what came before."""
    numbers, lines = ([one[place] for one in visits] for place in (0, 1))
    sample, pieces = gathered(numbers, SamplePlan(1 << 30, 0, 1 << 10, 0), max_visits, lines)
    found, core = _found(sample, range(len(sample)), rates), _core(rates)
    for piece in pieces:
        core.walk(piece._replace(continues=False))
    assert sum(row[2] for row in found) == core.cycles.sum()


@given(_VISITS, st.floats(0, 0.2))
def test_the_surplus_is_what_lines_take_beyond_their_share(visits, rate):
    """Each load is of a line of its own far from all others, so that it brings one out of order whenever one is owed."""
    numbers, lines = [segment for segment, _ in visits], [at << 20 for at in range(1, len(visits) + 1)]
    sample, _ = gathered(numbers, SamplePlan(1 << 30, 0, 1 << 10, 0), lines=lines)
    surplus = np.zeros(2)
    for row in _found(sample, range(len(sample)), (rate, rate)):
        surplus[row[1]] += row[4]
    for block, loads in enumerate(np.bincount(numbers, minlength=2)):
        brought = surplus[block] / 300 + np.float32(rate) * loads
        assert brought == pytest.approx(round(brought), abs=1e-3)
        assert brought == pytest.approx(rate * loads, abs=1.01)


def test_a_core_has_no_operations_of_unknown_classes():
    with pytest.raises(ConvolverError, match="core model"):
        _core(op=_op(2))


def test_what_fills_the_pipeline_is_not_counted():
    """A chain of additions goes on from the part that only fills the pipeline: exactly one cycle each is counted."""
    sample, _ = gathered([COMMON] * 500, SamplePlan(20 * LENGTH, 10 * LENGTH, 1 << 10, 0))
    walk = SampleWalk(sample, _core(), np.repeat(np.arange(2, dtype=np.uint32), LENGTH), np.ones(2 * LENGTH, dtype=bool), 2)
    walk.walk(np.arange(len(sample), dtype=np.uint32))
    found = walk.found()
    assert len(found) == 25
    assert (found["executions"] == 20 * LENGTH).all()
    assert (found["cycles"][1:] == 20 * LENGTH).all()  # the first one begins with the path


def _shown(cycles, surplus=0.0):
    """Stands for a walk that found so many cycles in each window's ten executions of one block."""
    found = np.zeros(len(cycles), dtype=FOUND)
    found["window"], found["cycles"], found["executions"], found["surplus"] = np.arange(len(cycles)), cycles, 10, surplus
    return SimpleNamespace(found=lambda: found)


@given(st.integers(1, 1000), st.integers(8, 60))
def test_equal_windows_leave_no_doubt(cycles, windows):
    one = _estimate(_shown([cycles] * windows), np.array([7.0]), np.ones(1), np.arange(windows) // 4)
    assert one.cycles / one.executions == cycles / 10
    assert one.error < 1e-12
    assert one.errors[0] < 1e-12


def test_the_stated_error_is_the_spread_of_repeated_samples():
    """Strata of different levels: only what differs within them makes an answer uncertain."""
    random = np.random.default_rng(5)
    stratum = np.repeat(np.arange(32), 8)
    level = 1000 + 100 * (stratum % 7)
    draws = [_estimate(_shown(level + random.integers(0, 400, 256)), np.ones(1), np.ones(1), stratum) for _ in range(400)]
    estimates = np.array([one.cycles[0] / one.executions[0] for one in draws])
    stated = np.mean([one.error for one in draws])
    assert 0.85 < stated / (estimates.std() / estimates.mean()) < 1.15


def test_chance_in_lines_from_far_away_adds_no_doubt():
    """Of a surplus three quarters are waited for: what is left is what the windows take without it."""
    random = np.random.default_rng(8)
    surplus, own = random.normal(0, 400, 256), random.integers(1000, 1100, 256)
    stratum = np.repeat(np.arange(32), 8)
    one = _estimate(_shown(2000 + own + np.rint(0.75 * surplus), surplus), np.ones(1), np.ones(1), stratum)
    alone = _estimate(_shown(2000 + own), np.ones(1), np.ones(1), stratum)
    assert one.slope[0] == pytest.approx(0.75, abs=0.03)
    assert one.cycles[0] == pytest.approx(alone.cycles[0], rel=0.002)
    assert one.error == pytest.approx(alone.error, rel=0.1)


@given(st.lists(st.floats(-5000, 5000), min_size=8, max_size=40))
def test_a_block_that_waits_for_no_line_keeps_its_cycles(surplus):
    one = _estimate(_shown(np.full(len(surplus), 10), surplus), np.ones(1), np.ones(1), np.arange(len(surplus)) // 4)
    assert 0 < one.cycles[0] <= 20 * len(surplus)
    assert one.errors[0] <= 2


@given(st.lists(st.integers(-300, 400), min_size=8, max_size=40))
def test_a_surplus_takes_off_half_of_the_cycles_at_most(surplus):
    cycles = np.maximum(surplus, 0)  # all that these windows take is what they wait for beyond their share
    one = _estimate(_shown(cycles, surplus), np.ones(1), np.ones(1), np.arange(len(surplus)) // 4)
    assert one.cycles[0] >= cycles.sum() / 2 * (1 - 1e-12)
    assert one.errors[0] < 1e3


def test_lines_that_never_come_on_a_path_cost_nothing():
    """Its shares promise so many lines that only those windows which bring one have a surplus that is not below 0."""
    random = np.random.default_rng(9)
    brought = random.random(256) < 0.05
    one = _estimate(_shown(1000 + 300 * brought, 300.0 * brought - 200), np.ones(1), np.ones(1), np.arange(256) // 8)
    assert one.cycles[0] == 256_000 + 300 * brought.sum()


def test_windows_walked_for_rare_blocks_say_nothing_of_others():
    walk = _shown([100, 100, 900])
    stratum = np.array([0, 0, NO_STRATUM])
    assert _estimate(walk, np.ones(1), np.ones(1), stratum, np.array([False])).cycles[0] == 200
    assert _estimate(walk, np.ones(1), np.ones(1), stratum, np.array([True])).cycles[0] == 1100


class _Walked:
    """Stands for a walk of a program of one block, whose windows take so many cycles."""

    def __init__(self, cycles, surplus=None):
        self.cycles, self.windows = cycles, []
        self.surplus = np.zeros(len(cycles)) if surplus is None else surplus

    def walk(self, windows):
        self.windows += windows.tolist()

    def found(self):
        found = np.zeros(len(self.windows), dtype=FOUND)
        found["window"], found["cycles"], found["executions"] = self.windows, self.cycles[self.windows], 10
        found["surplus"] = self.surplus[self.windows]
        return found


def _walked_to(target, *walks):
    """Walk windows, none of which is rare, until the cycles are known to the target; return what the walks say."""
    sample = SimpleNamespace(windows=lambda: np.zeros(len(walks[0].cycles), dtype=[("rare", bool)]))
    return walk_windows(sample, walks, np.zeros(1, np.int64), np.ones(1), np.ones(1), target)


def test_a_walk_that_is_known_well_enough_sees_no_more_windows():
    random = np.random.default_rng(6)
    near = 1000 + random.integers(0, 100, 4000)
    walks = [_Walked(near), _Walked(near + random.integers(0, 1200, 4000))]
    one, last = _walked_to(0.008, *walks)
    assert len(walks[0].windows) == 256 < len(walks[1].windows) < 1500
    assert set(walks[0].windows) < set(walks[1].windows)
    assert one.cycles[0] / one.executions[0] == pytest.approx(near.mean() / 10, rel=0.016)
    assert last.cycles[0] / last.executions[0] == pytest.approx(walks[1].cycles.mean() / 10, rel=0.016)


@cache
def _first_windows():
    """Return the windows that a walk sees of a thousand which all take as long."""
    walk = _Walked(np.ones(1000))
    _walked_to(0.008, walk)
    return walk.windows


@given(st.integers(0, 99), st.integers(1, 3000), st.floats(0.01, 2))
def test_a_walk_with_near_data_never_takes_longer_than_the_last(seed, least, promised):
    """Where both look, lines that are promised come to nothing; all other windows wait for every line."""
    random = np.random.default_rng(seed)
    lines, here = random.exponential(300, 1000), np.zeros(1000, dtype=bool)
    here[_first_windows()] = True
    waited = np.where(here, random.integers(0, 9, 1000), lines).astype(np.int64)
    surplus = np.where(here, promised * lines, lines - lines[~here].mean())
    one, last = _walked_to(1e-9, _Walked(np.full(1000, least)), _Walked(least + waited, surplus))
    assert one.cycles / one.executions <= last.cycles / last.executions * (1 + 1e-9)


@given(st.lists(st.tuples(st.integers(1, 900), st.integers(1, 900)), min_size=2, max_size=20), st.integers(1, 20))
def test_a_share_of_the_last_walk_is_the_same_in_all_windows(windows, shown):
    """A walk of which each window takes half of the last one's cycles takes half of them, whichever windows it saw."""
    cycles, times = (np.array(column, dtype=float) for column in zip(*windows, strict=True))
    last = BlockCycles(cycles.sum(keepdims=True), times.sum(keepdims=True), np.zeros(1), 0.0, 0.0)
    beside, seen = cycles[:shown].sum(keepdims=True), times[:shown].sum(keepdims=True)
    one = _as_share(BlockCycles(beside / 2, seen, np.zeros(1), 0.0, 0.0), beside, last)
    assert one.cycles / one.executions == pytest.approx(last.cycles / last.executions / 2)

"""Plans, the combination of samples, and the detection of levels."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import UsageError
from convolver.machine.hierarchy import Level, resized
from convolver.machine.maps import Curve, Point
from convolver.machine.profile import DetectedLevel
from convolver.machine.profile_check import unsettled_share
from convolver.probing.detect import detect_levels, effective_hierarchy, segment
from convolver.probing.plan import Item, full_plan, largest_working_set, quick_plan, working_sets
from convolver.probing.samples import Line, by_point, combine, is_settled

L1 = Level(level="L1", size_bytes=48 << 10, ways=12)
L2 = Level(level="L2", size_bytes=2 << 20, ways=16)
L3 = Level(level="L3", size_bytes=480 << 20, ways=16)


def line(samples, **fields):
    defaults = {
        "kernel": "load",
        "working_set_bytes": 4096,
        "threads": 1,
        "references": 1000,
        "rejected": 0,
        "interval": 0.01,
        "precise": True,
        "cycle_seconds": 3e-10,
        "elapsed_seconds": 0.01,
    }
    return Line(**{**defaults, **fields}, samples_seconds=tuple(samples))


def staircase(capacities, latencies, per_octave=2, ramp=1.0):
    """A chase curve with the given steps; `ramp` multiplies the latency of the point right below an edge."""
    points = []
    for size in working_sets(256 << 20, per_octave):
        level = sum(size > capacity for capacity in capacities)
        near = any(0.7 * capacity < size <= capacity for capacity in capacities)
        points.append(Point(working_set_bytes=size, seconds_per_reference=latencies[level] * (ramp if near else 1.0)))
    return Curve(kernel="chase", pattern="chase", operation="load", points=tuple(points))


@pytest.mark.parametrize("per_octave", [1, 2, 4])
def test_working_sets_are_evenly_spread_and_have_three_binary_digits(per_octave):
    sizes = working_sets(1 << 20, per_octave)
    assert sizes == sorted(set(sizes))
    assert len(sizes) == 8 * per_octave + 1
    assert all(size // (size & -size) < 8 for size in sizes)


def test_other_spacings_are_refused():
    with pytest.raises(UsageError):
        working_sets(1 << 20, 3)


def test_the_full_plan_contains_the_quick_one_and_threads_come_last():
    quick, full = quick_plan(1 << 20), full_plan(1 << 20, threads=(1, 2))
    assert set(quick.items) <= set(full.items)
    assert Item("load", 4096, 2) in full.items
    assert [item.threads for item in full.items] == sorted(item.threads for item in full.items)


@pytest.mark.parametrize("make", [quick_plan, full_plan])
def test_a_chase_is_also_measured_on_huge_pages_where_translations_may_miss(make):
    plan = make(64 << 20)
    assert [(item.kernel, item.working_set_bytes >> 20) for item in plan.huge] == [("chase", size) for size in (4, 8, 16, 32, 64)]
    alone = plan.on_huge_pages()
    assert (alone.items, alone.pages, alone.rounds, alone.most_rounds) == (plan.huge, "2m", plan.rounds, plan.rounds)
    assert (alone.core, alone.surroundings, alone.loaded, alone.huge) == (False, False, (), ())
    assert not make(64 << 20, pages="thp").huge
    assert not make(64 << 20, pages="4k").huge
    assert not make(1 << 20).huge


def test_a_plan_keeps_only_supported_kernels_and_has_another_id():
    plan = quick_plan(1 << 20)
    few = plan.restricted(["load", "chase"])
    assert {item.kernel for item in few.items} == {"load", "chase"}
    assert few.id != plan.id
    with pytest.raises(UsageError):
        plan.restricted([])


@pytest.mark.parametrize(
    ("available", "cap", "expected"), [(64 << 30, 256 << 20, 256 << 20), (256 << 20, 256 << 20, 64 << 20), (0, 1 << 20, 4096)]
)
def test_the_largest_working_set_fits_memory_and_cap(available, cap, expected):
    assert largest_working_set([L1, L2, L3], available, cap) == expected


def test_the_center_is_the_minimum_of_the_rounds_low_percentiles():
    quiet = [1.0 + k / 1000 for k in range(20)]
    disturbed = [5.0 + k for k in range(20)]
    summary = combine([line(disturbed), line(quiet), line([0.5, *disturbed[1:]])])
    assert summary.seconds == quiet[2]
    assert summary.rounds_seconds == (7.0, quiet[2], 7.0)
    assert len(summary.samples_seconds) == 60
    assert not summary.stable


def test_rounds_that_agree_are_stable():
    summary = combine([line([1.0] * 9), line([1.01] * 9)])
    assert summary.stable
    assert summary.spread == pytest.approx(0.01)


def test_one_round_has_its_interval_as_spread():
    assert combine([line([1.0] * 9, interval=0.03)]).spread == 0.03


@given(st.lists(st.lists(st.floats(1e-11, 1e-6), min_size=1, max_size=30), min_size=1, max_size=4))
def test_the_center_is_one_of_the_samples_and_no_sample_is_lost(rounds):
    summary = combine([line(samples) for samples in rounds])
    assert summary.seconds in summary.samples_seconds
    assert len(summary.samples_seconds) == sum(map(len, rounds))
    assert summary.spread >= 0


@given(
    st.lists(st.integers(2, 9), min_size=2, max_size=4),
    st.lists(st.floats(0.5, 3.0), min_size=4, max_size=4),
)
def test_segmentation_finds_the_edges_of_a_clean_staircase(lengths, steps):
    values, level = [], 0.0
    for length, step in zip(lengths, steps, strict=False):
        level += step
        values += [level] * length
    edges = [sum(lengths[:k]) for k in range(len(lengths))]
    assert segment(values, len(lengths)) == edges


@pytest.mark.parametrize("ramp", [1.0, 1.3])
def test_levels_are_detected_within_half_an_octave(ramp):
    found = detect_levels(staircase([48 << 10, 2 << 20, 16 << 20], [1.3e-9, 4e-9, 30e-9, 150e-9], ramp=ramp))
    assert [level.level for level in found] == ["L1", "L2", "L3"]
    for level, true in zip(found, [48 << 10, 2 << 20, 16 << 20], strict=True):
        assert abs(math.log2(level.size_bytes / true)) <= 0.5
        assert level.low_bytes <= true < level.high_bytes
        assert 0.8 < level.confidence <= 1


def test_a_gentle_rise_is_no_level():
    assert detect_levels(staircase([1 << 20], [1e-9, 1.2e-9])) == ()


def test_a_curve_of_two_steps_has_no_third_level():
    assert len(detect_levels(staircase([32 << 10, 1 << 20], [1e-9, 4e-9, 90e-9]), 3)) == 2


def detected(*sizes, confidence=0.95):
    return [
        DetectedLevel(level=f"L{k}", size_bytes=size, low_bytes=size, high_bytes=2 * size, confidence=confidence)
        for k, size in enumerate(sizes, 1)
    ]


def test_a_last_level_that_nobody_gets_is_replaced_by_the_detected_one():
    levels = effective_hierarchy([L1, L2, L3], detected(50_000, 2_000_000, 14_000_000))
    assert levels[:2] == (L1, L2)
    assert levels[2].size_bytes == 14 << 20
    assert levels[2].ways == L3.ways


@given(ways=st.integers(1, 20), size=st.integers(4 << 20, 1 << 30))
def test_a_resized_level_is_near_and_fits_the_usual_set_samples(ways, size):
    level = resized(msgspec.structs.replace(L3, ways=ways), size)
    assert abs(level.size_bytes / size - 1) <= 1 / 32
    assert level.sets % 64 == 0
    assert level.size_bytes == level.sets * ways * 64
    assert resized(level, level.size_bytes) == level


def test_the_last_level_stays_twice_as_large_as_the_one_before():
    assert effective_hierarchy([L1, L2, L3], detected(50_000, 2_000_000, 2_400_000))[2].size_bytes == 4 << 20


def test_a_last_level_of_odd_ways_gets_sets_that_a_set_sample_holds():
    odd = msgspec.structs.replace(L3, size_bytes=105 << 20, ways=15)
    level = effective_hierarchy([L1, L2, odd], detected(50_000, 2_000_000, 3_000_000))[2]
    assert (level.sets, level.ways) == (4352, 15)


@pytest.mark.parametrize(
    "seen",
    [
        detected(50_000, 2_000_000),
        detected(50_000, 2_000_000, 300 << 20),
        detected(50_000, 2_000_000, 14_000_000, confidence=0.3),
    ],
)
def test_without_a_clear_disagreement_the_report_stands(seen):
    assert effective_hierarchy([L1, L2, L3], seen) == (L1, L2, L3)


def test_the_unsettled_share_counts_points_whose_best_rounds_disagree():
    agreeing, apart = [line([1.0] * 9), line([1.01] * 9)], [line([1.0] * 9), line([1.2] * 9)]
    assert unsettled_share(map(combine, [agreeing, apart, agreeing, agreeing])) == 0.25
    assert unsettled_share([]) == 1.0


def test_a_point_is_settled_when_its_two_best_rounds_agree():
    assert not is_settled([line([1.0] * 9)], 0.03)
    assert not is_settled([line([1.0] * 9), line([1.1] * 9), line([1.2] * 9)], 0.03)
    assert is_settled([line([1.0] * 9), line([9.0] * 9), line([1.02] * 9)], 0.03)


def test_rounds_without_samples_do_not_count():
    assert by_point([line([])]) == {}
    assert len(by_point([line([]), line([1.0])])["load", 1, 4096]) == 1

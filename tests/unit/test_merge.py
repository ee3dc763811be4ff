"""Several probes of a machine, merged into one profile."""

import math
from statistics import median

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import UsageError
from convolver.machine.core_figures import CoreFigure
from convolver.machine.kernel_costs import KernelCost
from convolver.machine.maps import Point
from convolver.probing.merge_probes import merge
from convolver.probing.moments import merge_points, quietest, quietest_figures, usual
from convolver.probing.port_probe import least_taken
from tests.synthetic import machine

SECONDS = st.floats(1e-10, 1e-6)


def moment(factor=1.0, clock=1e-9, **changes):
    """Return a probe of the synthetic machine, all of whose memory is ``factor`` times slower, at some clock."""
    noise = {"cycle_seconds_least": clock, "cycle_seconds_median": 1.1 * clock, "unstable_share": 0.0, "rejected_share": 0.0}
    profile = machine(scale=factor)
    return msgspec.structs.replace(
        profile, provenance={"noise": noise, "created": f"at {factor}", "load_before": [0.5]}, **changes
    )


def times(profile, kernel="chase"):
    curve = next(one for one in profile.maps if one.kernel == kernel)
    return {point.working_set_bytes: point for point in curve.points}


def near(size):
    return size <= 4096 * 3 // 4  # of the level before the last


def test_the_core_is_that_of_the_quietest_probe_and_memory_that_of_the_median_one():
    probes = [moment(factor) for factor in (1.2, 1.0, 1.9)]
    merged = merge(probes)
    for size, point in times(merged).items():
        own = [times(probe)[size].seconds_per_reference for probe in probes]
        assert point.seconds_per_reference == pytest.approx(min(own) if near(size) else median(own))
        assert len(point.rounds_seconds) == 3
    assert merged.throughput("add").seconds == probes[1].throughput("add").seconds


def test_a_core_figure_is_that_of_its_quietest_moment():
    def figure(name, value, low, high):
        return CoreFigure(name=name, value=value, low=low, high=high)

    mispredicted = [figure("branch.random", value, value - 0.1, value + 0.1) for value in (15.0, 13.5, 14.9)]
    halved, known, vague = (
        figure("window.scheduler", *of) for of in ((43.0, 42.0, 43.0), (86.0, 85.0, 86.0), (219.0, 85.0, 241.0))
    )
    found = quietest_figures([[mispredicted[0], halved], mispredicted[1:], [vague, known]])
    assert found == (mispredicted[1], known)


def test_a_moment_on_a_shared_core_says_nothing_of_it():
    def moment(taken, entries):
        names = (("witness.taken", taken), ("window.store_buffer", entries))
        return [CoreFigure(name=name, value=value, low=value, high=value) for name, value in names if value]

    found = quietest_figures([moment(4.2, 461.0), moment(2.1, 64.0), moment(2.0, 0)])
    assert found == (*moment(2.0, 0), *moment(2.1, 64.0)[1:])
    older = moment(0, 70.0)
    assert quietest_figures([older, moment(2.1, 64.0)]) == tuple(moment(2.1, 64.0))
    assert quietest_figures([older]) == tuple(older)
    assert quietest_figures([moment(4.2, 461.0)], alone=2.0) == ()
    assert quietest_figures([moment(4.2, 461.0), moment(2.1, 64.0)], alone=2.0) == tuple(moment(2.1, 64.0))


def test_ports_tell_that_a_core_was_shared_all_the_time():
    taken = CoreFigure(name="witness.taken", value=4.2, low=4.2, high=4.2)
    ports = [
        [{"name": "witness.taken", "cycles": [2.07]}, {"name": "alone.alu", "cycles": [0.25]}],
        [{"name": "alone.alu", "cycles": []}],
    ]
    assert least_taken([[taken]], ports) == 2.07
    assert least_taken([[taken]], []) == 4.2
    assert least_taken([[]], []) == math.inf


def test_a_far_point_says_how_far_a_single_moment_lies_from_it_and_a_near_one_whether_the_two_best_agree():
    merged = times(merge([moment(factor) for factor in (1.0, 1.01, 1.5)]))
    smallest, largest = min(merged), max(merged)
    assert merged[smallest].spread == pytest.approx(0.01, abs=1e-5)
    assert merged[smallest].stable
    assert merged[largest].spread == pytest.approx(1.4826 * 0.01 / 1.01, abs=1e-5)
    wild = times(merge([moment(factor) for factor in (1.0, 1.5, 2.0)]))[largest]
    assert wild.spread == pytest.approx(1.4826 / 3, abs=1e-5)
    assert not wild.stable


def test_near_points_are_taken_to_the_fastest_clock_before_they_are_compared():
    slow, fast = moment(1.2, clock=1.2e-9), moment(1.0, clock=1e-9)
    merged = merge([slow, fast])
    first = times(merged)[min(times(merged))]
    assert first.spread == pytest.approx(0.0, abs=1e-5)
    assert merged.provenance["noise"]["cycle_seconds_least"] == 1e-9
    assert merged.cpu["measured_hertz"] == 1e9
    assert merged.provenance["noise"]["cycle_seconds_median"] == pytest.approx(1.21e-9)


def test_curves_on_huge_pages_are_merged_as_the_others():
    def on_huge_pages(factor):
        probe = moment(factor)
        chase = next(curve for curve in probe.maps if curve.kernel == "chase")
        return msgspec.structs.replace(probe, huge_maps=(msgspec.structs.replace(chase, page_bytes=2 << 20),))

    merged = merge([on_huge_pages(factor) for factor in (1.2, 1.0, 1.9)])
    (found,) = merged.huge_maps
    assert {point.working_set_bytes: point for point in found.points} == times(merged)
    assert not merge([moment(1.0), moment(1.1)]).huge_maps


def test_points_that_only_some_probes_have_are_kept_as_they_are():
    whole = moment()
    curves = [msgspec.structs.replace(curve, points=curve.points[:5]) for curve in whole.maps if curve.kernel != "copy"]
    merged = merge([whole, msgspec.structs.replace(moment(1.1), maps=tuple(curves))])
    assert {curve.kernel for curve in merged.maps} == {curve.kernel for curve in whole.maps}
    assert times(merged).keys() == times(whole).keys()
    last = max(times(whole))
    assert times(merged)[last].seconds_per_reference == times(whole)[last].seconds_per_reference


def test_buffers_are_the_largest_cycles_the_fewest_and_the_kernel_in_between():
    def figures(size, cycles):
        found = (("window.reorder_buffer", size), ("latency.multiply", cycles))
        return tuple(CoreFigure(name=name, value=value, low=value, high=value) for name, value in found)

    def costs(seconds):
        return (KernelCost(name="page.few", seconds=seconds, low=0.9 * seconds, high=1.1 * seconds),)

    shared = moment(core=figures(120.0, 3.5), kernel=costs(3e-7))
    merged = merge([shared, moment(core=figures(240.0, 3.0), kernel=costs(1e-7)), moment(kernel=costs(2e-7))])
    assert {figure.name: figure.value for figure in merged.core} == {"window.reorder_buffer": 240.0, "latency.multiply": 3.0}
    (cost,) = merged.kernel
    assert (cost.low, cost.seconds, cost.high) == pytest.approx((0.9e-7, 2e-7, 3.3e-7))


def test_a_merged_profile_names_its_probes_and_can_be_merged_again():
    first = merge([moment(1.0), moment(1.2)])
    assert [one["created"] for one in first.provenance["merged"]] == ["at 1.0", "at 1.2"]
    assert first.calibration is None
    assert merge([first, moment(1.1)]).provenance["noise"]["rejected_share"] == 0.0


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (moment(cpu={"model": "another"}), "processor"),
        (moment(hierarchy=machine().hierarchy[:1]), "levels"),
        (msgspec.structs.replace(moment(), provenance={"pages": "thp"}), "pages"),
        (moment(projected=True), "not measured"),
        (moment(maps=()), "not measured"),
    ],
)
def test_only_probes_of_one_machine_are_merged(other, what):
    with pytest.raises(UsageError, match=what):
        merge([moment(), other])


def test_one_probe_alone_is_refused():
    with pytest.raises(UsageError, match="two"):
        merge([moment()])


@given(st.lists(SECONDS, min_size=2, max_size=9))
def test_centers_lie_among_the_moments_and_do_not_depend_on_their_order(seconds):
    for of in (quietest, usual):
        center, spread, _ = of(seconds)
        assert min(seconds) <= center <= max(seconds)
        assert spread >= 0
        assert of(seconds[::-1]) == of(seconds)


@given(st.lists(SECONDS, min_size=3, max_size=9), st.floats(2.0, 100.0))
def test_one_wild_moment_moves_neither_center_beyond_the_others(seconds, factor):
    wild = [*seconds, factor * max(seconds)]
    assert quietest(wild)[0] == quietest(seconds)[0]
    assert usual(wild)[0] <= max(seconds)


@given(SECONDS, st.lists(st.floats(1.0, 3.0), min_size=1, max_size=7))
def test_samples_of_all_moments_are_kept(seconds, factors):
    points = [
        Point(working_set_bytes=4096, seconds_per_reference=seconds * each, samples_seconds=(seconds * each, 2 * seconds * each))
        for each in factors
    ]
    for is_near in (True, False):
        merged = merge_points(points, [1.0] * len(points), near=is_near)
        assert sorted(merged.samples_seconds) == sorted(sample for point in points for sample in point.samples_seconds)

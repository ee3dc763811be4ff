"""The fit: coefficients that made the times come back, and what cannot be calibrated is refused."""

import msgspec
import numpy as np
import pytest

from convolver.calibration.calibrate import alike, calibrate, calibrated, candidates, starting_point
from convolver.calibration.fit import LIKE, Start, errors, fit, left_out
from convolver.calibration.measured_points import MeasuredPoint, Rows, row_weights
from convolver.convolution.rates import BlockWork, parts, seconds
from convolver.errors import MachineError
from convolver.machine.calibration import Calibration
from convolver.machine.hierarchy import Level
from convolver.machine.maps import Curve
from convolver.machine.profile import DetectedLevel, MachineProfile, Residency
from convolver.probing.detect import effective_hierarchy
from tests.synthetic import machine

NS = 1e-9
TRUE = Calibration(
    simulator="none",
    exponent=2.5,
    sequential=(0.4 * NS, 4 * NS),
    random=(1.0 * NS, 16 * NS),
    write_back=(0.5 * NS, 2 * NS),
    latency=(5 * NS, 90 * NS),
    first_latency=1.3 * NS,
    between=0.5,
    coming=0.05 * NS,
    window=180.0,
    points=0,
    median_error=0.0,
    mean_error=0.0,
    intervals={},
)


def made_rows(count=240, kernels=8, noise=0.0, true=TRUE, pages=0.0):
    """Rows of random work, timed by the true coefficients."""
    random = np.random.default_rng(3)
    lines = random.uniform(0, 1, (count, 2, 4)) * (random.uniform(0, 1, (count, 2, 4)) < 0.4)
    work = BlockWork(
        core=np.full(count, 0.1 * NS),
        lines=lines,
        written=random.uniform(0, 0.5, (count, 2)) * (random.uniform(0, 1, (count, 1)) < 0.5),
        between=random.uniform(0, 3, count),
        coming=random.uniform(0, 7, count),
        alone=random.uniform(0, 1, count),
        loads=random.uniform(1, 20, count),
        chased=np.zeros(count),
        chased_share=np.zeros(count),
        chains=np.ones(count),
        walks=random.uniform(0, 1, count) * (random.uniform(0, 1, count) < pages),
        chased_walks=np.zeros(count),
    )
    times = seconds(work, true) * np.exp(noise * random.standard_normal(count))
    names = np.array([f"kernel{index % kernels}" for index in range(count)])
    return Rows(names, np.full(count, 4096), times, work, np.ones(count), ("memory",) * count, np.zeros(count, bool))


def start(factor):
    scaled = {name: tuple(factor * value for value in getattr(TRUE, name)) for name in ("sequential", "random", "write_back")}
    return Start(msgspec.structs.replace(TRUE, **scaled, between=0.8, exponent=2.9, window=140.0))


def test_the_coefficients_that_made_the_times_are_found():
    rows, begin = made_rows(), start(1.6)
    vector, _ = fit(rows, begin)
    found = begin.with_vector(vector)
    assert np.median(np.abs(errors(rows, found))) < 0.01
    assert found.sequential == pytest.approx(TRUE.sequential, rel=0.1)
    assert found.random == pytest.approx(TRUE.random, rel=0.1)
    assert found.between == pytest.approx(TRUE.between, rel=0.15)


def test_what_a_page_costs_is_found_where_pages_cost_something():
    true = msgspec.structs.replace(TRUE, page_entries=2048, walk=9 * NS, walk_latency=100 * NS)
    rows = made_rows(true=true, pages=0.5)
    begin = Start(msgspec.structs.replace(start(1.3).calibration, page_entries=2048, walk=4 * NS, walk_latency=100 * NS))
    vector, _ = fit(rows, begin)
    assert begin.with_vector(vector).walk == pytest.approx(9 * NS, rel=0.1)
    assert len(begin.names(["L2", "memory"])) == len(vector)


def test_rows_on_huge_pages_tell_a_walk_from_what_lies_beyond_it():
    true = msgspec.structs.replace(TRUE, page_entries=2048, walk=9 * NS, walk_latency=100 * NS, huge_walk=0.3)
    small = made_rows(true=true, pages=0.5)
    huge = np.arange(len(small.seconds)) % 2 == 0
    rows = msgspec_replace(small, huge=huge)
    rows = msgspec_replace(rows, seconds=seconds(rows.asked(true), true))
    assert (rows.seconds[huge] <= small.seconds[huge]).all()
    begin = Start(
        msgspec.structs.replace(start(1.3).calibration, page_entries=2048, walk=4 * NS, walk_latency=100 * NS, huge_walk=0.5)
    )
    vector, _ = fit(rows, begin)
    found = begin.with_vector(vector)
    assert (found.walk, found.huge_walk) == pytest.approx((9 * NS, 0.3), rel=0.1)
    assert len(begin.names(["L2", "memory"])) == len(vector)


def test_what_a_stream_alone_costs_is_found():
    true = msgspec.structs.replace(TRUE, alone=0.6)
    begin = Start(msgspec.structs.replace(start(1.3).calibration, alone=0.3))
    vector, _ = fit(made_rows(true=true), begin)
    assert begin.with_vector(vector).alone == pytest.approx(0.6, rel=0.15)
    assert len(begin.names(["L2", "memory"])) == len(vector)


def test_the_error_of_left_out_kernels_is_about_the_noise():
    rows, begin = made_rows(noise=0.05), start(1.3)
    vector, _ = fit(rows, begin)
    found, vectors = left_out(rows, begin, vector)
    assert 0.02 < np.median(np.abs(found)) < 0.08
    assert vectors.shape == (8, len(begin.names(["L2", "memory"])))


def test_rows_without_weight_do_not_count():
    rows, begin = made_rows(), start(1.2)
    spoilt = rows.seconds.copy()
    spoilt[::3] *= 5
    weight = np.where(np.arange(len(spoilt)) % 3 == 0, 0.0, 1.0)
    vector, _ = fit(msgspec_replace(rows, seconds=spoilt, weight=weight), begin)
    assert np.median(np.abs(errors(rows, begin.with_vector(vector)))) < 0.01


def msgspec_replace(rows, **changes):
    from dataclasses import replace

    return replace(rows, **changes)


def test_a_vector_and_its_coefficients_are_the_same():
    begin = Start(TRUE)
    assert begin.with_vector(begin.vector()).exponent == pytest.approx(TRUE.exponent)
    assert begin.values(begin.vector())[-4] == pytest.approx(TRUE.coming)


def test_no_level_is_nearer_than_the_one_before_it():
    begin = Start(TRUE)
    for seed in range(20):
        vector = begin.vector() + np.random.default_rng(seed).normal(0, 2, len(begin.vector()))
        latency = begin.with_vector(vector).latency
        assert list(latency) == sorted(latency)
        ordered = [
            one for one, name in zip(begin.values(vector), begin.names(["L2", "memory"]), strict=True) if "latency" in name
        ]
        assert tuple(ordered[: len(latency)]) == latency


def test_a_walk_takes_at_most_two_latencies_of_the_last_level():
    slow = {"walk": 1 * NS, "walk_latency": 160 * NS, "latency": (15 * NS, 16 * NS)}
    begin = Start(msgspec.structs.replace(TRUE, page_entries=2048, **slow))
    found = begin.with_vector(begin.vector())
    assert found.walk_latency == pytest.approx(30 * NS)
    assert begin.with_vector(begin.vector() - 3).walk_latency == pytest.approx(30 * NS * np.exp(-3))


def test_points_whose_lines_other_machines_push_out_have_no_weight():
    levels = (Level(level="L1", size_bytes=48 << 10, ways=12), Level(level="L2", size_bytes=1 << 20, ways=16))
    levels += (Level(level="L3", size_bytes=24 << 20, ways=12),)
    lives = Residency(seconds=0.004, at_least=False, working_set_bytes=2 << 20, points=())
    curve = Curve(kernel="chase", pattern="chase", operation="load", width_bytes=8, points=())
    slow, fast = (MeasuredPoint(curve, 8 << 20, seconds * NS, 0.0, False) for seconds in (80, 10))
    far = MeasuredPoint(curve, 64 << 20, 150 * NS, 0.0, False)
    found = row_weights([slow, fast, far], MachineProfile(name="m", hierarchy=levels, residency=lives))
    assert found.tolist() == [0, 1, 1]
    assert row_weights([slow], MachineProfile(name="m", hierarchy=levels)).tolist() == [1]


def test_a_chase_pays_one_latency_a_load_and_chains_share_it():
    zero = np.zeros((1, 2, 4))
    zero[0, 1, 3] = 1.0
    one = {name: np.ones(1) for name in ("loads", "chased", "chased_share", "chains")}
    none = {name: np.zeros(1) for name in ("core", "between", "coming", "alone", "walks", "chased_walks")}
    work = BlockWork(lines=zero, written=np.zeros((1, 2)), **none, **one)
    serial = parts(work, TRUE)[-3, 0]
    assert serial == pytest.approx(TRUE.latency[1])
    four = BlockWork(**{**vars(work), "chains": np.full(1, 4.0)})
    assert parts(four, TRUE)[-3, 0] == pytest.approx(serial / 4)
    walked = BlockWork(**{**vars(work), "chased_walks": np.full(1, 0.5)})
    slow = msgspec.structs.replace(TRUE, page_entries=2048, walk_latency=100 * NS)
    assert parts(walked, slow)[-3, 0] == pytest.approx(serial + 50 * NS)


def test_a_profile_with_few_curves_is_not_calibrated():
    small = machine("small")
    with pytest.raises(MachineError, match="measured points"):
        calibrate(small)
    same, why = calibrated(small)
    assert same is small
    assert "not calibrated" in why


def test_last_levels_are_tried_only_where_the_report_is_doubtful():
    levels = (Level(level="L1", size_bytes=49152, ways=12), Level(level="L2", size_bytes=2 << 20, ways=16))
    seen = Level(level="L3", size_bytes=16 << 20, ways=16)
    sure = MachineProfile(name="m", hierarchy=(*levels, seen))
    assert candidates(sure) == [sure]
    reported = (*levels, Level(level="L3", size_bytes=480 << 20, ways=20))
    tried = candidates(msgspec.structs.replace(sure, hierarchy_reported=reported))
    assert [one.hierarchy[-1].size_bytes >> 20 for one in tried] == [16, 8, 24, 32, 48, 64]
    assert all(one.hierarchy[-1].sets % 16 == 0 for one in tried)


def test_last_levels_of_odd_ways_are_tried_from_twice_the_second_up_and_fit_set_samples():
    levels = (Level(level="L1", size_bytes=49152, ways=12), Level(level="L2", size_bytes=2 << 20, ways=16))
    reported = (*levels, Level(level="L3", size_bytes=105 << 20, ways=15))
    seen = effective_hierarchy(reported, [_detected("L1", 50_000), _detected("L2", 2_000_000), _detected("L3", 3_000_000)])
    tried = candidates(MachineProfile(name="m", hierarchy=seen, hierarchy_reported=reported))
    assert [round(one.hierarchy[-1].size_bytes / 2**20) for one in tried] == [4, 6, 8, 12, 16]
    assert tried[0].hierarchy == seen
    assert all(one.hierarchy[-1].sets % 256 == 0 for one in tried)


def _detected(name, size):
    return DetectedLevel(level=name, size_bytes=size, low_bytes=size, high_bytes=size, confidence=0.9)


def test_what_rows_do_not_tell_stays_as_in_the_other_state_and_what_they_tell_moves():
    changed = msgspec.structs.replace(TRUE, sequential=(0.4 * NS, 6 * NS))
    rows = made_rows(noise=0.03, true=changed)
    blind = msgspec_replace(rows, work=BlockWork(**{**vars(rows.work), "between": np.zeros(len(rows.seconds))}))
    times = seconds(blind.work, changed) * rows.seconds / seconds(rows.work, changed)
    begin = Start(msgspec.structs.replace(TRUE, between=0.77), LIKE)
    found = begin.with_vector(fit(msgspec_replace(blind, seconds=times), begin)[0])
    assert found.between == pytest.approx(0.77, rel=0.01)
    assert found.sequential[1] == pytest.approx(6 * NS, rel=0.1)
    assert found.window == pytest.approx(TRUE.window, rel=0.15)


def test_another_state_of_the_machine_is_tried_and_its_coefficients_are_the_start():
    levels = (Level(level="L1", size_bytes=49152, ways=12), Level(level="L2", size_bytes=2 << 20, ways=16))
    level = Level(level="L3", size_bytes=16 << 20, ways=16)
    reported = (*levels, msgspec.structs.replace(level, size_bytes=480 << 20))
    one = MachineProfile(name="m", hierarchy=(*levels, level), hierarchy_reported=reported)
    other = msgspec.structs.replace(one, hierarchy=(*levels, msgspec.structs.replace(level, size_bytes=80 << 20)))
    assert [each.hierarchy[-1].size_bytes >> 20 for each in candidates(one, other)] == [16, 8, 24, 32, 48, 64, 80]

    measured = machine("m")
    like = msgspec.structs.replace(measured, calibration=TRUE)
    begin = starting_point(measured, 0, like)
    assert (begin.calibration.latency, begin.calibration.window, begin.pull) == (TRUE.latency, TRUE.window, LIKE)
    assert begin.calibration.first_latency == starting_point(measured).calibration.first_latency
    assert alike(like, measured)
    assert not alike(measured, like)
    assert not alike(msgspec.structs.replace(like, cpu={"model": "other"}), measured)

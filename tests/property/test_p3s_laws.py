"""Laws of P3S: measurable points, similar workloads, signatures and scaling curves, on programs whose answers are known."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convolver.modeling.p3s.executable_signature import phase_times, signature
from convolver.modeling.p3s.points import measured_rates
from convolver.modeling.p3s.rules import Rule
from convolver.modeling.p3s.scaling_advice import scaling_curve
from convolver.modeling.p3s.slt import build
from convolver.modeling.p3s.volume import fit_volume
from convolver.modeling.p3s.workload import between_points, compared_points, phase_works, similar_side
from convolver.mpi.network import flat_configuration
from convolver.mpi.network_replay import Replayer
from convolver.mpi.play import marks_of
from convolver.mpi.time_independent import Operation, Trace, to_events

FACTORS = st.floats(0.1, 50.0)


def program(count: int, steps: int = 6, work: float = 1e6) -> Trace:
    """Steps with a shift on a torus and a sum; the shift's work is twice the sum's, both shrink with the processes."""
    trace = []
    for rank in range(count):
        to, source = (Rule("torus", "square", 0, way)(rank, count) for way in (1, -1))
        step = [
            Operation("isend", to or 0, 800, 0, 2 * work / count),
            Operation("recv", source or 0, 800),
            Operation("allreduce", bytes=8, work=work / count),
        ]
        trace.append([Operation("bcast", bytes=8), *step * steps, Operation("barrier")])
    return trace


def timed(trace: Trace, shift: float, total: float) -> Trace:
    """The trace in nanoseconds, so many of an instruction before shifts and before sums."""
    rates = {"isend": shift, "allreduce": total}
    return [[Operation(o.name, o.partner, o.bytes, 0, o.work * rates.get(o.name, 1.0)) for o in rank] for rank in trace]


SCALABLE = build({count: program(count) for count in (4, 9, 16)})


def computation(trace: Trace) -> float:
    return sum(o.work for rank in trace for o in rank) / len(trace)


@given(FACTORS, FACTORS, st.sampled_from([4, 25, 64]))
def test_a_point_with_the_target_s_instructions_gives_the_target_s_time(shift, total, count):
    point = program(4, work=1e6 * 4 / count)  # the workload of a process is that of one of the target
    rates = measured_rates(SCALABLE.root, [(point, timed(point, shift, total))])
    expected = 6 * (2 * shift + total) * 1e6 / count * 1e-9
    assert computation(SCALABLE.at(count, rates)) == pytest.approx(expected)
    compared = compared_points(SCALABLE, count, rates)
    assert compared[0].difference == pytest.approx(0, abs=1e-9)
    assert between_points(compared)
    rows = phase_works(SCALABLE, count, rates)
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert sum(row.seconds for row in rows) == pytest.approx(expected)


@given(st.lists(FACTORS, min_size=2, max_size=5), st.floats(1e3, 1e8))
def test_between_points_no_rate_leaves_theirs_and_at_a_point_it_is_its_own(factors, work):
    points = []
    for number, factor in enumerate(factors):
        counted = program(4, work=1e4 * 5**number)
        points.append((counted, timed(counted, factor, factor)))
    rates = measured_rates(SCALABLE.root, points)
    at = rates.at(work)
    for rate in (at.mean, *at.known.values()):
        assert min(factors) * (1 - 1e-9) <= rate * 1e9 <= max(factors) * (1 + 1e-9)
    for point, factor in zip(rates.points, factors, strict=True):
        assert rates.at(point.instructions).mean == pytest.approx(factor * 1e-9)


@given(FACTORS, st.floats(10.0, 1e4))
def test_one_disturbed_recording_of_three_changes_nothing(rate, disturbance):
    counted = program(9)
    good, bad = timed(counted, rate, rate), timed(counted, rate * disturbance, rate)
    once = measured_rates(SCALABLE.root, [(counted, good)])
    assert measured_rates(SCALABLE.root, [(counted, good, bad, good)]).points == once.points


@given(st.floats(1, 1e4), st.integers(1, 10**5), st.integers(1, 10**3), st.integers(1, 3))
def test_a_similar_workload_gives_a_process_as_much(side, processes, on, dimensions):
    similar = similar_side(side, processes, on, dimensions)
    assert similar**dimensions / on == pytest.approx(side**dimensions / processes)
    assert similar_side(similar, on, processes, dimensions) == pytest.approx(side)


@settings(max_examples=15)
@given(st.integers(6, 60), st.integers(3, 6), st.sampled_from([4, 9, 25]))
def test_a_signature_s_phases_add_up_to_the_whole_run(steps, turns, count):
    scalable = build({p: program(p, steps) for p in (4, 9, 16)})
    network = flat_configuration(count, latency_seconds=5e-6, bandwidth_bytes_per_second=1e9)
    whole = Replayer(to_events(scalable.at(count), seconds_per_work=1e-9)).seconds(network).max()
    events = signature(scalable, count, turns=turns)
    rows, predicted = phase_times(events.notes["phases"], marks_of(Replayer(events).run(network, record=True), events))
    assert predicted == pytest.approx(whole, rel=1e-2)
    loops = [row.weight for row in rows if row.turn]
    assert sum(loops) in (0, steps)  # a loop that turns no more often than the signature keeps is no phase


@given(st.dictionaries(st.integers(1, 4096), st.floats(1e-3, 1e3), min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_a_lower_threshold_never_advises_fewer_processes(seconds, low, high):
    low, high = sorted((low, high))
    advised = [{p.processes for p in scaling_curve(seconds, threshold) if p.advised} for threshold in (low, high)]
    assert advised[1] <= advised[0]
    first = min(seconds)
    for point in scaling_curve(seconds):
        assert point.speedup * point.seconds == pytest.approx(first * seconds[first])
        assert point.efficiency * point.processes == pytest.approx(point.speedup)


@given(st.integers(1, 10**9), st.sets(st.integers(2, 256), min_size=2, max_size=4), st.integers(2, 10**4), st.integers(2, 4096))
def test_messages_of_one_size_keep_it(size, counts, side, target):
    form = fit_volume(dict.fromkeys(counts, size), sizes_to_try=(side,))
    assert form(target) == pytest.approx(size)

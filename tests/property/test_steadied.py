"""Samples as if the core's clock had stood still."""

from hypothesis import given
from hypothesis import strategies as st

from convolver.probing.samples import Line, is_settled, judged, low_percentile, steadied

NEAR = 1 << 20
CYCLES = st.floats(1.0, 1000.0)
CLOCKS = st.floats(1e-10, 1e-9)


def line(cycles, clock, working_set_bytes=4096, threads=1, witness=()):
    return Line(
        kernel="load",
        working_set_bytes=working_set_bytes,
        threads=threads,
        references=1000,
        rejected=0,
        interval=0.01,
        precise=True,
        cycle_seconds=clock,
        elapsed_seconds=0.01,
        samples_seconds=tuple(each * clock for each in cycles),
        clocks_seconds=(clock,) * len(cycles),
        witness_cycles=tuple(witness),
    )


@given(st.lists(CYCLES, min_size=1, max_size=9), st.lists(CLOCKS, min_size=2, max_size=5))
def test_rounds_of_equal_cycles_agree_whatever_the_clock_was(cycles, clocks):
    centers = [low_percentile(one.samples_seconds) for one in steadied([line(cycles, clock) for clock in clocks], NEAR)]
    assert all(abs(center / (low_percentile(cycles) * min(clocks)) - 1) < 1e-9 for center in centers)


@given(CYCLES, st.lists(CLOCKS, min_size=1, max_size=5))
def test_far_points_stay_as_measured_and_registers_count_as_near(cycles, clocks):
    far = [line([cycles], clock, working_set_bytes=2 * NEAR) for clock in clocks]
    assert steadied(far, NEAR) == far
    registers = steadied([line([cycles], clock, working_set_bytes=0) for clock in clocks], 0)
    assert max(one.samples_seconds[0] for one in registers) <= (1 + 1e-9) * min(one.samples_seconds[0] for one in registers)


@given(CYCLES, CLOCKS, CLOCKS)
def test_busy_cpus_have_a_clock_of_their_own(cycles, alone, busy):
    first, second = steadied([line([cycles], alone), line([cycles], busy, threads=2)], NEAR)
    assert abs(first.samples_seconds[0] / (cycles * alone) - 1) < 1e-9
    assert abs(second.samples_seconds[0] / (cycles * busy) - 1) < 1e-9


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.floats(0.0, 0.05))
def test_samples_count_while_nothing_else_ran_on_the_core(busy, noise):
    quiet = line([1.0] * 5, 1e-9, working_set_bytes=0, witness=[2.0] * 5)
    mixed = line([2.0 if one else 1.0 for one in busy], 1e-9, witness=[(4.0 if one else 2.0) + noise for one in busy])
    points = {one.working_set_bytes: one for one in judged([quiet, mixed])}
    assert points[0] == quiet
    assert len(points[4096].samples_seconds) == (len(busy) if all(busy) else busy.count(False))
    assert points[4096].rejected == (0 if all(busy) else busy.count(True))


def test_a_point_that_was_always_disturbed_stays_and_does_not_settle():
    quiet, busy = line([1.0], 1e-9, witness=[2.0]), [line([2.0], 1e-9, 1 << 16, witness=[each]) for each in (4.1, 4.0)]
    kept = [one for one in judged([quiet, *busy]) if one.working_set_bytes == 1 << 16]
    assert kept == busy[1:]
    assert not is_settled(kept, 0.05)


def test_points_of_several_threads_and_of_older_probes_are_not_judged():
    lines = [line([1.0], 1e-9, witness=[2.0]), line([3.0], 1e-9, threads=2, witness=[4.0]), line([5.0], 1e-9)]
    assert judged(lines) == [lines[0], lines[2], lines[1]]

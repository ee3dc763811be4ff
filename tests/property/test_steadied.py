"""Samples as if the core's clock had stood still."""

from hypothesis import given
from hypothesis import strategies as st

from convolver.probing.samples import Line, low_percentile, steadied

NEAR = 1 << 20
CYCLES = st.floats(1.0, 1000.0)
CLOCKS = st.floats(1e-10, 1e-9)


def line(cycles, clock, working_set_bytes=4096, threads=1):
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

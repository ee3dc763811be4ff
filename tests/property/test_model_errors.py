"""Errors to draw from: what is drawn was measured, and machines that erred alike are drawn alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.convolution.uncertainty import UNKNOWN_DEVIATION, Chances, core_errors, drawn_errors
from convolver.machine.calibration import Calibration, Residual

SHARES = st.floats(0, 1)
POINTS = st.lists(
    st.tuples(st.sampled_from(["load", "store", "chase", "chase_4"]), st.sampled_from(["L1", "L2", "memory"]), st.floats(-1, 1)),
    max_size=30,
)


def calibration(points):
    residuals = tuple(Residual(kernel=kernel, working_set_bytes=1, place=level, error=error) for kernel, level, error in points)
    zeros = dict.fromkeys(("exponent", "first_latency", "between", "coming", "window", "median_error", "mean_error"), 0.0)
    empty = dict.fromkeys(("sequential", "random", "write_back", "latency"), ())
    return Calibration(simulator="", points=0, intervals={}, residuals=residuals, **zeros, **empty)


def chances(draws=50, blocks=3):
    random = np.random.default_rng(1)
    return Chances(random.random((draws, 1)), random.random((draws, blocks)))


@given(POINTS, st.booleans())
def test_only_errors_of_the_right_kernels_and_levels_are_drawn(points, chains):
    levels = ["L2", "memory"]
    found = drawn_errors(calibration(points), levels, chances(), chains=chains)
    known = [-error for kernel, level, error in points if level in levels and kernel.startswith("chase") == chains]
    assert found.shape == (50, 3)
    if known:
        assert set(found.ravel()) <= set(known)
    else:
        assert np.abs(found).max() < 5 * UNKNOWN_DEVIATION


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9), st.floats(-1, 1))
def test_blocks_have_in_common_what_the_points_of_a_kernel_have(errors, shift):
    points = [(kernel, "L2", error) for kernel, error in zip("abcdefghi", errors, strict=False)]
    one, other = (calibration([(k, p, e + by) for k, p, e in points]) for by in (0.0, shift))
    first, second = (drawn_errors(each, ["L2"], chances()) for each in (one, other))
    assert (first == first[:, :1]).all()  # each kernel has one point, so all blocks err alike
    assert second - first == pytest.approx(np.full(first.shape, -shift))


@given(SHARES, SHARES)
def test_core_errors_grow_with_the_number_they_are_drawn_by(one, other):
    low, high = sorted((8 * one - 4, 8 * other - 4))
    assert core_errors(np.array([low]))[0] <= core_errors(np.array([high]))[0]


def test_cores_that_were_not_timed_err_more():
    normal = np.linspace(-3, 3, 7)
    assert core_errors(normal, "zen3") == pytest.approx(1.3 * core_errors(normal))
    assert core_errors(normal, "zen4", guessed=True) == pytest.approx(2.2 * core_errors(normal))


def test_core_errors_have_the_measured_percentiles():
    drawn = core_errors(np.random.default_rng(2).standard_normal(100_000))
    assert np.quantile(drawn, (0.05, 0.5, 0.95)) == pytest.approx((-0.176, 0.013, 0.268), abs=0.01)

"""Hit rates folded into shares per block, and what is known of their errors."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from convolver.analyzing.falls import DEPENDENT, SEQUENTIAL, Falls, fold, with_frames

LEVELS = ["L1", "L2", "L3"]


def _table(**columns) -> pl.DataFrame:
    """Two blocks on a machine with two levels, a tenth of whose accesses miss in the first and half of those in the second."""
    rows = {
        "block": pl.Series([0, 1, 0, 1], dtype=pl.UInt32),
        "machine": ["M"] * 4,
        "level": ["L1", "L1", "L2", "L2"],
        "accesses": [1000, 1000, 100, 100],
        "misses": [100, 100, 50, 100],
        "write_backs": [0] * 4,
    }
    return pl.DataFrame(rows | columns)


def _errors(table: pl.DataFrame) -> np.ndarray:
    return fold(table, "M", ["L1", "L2"], 3).errors


def test_errors_shrink_with_the_share_that_reaches_a_level():
    errors = _errors(_table(standard_error=[0.01, 0.0, 0.02, 0.0], sample=["sets 1/32"] * 4))
    assert errors == pytest.approx(np.array([[0.01, 0.002], [0.0, 0.0], [0.0, 0.0]]))


@pytest.mark.parametrize("columns", [{}, {"standard_error": [None, 0.01, None, 0.01], "sample": ["visits"] * 4}])
def test_unknown_errors_stay_unknown(columns):
    assert np.isnan(_errors(_table(**columns))[0]).all()
    assert not _errors(_table(**columns))[2].any()  # a block without an access


def test_groups_that_are_all_alike_leave_an_error_of_about_one_access():
    errors = _errors(_table(standard_error=[0.01, 0.01, None, None], sample=["bursts"] * 4))
    assert np.isnan(errors[0, 1])  # half of its accesses missed: too few groups had one
    assert errors[1, 1] == pytest.approx(0.1 * np.sqrt(101 / 103) / 102)


def test_long_strides_are_a_share_of_the_random_lines():
    misses = {"random_misses": [80, 0, 40, 100], "long_strides_misses": [20, 0, 10, 100]}
    empty = {"strided_misses": [0] * 4, "dependent_misses": [0] * 4, "standard_error": [0.0] * 4, "sample": ["all"] * 4}
    found = fold(_table(**misses, **empty), "M", ["L1", "L2"], 3).long_strides
    assert found == pytest.approx(np.array([[0.25, 0.25], [0.0, 1.0], [0.0, 0.0]]))


def _falls(misses: dict[str, list[int]]) -> Falls:
    """One block of 1000 references to three levels: how many of them miss in each, and which of these in a chase."""
    rows = {"block": pl.Series([0] * 3, dtype=pl.UInt32), "machine": ["M"] * 3, "level": LEVELS, "write_backs": [0] * 3}
    none = {name: [0] * 3 for name in ("random_misses", "strided_misses")}
    accesses = {"accesses": [1000, *misses["misses"][:-1]], "standard_error": [0.0] * 3, "sample": ["all"] * 3}
    return fold(pl.DataFrame(rows | none | accesses | misses), "M", LEVELS, 1)


@pytest.mark.parametrize(
    ("framed", "expected"), [(250, [50, 190, 60]), (190, [110, 130, 60]), (100, [200, 40, 60]), (20, [240, 0, 60])]
)
def test_frames_move_lines_out_of_order_between_two_levels(framed, expected):
    where = _falls({"misses": [500, 200, 60], "dependent_misses": [300, 200, 60]})
    other = _falls({"misses": [200 + framed, framed, 0], "dependent_misses": [300, framed, 0]})
    lines = with_frames(where, other).lines(np.ones(1))[0]
    assert lines[:, DEPENDENT] == pytest.approx(np.array(expected) / 1000)
    assert lines[:, SEQUENTIAL] == pytest.approx(where.lines(np.ones(1))[0][:, SEQUENTIAL])

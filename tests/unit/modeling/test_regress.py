"""Regressions: known answers, the laws of least squares, elimination down to the empty model."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import ModelError, NoiseWarning
from convolver.modeling.mecp.semi_empirical import bounded_fit
from convolver.modeling.regress import eliminate, nnls, ols, relative_weights

P = np.array([4.0, 9, 16, 25, 36, 49])
ALPHA = np.array([14.748, 6.589, 3.734, 2.412, 1.694, 1.261])
LOCALITY = np.array([1.0, 0.986, 0.900, 0.672, 0.575, 0.553])
MEASURED_ALPHA = np.array([14.718, 6.585, 3.351, 1.598, 0.964, 0.699])


def amdahl_design(p):
    return np.column_stack([np.ones_like(p), 1 / p])


def test_regression_of_the_printed_critical_paths_gives_the_printed_coefficients_and_errors():
    fit = ols(ALPHA, amdahl_design(P), ("a0", "a1"))
    assert fit["a0"] == pytest.approx(0.06227, abs=5e-6)
    assert fit["a1"] == pytest.approx(58.74275, abs=5e-6)
    assert fit.standard_errors == pytest.approx([0.00012, 0.00105], abs=6e-6)


def test_the_independent_route_makes_the_constant_not_significant_by_the_papers_own_rule():
    fit = ols(MEASURED_ALPHA / LOCALITY, amdahl_design(P), ("a0", "a1"))
    assert fit["a0"] == pytest.approx(0.06241, abs=5e-6)
    assert fit["a1"] == pytest.approx(58.7418, abs=5e-5)
    assert fit.standard_errors == pytest.approx([0.0306, 0.2625], abs=6e-5)
    assert fit.p[0] == pytest.approx(0.111, abs=5e-4)
    weighted = ols(MEASURED_ALPHA / LOCALITY, amdahl_design(P), ("a0", "a1"), relative_weights(MEASURED_ALPHA / LOCALITY))
    assert weighted["a0"] == pytest.approx(0.0523, abs=5e-5)
    assert weighted.p[0] == pytest.approx(0.035, abs=5e-4)


def test_without_the_locality_factor_the_serial_time_is_negative_and_the_error_large():
    fit = ols(MEASURED_ALPHA, amdahl_design(P), ("a0", "a1"))
    assert fit["a0"] == pytest.approx(-0.626, abs=5e-4)
    assert np.max(np.abs(fit.predict(amdahl_design(P)) / MEASURED_ALPHA - 1)) > 0.157


@given(st.lists(st.floats(-100, 100), min_size=4, max_size=12), st.floats(-5, 5), st.floats(-5, 5))
def test_residuals_are_orthogonal_to_every_column(noise, a, b):
    x = np.arange(len(noise), dtype=float)
    design = np.column_stack([np.ones_like(x), x])
    y = a + b * x + np.array(noise)
    residual = y - ols(y, design, ("1", "x")).predict(design)
    assert design.T @ residual == pytest.approx([0, 0], abs=1e-6 * (1 + np.abs(y).max()) * len(x) ** 2)


@given(st.floats(0.1, 1e9), st.floats(0.1, 1e9))
def test_coefficients_do_not_depend_on_the_units_of_the_columns(s, t):
    design = amdahl_design(P)
    fit, scaled = ols(ALPHA, design, ("a", "b")), ols(ALPHA, design * [s, t], ("a", "b"))
    assert scaled.coefficients * [s, t] == pytest.approx(fit.coefficients, rel=1e-8)
    assert scaled.p == pytest.approx(fit.p, rel=1e-5)


def test_non_negative_fit_holds_a_negative_coefficient_at_zero_and_says_so():
    x = np.arange(1.0, 9)
    fit = nnls(5 * x - 3, np.column_stack([np.ones_like(x), x]), ("1", "x"))
    assert fit.names == ("x",)
    assert fit["1"] == 0
    assert "non-negativity" in fit.steps[0]


def test_elimination_drops_the_negative_and_the_undetermined_terms_one_at_a_time():
    rng = np.random.default_rng(1)
    x = rng.uniform(1, 10, (60, 3))
    y = 4 * x[:, 0] - 2 * x[:, 1] + rng.normal(0, 0.1, 60)
    fit = eliminate(y + 20, np.column_stack([np.ones(60), x]), ("1", "a", "b", "c"))
    assert "b" not in fit.names
    assert "a" in fit.names
    assert len(fit.steps) == 4 - len(fit.names)


def test_elimination_of_everything_gives_the_empty_model_not_a_crash():
    noise = np.random.default_rng(0).normal(0, 1, 30)
    fit = eliminate(noise, np.random.default_rng(1).normal(0, 1, (30, 2)), ("a", "b"))
    assert fit.empty
    assert fit.predict(np.zeros((30, 0))) == pytest.approx(np.zeros(30))
    assert len(fit.steps) == 2


def test_terms_that_cannot_be_distinguished_are_an_error_that_names_them():
    x = np.arange(1.0, 6)
    with pytest.raises(ModelError, match="cannot be distinguished"):
        ols(x, np.column_stack([x, 2 * x]), ("a", "b"))


def test_too_few_points_are_an_error():
    with pytest.raises(ModelError, match="cannot determine"):
        ols([1.0], [[1.0, 2.0]], ("a", "b"))


def test_bounded_fit_finds_parameters_over_decades_and_their_errors():
    x = np.linspace(1, 64, 40)
    y = 3e-5 * x**1.3 + 2e-7
    fit = bounded_fit(lambda p: p["c"] * x ** p["e"] + p["l"], y, {"c": (1e-9, 1e-3), "e": (1, 1.5), "l": (1e-9, 1e-3)})
    assert fit.parameters["c"] == pytest.approx(3e-5, rel=1e-4)
    assert fit.parameters["e"] == pytest.approx(1.3, rel=1e-4)
    assert not fit.at_bound


def test_bounded_fit_warns_of_a_parameter_at_its_bound():
    x = np.linspace(1, 64, 40)
    with pytest.warns(NoiseWarning, match="e ended at a bound"):
        fit = bounded_fit(lambda p: p["c"] * x ** p["e"], 2e-4 * x**1.7, {"c": (1e-9, 1e-1), "e": (1, 1.5)})
    assert fit.at_bound == ("e",)
    assert np.isnan(fit.standard_errors["e"])


def test_bounds_in_the_wrong_order_are_an_error():
    with pytest.raises(ModelError, match="the lower first"), warnings.catch_warnings():
        bounded_fit(lambda p: np.array([p["a"]]), [1.0], {"a": (2, 1)})

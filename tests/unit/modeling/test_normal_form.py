"""Normal form: every published term recovered, noise within the goals, several parameters, change points."""

import numpy as np
import pytest

from convolver.errors import ModelError
from convolver.modeling.base import fit
from convolver.modeling.expression import evaluate
from convolver.modeling.normal_form import EXPONENTS, term_text

POINTS = np.array([4.0, 8, 16, 32, 64, 128])
TERMS = [term_text("p", power, logs) for power, logs in EXPONENTS]
GOALS = {0.02: 0.0095, 0.05: 0.034, 0.10: 0.068}
"""Mean error at four times the largest point that must not be exceeded, by noise: Extra-P's default on the same kind of data."""


def truth(term, coefficients, x):
    return coefficients[0] + coefficients[1] * evaluate(term, {"p": x})


def coefficients_of(index):
    return np.random.default_rng(index).uniform(10, 1000, 2)


def normal_form(y, x=POINTS, **options):
    return fit("normal-form", {"p": x, "time": y}, target="time", features=["p"], **options)


def test_there_are_43_hypotheses_with_the_constant():
    assert len(set(TERMS)) == 42


@pytest.mark.parametrize("select", ["evidence", "leave-one-out"])
@pytest.mark.parametrize("index", range(43))
def test_each_of_the_43_hypotheses_is_recovered_without_noise(index, select):
    term = TERMS[index] if index < 42 else "1"
    a, b = coefficients_of(index)
    values = truth(term, (a, b), POINTS) if index < 42 else np.full(6, a)
    model = normal_form(values, select=select)
    assert {t.expression for t in model.terms} == {"1", term}
    with pytest.warns(UserWarning, match="outside"):
        beyond = model.apply({"p": [1024.0]})
    assert beyond == pytest.approx(truth(term, (a, b), np.array([1024.0])) if index < 42 else [a], rel=1e-6)


@pytest.mark.parametrize("noise", [0.05, *(pytest.param(noise, marks=pytest.mark.slow) for noise in GOALS if noise != 0.05)])
@pytest.mark.filterwarnings("ignore:.*outside")
def test_with_noise_the_mean_error_at_four_times_the_range_meets_the_goal(noise):
    rng = np.random.default_rng(round(1000 * noise))
    errors = []
    for index, term in enumerate(TERMS):
        for _ in range(3):
            exact = truth(term, coefficients_of(index), POINTS)
            measured = (exact * (1 + rng.uniform(-noise, noise, (5, 6)))).ravel()
            model = normal_form(measured, np.tile(POINTS, 5), center="mean")
            want = truth(term, coefficients_of(index), np.array([512.0]))
            errors.append(abs(model.apply({"p": [512.0]})[0] / want[0] - 1))
    assert np.mean(errors) <= GOALS[noise]


def test_a_falling_time_gets_a_falling_term():
    model = normal_form(5 + 800 / POINTS)
    assert {t.expression for t in model.terms} == {"1", "p^(-1)"}


def test_two_parameters_give_their_product():
    p, n = (grid.ravel() for grid in np.meshgrid([4.0, 8, 16, 32, 64], [10.0, 20, 30, 40, 50]))
    data = {"p": p, "n": n, "time": 3 + 0.5 * np.log2(p) * n**2}
    model = fit("normal-form", data, target="time", features=["p", "n"])
    assert model.apply({"p": [64], "n": [50]}) == pytest.approx([3 + 0.5 * 6 * 2500], rel=1e-6)
    assert any(t.expression == "log2(p)*n^2" for t in model.terms)


def test_two_parameters_that_add_give_a_sum():
    p, n = (grid.ravel() for grid in np.meshgrid([4.0, 8, 16, 32, 64], [10.0, 20, 30, 40, 50]))
    model = fit("normal-form", {"p": p, "n": n, "time": 7 * p + 2 * n**1.5}, target="time", features=["p", "n"])
    assert {t.expression for t in model.terms} == {"p", "n^(3/2)"}


def test_pairs_of_terms_are_found_when_asked_for_and_determined():
    x = 2.0 ** np.arange(1, 11)
    model = normal_form(10 + 3 * x + 40 * np.log2(x), x, terms=2)
    assert {t.expression for t in model.terms} == {"1", "p", "log2(p)"}


def test_values_below_one_keep_logarithms_out():
    model = normal_form(2 * POINTS, POINTS / 100)
    assert not any("log2" in t.expression for t in model.terms)


def test_zero_measurements_are_fitted_absolutely():
    model = normal_form(np.array([0.0, 4, 12, 28, 60, 124]))
    assert not model.relative
    assert model.quality["points"] == 6


def test_points_below_zero_are_refused_as_parameters():
    with pytest.raises(ModelError, match="above 0"):
        normal_form(POINTS, POINTS - 10)


@pytest.mark.parametrize(
    ("x", "below", "above", "change"),
    [
        (np.arange(1.0, 11), lambda p: p**2, lambda p: 40 + p, 7),
        (np.arange(4.0, 44, 4), np.log2, lambda p: p**2, 24),
        (np.arange(10.0, 110, 10), lambda p: p**2 * np.log2(p), lambda p: 9000 + 3 * p, 50),
    ],
)
def test_a_change_point_is_found_exactly(x, below, above, change):
    y = np.where(x < change, below(x), above(x))
    model = fit("segmented", {"p": x, "time": y}, target="time", features=["p"])
    assert model.quality["change_high"] == change
    assert model.apply({"p": x}) == pytest.approx(y, rel=1e-6)


def test_no_change_point_is_invented():
    model = fit("segmented", {"p": np.arange(1.0, 11), "time": 3 + np.arange(1.0, 11) ** 2}, target="time", features=["p"])
    assert not model.formula
    assert any("no change point" in note for note in model.notes)


def test_too_few_points_are_an_error():
    with pytest.raises(ModelError, match="at least 6"):
        fit("segmented", {"p": POINTS[:4], "time": POINTS[:4]}, target="time", features=["p"])
    with pytest.raises(ModelError, match="too few"):
        normal_form(POINTS[:1], POINTS[:1])

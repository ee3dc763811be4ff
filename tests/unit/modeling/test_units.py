"""Units of coefficients, that every kind of fit leaves terms with errors, p and units, and wrong options of a fit."""

import numpy as np
import pytest

from convolver.errors import ModelError
from convolver.modeling.base import fit
from convolver.modeling.expression import coefficient_unit, format_unit, parse_unit

UNITS = {"L": "s", "BW": "B/s", "P": "1"}


@pytest.mark.parametrize("text", ["1", "s", "B/s", "1/s", "m^2*s", "B/s^2", "s^(1/2)"])
def test_a_unit_survives_reading_and_writing(text):
    assert format_unit(parse_unit(text)) == text


@pytest.mark.parametrize(
    ("expression", "unit"),
    [
        ("1", "s"),
        ("N^3/P", "s"),
        ("ceil(log2(P))*L", "1"),
        ("where(P > 1, N*L, 0)", "1"),
        ("4*N^2/BW", "B"),
        ("sqrt(BW)", "s^(3/2)/B^(1/2)"),
        ("L^(1/2)", "s^(1/2)"),
        ("BW^2*log(BW)", "s^3/B^2"),
        ("L + BW", ""),
        ("min(L, 3)", "1"),
        ("L^P", ""),
    ],
)
def test_the_unit_of_a_coefficient_is_the_targets_over_the_terms(expression, unit):
    assert coefficient_unit("s", expression, UNITS) == unit
    assert coefficient_unit("", expression, UNITS) == ""


def test_what_is_no_unit_is_an_error():
    for text in ("s/", f"s^{'9' * 5000}", "s^(1/0)"):
        with pytest.raises(ModelError, match="is no unit"):
            parse_unit(text)


def points():
    rng = np.random.default_rng(0)
    size = np.repeat([4.0, 8, 16, 32, 64, 128], 3)
    return {"p": size, "time": (2 + 0.5 * size) * rng.normal(1, 0.02, len(size))}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("analytic", {"formula": "1 + p"}),
        ("normal-form", {}),
        ("power-law", {}),
        ("segmented", {}),
        ("semi-empirical", {"formula": "a + b*p", "bounds": {"a": (0.1, 10), "b": (0.1, 10)}, "loss": "relative"}),
    ],
)
def test_terms_of_every_kind_have_an_error_and_a_test(kind, options):
    model = fit(kind, points(), target="time", features=["p"], units={"time": "s"}, **options)
    assert model.unit == "s"
    assert model.terms
    for term in model.active:
        assert term.standard_error > 0
        assert term.p == pytest.approx(0, abs=0.05) or term.flag == "N.S."
    if not model.formula:
        assert [term.unit for term in model.terms] == ["s"] * len(model.terms)


def test_both_sides_of_a_change_point_have_named_terms():
    size = np.array([2.0, 4, 8, 16, 32, 64, 128, 256])
    time = np.where(size < 20, 3 * size, 100 + size**2) * (1 + 1e-6 * np.cos(size))
    model = fit("segmented", {"p": size, "time": time}, target="time", features=["p"])
    assert {term.expression.split("_")[0] for term in model.terms} == {"below", "above"}
    assert all(term.standard_error is not None for term in model.terms)
    assert model.apply({"p": size}) == pytest.approx(time, rel=1e-3)


def test_units_of_other_names_are_refused():
    with pytest.raises(ModelError, match="'q' is neither"):
        fit("power-law", points(), target="time", features=["p"], units={"q": "s"})


@pytest.mark.parametrize(
    ("kind", "options", "match"),
    [
        ("analytic", {"formula": {"(lambda": "1)()"}}, "'formula' of the model 'analytic' cannot be"),
        ("analytic", {"max_relative_error": "abc"}, "'max_relative_error' of the model 'analytic' cannot be 'abc'"),
        ("analytic", {"drop_outliers": -1}, "Every point is an outlier"),
        ("analytic", {"nonsense": 1}, "'analytic' has no option 'nonsense'; it has formula, weights"),
        ("power-law", {"seed": 1}, "it has none"),
        ("mecp", {}, "'mecp' needs formula and bounds: give --option"),
    ],
)
def test_options_that_a_model_lacks_or_does_not_know_are_named(kind, options, match):
    with pytest.raises(ModelError, match=match):
        fit(kind, points(), target="time", features=["p"], **options)

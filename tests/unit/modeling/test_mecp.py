"""MECP: the printed form and parameters, bounded fits, terms, the search, the choice without held-out data."""

import ast
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import ModelError, NoiseWarning, ToolNotFoundError
from convolver.modeling.base import fit
from convolver.modeling.expression import evaluate, substitute
from convolver.modeling.mecp.correct import Remainder, choose, ensemble, fit_mecp, fit_remainder, relative, trial
from convolver.modeling.mecp.evolve import Settings, evolve, protected, scale, summands
from convolver.modeling.mecp.semi_empirical import SemiEmpirical
from convolver.modeling.table import Table
from tests.semi_empirical_forms import EVH1, GYRO

TABLE_3 = {"g": 2.45e-8, "h": 1.13216, "i": 1.69e-5, "j": 1.62e-7}
needs_operon = pytest.mark.skipif(find_spec("pyoperon") is None, reason="needs pyoperon")
QUICK = Settings(population=80, generations=12, length=9)
TRANSPOSE = SemiEmpirical(EVH1.formula.replace("f*T*nx*", "T*"), {**EVH1.bounds, "g": (1e-10, 1e-3), "j": (1e-10, 1e-3)})
"""Equation 2 for one transposition of nx x nx values a cycle."""


def transpose():
    """Times of transpositions simulated on a cluster with a shared backbone (tests/bench/models_mecp.py)."""
    table = Table.load(Path(__file__).with_name("transpose.csv"))
    return table.observations("time", ["np", "nx", "T"])


def test_equation_2_with_the_printed_parameters_gives_the_test_vector():
    per_cycle = SemiEmpirical(EVH1.formula.replace("f*T*nx*", ""), EVH1.bounds)
    copy = per_cycle({"nx": 1024, "np": 64}, {**TABLE_3, "i": 0, "j": 0})
    network = per_cycle({"nx": 1024, "np": 64}, {**TABLE_3, "g": 0})
    assert copy == pytest.approx(4.0141e-4, rel=1e-4)
    assert network == pytest.approx(6.36e-3, rel=1e-3)
    assert EVH1({"nx": 1024, "np": 64, "T": 1}, TABLE_3) == pytest.approx(4965 * 1024 * (copy + network))


def test_on_one_process_only_the_copy_is_left_as_the_text_says():
    one = EVH1({"nx": 256, "np": 1, "T": 1}, TABLE_3)
    assert one == pytest.approx(4965 * 256 * TABLE_3["g"] * 256**2)


def test_the_token_for_token_reading_of_equation_2_is_rejected():
    def literal(nx, processes):
        return TABLE_3["g"] * (nx**2 - nx**2 / processes)

    assert literal(1024, 1) == 0  # the text: dominated by the copy
    assert literal(1024, 64) == pytest.approx(25e-3, rel=0.02)  # against .4 ms


def test_the_printed_parameters_of_gyro_lie_at_their_bounds():
    printed = {"ex": 0.496, "tl": 1.12e-8, "bw": 9.85e5}
    gaps = {name: min(abs(value / bound - 1) for bound in GYRO.bounds[name]) for name, value in printed.items()}
    assert all(gap < 0.13 for gap in gaps.values())


def test_parameters_of_equation_2_are_recovered_within_the_printed_bounds():
    np_, nx = (grid.ravel() for grid in np.meshgrid([1.0, 2, 4, 8, 16, 32, 64], [128.0, 256, 512, 1024]))
    x = {"np": np_, "nx": nx, "T": np.ones_like(nx)}
    data = Table.of_columns({**x, "time": EVH1(x, TABLE_3)}).observations("time", ["np", "nx", "T"])
    found = EVH1.fit(data, loss="relative")
    assert found.parameters == pytest.approx(TABLE_3, rel=1e-3)
    assert not found.at_bound


def test_a_semi_empirical_model_is_an_artifact_and_flags_parameters_at_a_bound(tmp_path):
    data = {"np": np.arange(2.0, 20), "time": 3.0 * np.arange(2.0, 20) ** 1.9}
    with pytest.warns(NoiseWarning, match="h ended at a bound"):
        model = fit(
            "semi-empirical", data, target="time", features=["np"], formula="c*np^h", bounds={"c": (0.1, 100), "h": (1, 1.5)}
        )
    assert {t.expression: t.flag for t in model.terms} == {"c": "", "h": "at bound"}


@pytest.mark.parametrize("pair", [(2, "x"), (1,), 3, (1, 2, 3)])
def test_bounds_that_are_not_two_numbers_are_refused(pair):
    data = {"np": np.arange(2.0, 20), "time": np.arange(2.0, 20)}
    with pytest.raises(ModelError, match="bounds of c are not two numbers"):
        fit("semi-empirical", data, target="time", features=["np"], formula="c*np", bounds={"c": pair})


def test_names_are_substituted_as_whole_expressions():
    assert evaluate(substitute("a*b", {"a": "x + 1"}), {"x": 2.0, "b": 3.0}) == 9


rngs = st.integers(0, 2**31).map(np.random.default_rng)
X = {"u": np.array([0.1, 1.0, 3.0, 20.0]), "v": np.array([-2.0, 0.0, 1e-12, 5.0])}


def safely_divided(a, b):
    return np.where(np.abs(b) > 1e-9, a / np.where(np.abs(b) > 1e-9, b, 1.0), 1.0)


OPERATIONS = {
    "({} + {})": np.add,
    "({} - {})": np.subtract,
    "({} * {})": np.multiply,
    "({} / {})": safely_divided,
    "({} ^ {})": lambda a, b: np.exp(np.clip(b * np.log(np.abs(a) + 1e-9), -30, 30)),
    "log({})": lambda a: np.log(np.abs(a) + 1e-9),
    "exp({})": lambda a: np.exp(np.clip(a, -30, 30)),
    "(-{})": np.negative,
}
"""What a search may combine, and what it means."""


def combined(below):
    one, two = ([text for text in OPERATIONS if text.count("{}") == count] for count in (1, 2))
    return st.tuples(st.sampled_from(two), below, below) | st.tuples(st.sampled_from(one), below)


terms = st.recursive(st.sampled_from(["u", "v"]) | st.floats(-9, 9), combined, max_leaves=8)


def written(term):
    return term[0].format(*map(written, term[1:])) if isinstance(term, tuple) else f"({term})"


def meant(term):
    if isinstance(term, tuple):
        return OPERATIONS[term[0]](*map(meant, term[1:]))
    return X[term] if isinstance(term, str) else np.full(4, term)


@given(terms)
def test_a_protected_term_has_the_values_that_the_search_means(term):
    with np.errstate(all="ignore"):
        expected = meant(term)
    text = protected(ast.parse(written(term).replace("^", "**"), mode="eval").body)
    assert np.broadcast_to(evaluate(text, X), (4,)) == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)


@needs_operon
def test_the_search_finds_a_simple_law_and_repeats_itself():
    rng = np.random.default_rng(0)
    columns = {"u": rng.uniform(0.1, 5, 40), "v": rng.uniform(0.1, 5, 40)}
    wanted = 3 * columns["u"] / columns["v"] - 1
    first = evolve(columns, wanted, np.ones(40), seed=4, settings=Settings())
    assert first == evolve(columns, wanted, np.ones(40), seed=4, settings=Settings())
    values = first.values(columns, 40)
    assert np.mean((values - wanted) ** 2) < 0.05 * np.var(wanted)


def test_summands_are_those_of_the_sum_without_factors_and_constants():
    sum_of = summands("((2 * u) + ((u / v) - (3 + (u * (-1.5)))))")
    assert [evaluate(one, {"u": 6.0, "v": 2.0}) for one in sum_of] == [6, 3]
    assert summands("4.0") == ()
    assert summands("(-(u + 1))") == ("(u+(1.0))",)


@given(rngs)
def test_scaling_is_a_ridge_regression_with_the_errors_of_points_left_out(rng):
    values, weights = rng.normal(size=(20, 2)) * [1, 50] + [5, -3], rng.uniform(0.5, 2, 20)
    wanted = values @ [2, 0.1] + 3 + rng.normal(0, 0.5, 20)
    found = scale(values, wanted, weights)
    means = np.average(values, axis=0, weights=weights)
    spread = np.sqrt(np.average((values - means) ** 2, axis=0, weights=weights))
    design = np.column_stack([np.ones(20), (values - means) / spread])

    def ridge(rows, price):
        scaled = design[rows] * weights[rows, None]
        return np.linalg.solve(scaled.T @ design[rows] + price, scaled.T @ wanted[rows])

    def without(price):
        kept = [np.arange(20) != left for left in range(20)]
        return sum(weights[i] * (wanted[i] - design[i] @ ridge(rows, price)) ** 2 for i, rows in enumerate(kept))

    errors = {step: without(np.diag([0, 20 * step, 20 * step])) for step in (1e-3, 1e-2, 1e-1, 1.0)}
    best = min(errors, key=errors.get)
    assert found.error == pytest.approx(errors[best], rel=1e-6)
    whole = ridge(np.arange(20), np.diag([0, 20 * best, 20 * best]))
    assert np.array(found.coefficients) == pytest.approx(whole[1:] / spread)
    assert found.offset == pytest.approx(whole[0] - (whole[1:] / spread) @ means)
    assert scale(np.ones((20, 1)), wanted, weights) is None


def test_what_a_term_leaves_is_smoothed_where_points_agree_and_nothing_is_added_far_from_them():
    rng = np.random.default_rng(0)
    columns = {"u": rng.normal(size=60), "v": rng.normal(size=60)}
    left = np.exp(-2 * (columns["u"] - 0.5) ** 2)  # of one variable only: the length of the other is long
    found = fit_remainder(columns, left + rng.normal(0, 0.02, 60), np.ones(60))
    at = {"u": np.array([0.5, -1.5, 60.0]), "v": np.array([0.1, 0.0, 0.0])}
    assert found.values(at, 3) == pytest.approx([1, 0, 0], abs=0.1)
    assert found.lengths[1] > 2 * found.lengths[0]
    assert evaluate(found.text(), at) == pytest.approx(found.values(at, 3))


def test_the_remainder_of_points_that_do_not_agree_is_none():
    columns, left = {"u": np.arange(12.0) / 4}, np.array([1.0, -1] * 6)
    assert fit_remainder(columns, left, np.ones(12)) == Remainder()
    assert (Remainder().values(columns, 12) == 0).all()
    assert evaluate(Remainder().text(), columns) == 0


def test_errors_of_left_out_points_decide_about_the_remainder():
    columns = {"u": np.linspace(-2, 2, 15)}
    left, weights = np.sin(2 * columns["u"]), np.linspace(0.5, 2, 15)
    found = fit_remainder(columns, left, weights)

    def without(lengths, noise):
        errors = 0.0
        for i in range(15):
            kept = np.arange(15) != i
            u = columns["u"]
            near = np.exp(-0.5 * ((u[:, None] - u[None]) / lengths) ** 2)
            solved = np.linalg.solve(near[np.ix_(kept, kept)] + noise * np.diag(weights.mean() / weights[kept]), left[kept])
            errors += weights[i] * (left[i] - near[i, kept] @ solved) ** 2
        return errors

    errors = {
        (length, noise): without(length, noise) for length in (0.4, 0.7, 1.2, 2.0, 4.0) for noise in (0.03, 0.1, 0.3, 1.0, 3.0)
    }
    assert found.lengths == (min(errors, key=errors.get)[0],)


@needs_operon
@given(rngs)
def test_corrections_keep_the_ratio_to_the_base_within_that_of_the_training_points(rng):
    x = {"u": rng.uniform(1, 9, 20)}
    data = Table.of_columns({**x, "time": 2 * x["u"] * rng.uniform(0.5, 2, 20)}).observations("time", ["u"])
    form, quick = SemiEmpirical("a*u", {"a": (0.1, 10)}), Settings(population=20, generations=2)
    made = trial(form, data, {"a": 2.0}, case=2, space="log", seed=1, settings=quick)
    far = {"u": np.array([1e-3, 1.0, 1e6])}
    ratio, known = made(far) / (2 * far["u"]), data.y / (2 * data.x["u"])
    assert (ratio >= known.min() * (1 - 1e-12)).all()
    assert (ratio <= known.max() * (1 + 1e-12)).all()


@pytest.fixture(scope="module")
def halves():
    data = transpose()
    index = np.arange(len(data))
    return data.take(index % 2 == 0), data.take(index % 2 == 1)


@needs_operon
@pytest.mark.parametrize("case", [1, 2, *(pytest.param(case, marks=pytest.mark.slow) for case in (3, 4))])
def test_each_case_reduces_the_held_out_error_of_the_transpositions(halves, case):
    train, held = halves
    parameters = TRANSPOSE.fit(train, loss="log", quiet=True).parameters
    made = [trial(TRANSPOSE, train, parameters, case=case, space="log", seed=seed, settings=QUICK) for seed in range(5)]
    base = np.mean((TRANSPOSE(held.x, parameters) - held.y) ** 2)
    assert np.mean((ensemble(made, held.x) - held.y) ** 2) < base
    for one in made:
        written = evaluate(one.text(), held.x)
        assert written == pytest.approx(one(held.x), rel=1e-6)


@needs_operon
@pytest.mark.filterwarnings("ignore")
def test_the_chosen_correction_is_a_model_file_that_predicts_the_median(halves, tmp_path):
    train, held = halves
    options = {"formula": TRANSPOSE.formula, "bounds": TRANSPOSE.bounds, "loss": "log"}
    progress = Mock()
    model = fit_mecp(train, **options, case=2, space="log", trials=5, population=60, generations=8, progress=progress)
    assert sum(call.args[1] for call in progress.start.call_args_list) == progress.advance.call_count > 5
    model.save(tmp_path / "m.json")
    again = type(model).load(tmp_path / "m.json")
    assert len(again.members) == 5
    interval = again.predict(train.x)
    assert np.mean((interval.low < train.y) & (train.y < interval.high)) > 0.9
    assert again.apply(held.x) == pytest.approx(model.apply(held.x))
    base = TRANSPOSE(held.x, {t.expression: t.coefficient for t in model.terms})
    assert np.mean((model.apply(held.x) - held.y) ** 2) < np.mean((base - held.y) ** 2)


@needs_operon
@pytest.mark.filterwarnings("ignore")
def test_a_model_without_error_is_left_alone():
    rng = np.random.default_rng(0)
    x = np.linspace(1, 10, 24)
    data = Table.of_columns({"x": x, "time": 3 * x**1.5 * rng.normal(1, 0.02, 24)}).observations("time", ["x"])
    options = {"formula": "a*x^b", "bounds": {"a": (0.1, 10), "b": (0.5, 3)}, "loss": "log"}
    model = fit_mecp(data, **options, case=2, space="auto", population=40, generations=5)
    assert not model.members
    assert model.quality["corrected"] == 0
    assert model.apply({"x": [4.0]})[0] == pytest.approx(24, rel=0.05)


def test_the_simplest_candidate_within_a_standard_error_of_the_best_is_chosen():
    points = np.full(4, 5.0)
    close = {(1, "raw"): np.array([0.5, 0.5, 0.5, 0.5]), (2, "log"): np.array([0.4, 0.7, 0.4, 0.7])}
    assert choose(close, points) == (2, "log")
    clear = {**close, (2, "log"): np.array([0.8, 0.9, 0.8, 0.9])}
    assert choose(clear, points) == (1, "raw")
    few = {(2, "log"): np.array([0.9, 0.3]), (4, "log"): np.array([0.2, 0.3])}
    assert choose(few, np.array([1.0, 100.0])) == (2, "log")  # what few held-out points say counts little


def test_a_split_on_which_the_base_happens_to_be_right_does_not_decide():
    points, base = np.array([5.0, 5, 5, 1]), np.array([1.0, 1.2, 0.8, 1e-4])
    halved = np.array([0.5, 0.6, 0.4, 1e-3])  # ten times the base's error where that is next to nothing
    ratio = np.average(relative(halved, base, points), weights=points)
    assert ratio == pytest.approx((5 * 1.5 + 1e-3) / (5 * 3 + 1e-4))
    assert ratio < 0.51 < 0.85 < np.average(halved / base, weights=points)


def test_a_function_that_no_term_holds_is_refused():
    with pytest.raises(ValueError, match="no function"):
        summands("sin(u)")


def test_a_missing_pyoperon_is_named_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyoperon.sklearn", None)
    with pytest.raises(ToolNotFoundError, match=r"convolver\[gp\]"):
        evolve({"u": np.arange(4.0)}, np.arange(4.0), np.ones(4), seed=0, settings=Settings())


def test_wrong_options_and_values_are_named():
    data = Table.of_columns({"x": np.arange(1.0, 9), "time": np.arange(1.0, 9)}).observations("time", ["x"])
    with pytest.raises(ModelError, match="case is 1"):
        fit_mecp(data, formula="a*x", bounds={"a": (0, 2)}, case=7)
    with pytest.raises(ModelError, match="needs y"), warnings.catch_warnings():
        fit_mecp(data, formula="a*x*y", bounds={"a": (0, 2)}, case=2, space="log")

"""The model artifact, expressions, the fit entry and the command line."""

import functools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import ChecksumError, ExtrapolationWarning, ModelError, SchemaError
from convolver.modeling.base import fit
from convolver.modeling.expression import evaluate, names_of, split_terms
from convolver.modeling.model_artifact import Lookup, Model, Term
from convolver.modeling.table import Table


@given(st.floats(0.5, 50), st.floats(0.5, 50))
def test_an_expression_means_what_python_means(a, b):
    assert evaluate("a^2/b - log2(a)*max(a, b)", {"a": a, "b": b}) == pytest.approx(a**2 / b - np.log2(a) * max(a, b))


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "a.b", "[1]", "lambda: 1", "open(a)", "'x'", "a if b else c", "True", "(a", "log(a, b=1)", "x" * 30_000],
)
def test_an_expression_reaches_nothing_but_arithmetic(text):
    with pytest.raises(ModelError):
        names_of(text)


def test_huge_powers_are_infinite_not_endless():
    assert evaluate("9^9^9^9", {}) == np.inf


def test_a_formula_is_split_at_its_sums():
    assert split_terms("1 + N^3/P - (L - 2)*B") == ["1", "N ** 3 / P", "-((L - 2) * B)"]


def amdahl_table():
    p = np.array([1.0, 2, 4, 8, 16])
    return Table.of_columns({"P": p, "time": 3 + 80 / p}, unit="s")


def test_fit_gives_terms_domain_quality_baselines_and_provenance():
    table = amdahl_table()
    model = fit("analytic", table, target="time", features=["P"], formula="1 + 1/P + P")
    assert {t.expression: t.coefficient for t in model.active} == pytest.approx({"1": 3, "1 / P": 80})
    assert model.domain == {"P": (1, 16)}
    assert model.quality["max_relative_error"] < 1e-9
    assert {b.name for b in model.baselines} >= {"power law", "Amdahl", "last point"}
    assert model.provenance["inputs"]["table"] == table.id
    assert model.unit == "s"


def test_a_prediction_outside_the_data_warns_and_is_marked():
    model = fit("analytic", amdahl_table(), target="time", features=["P"], formula="1 + 1/P")
    with pytest.warns(ExtrapolationWarning, match=r"1 of 2 points .*P 1\.\.16"):
        result = model.predict({"P": [4, 64]})
    assert result.values == pytest.approx([23, 4.25])
    assert result.outside.tolist() == [False, True]


def test_a_model_file_keeps_every_number_and_its_id(tmp_path):
    model = fit("analytic", amdahl_table(), target="time", features=["P"], formula="1 + 1/P")
    model.save(tmp_path / "m.model.json")
    again = Model.load(tmp_path / "m.model.json")
    assert again.id == model.id
    assert again.predict({"P": [3]}).high == pytest.approx(model.predict({"P": [3]}).high, rel=0)


def test_a_changed_or_foreign_model_file_is_refused(tmp_path):
    path = tmp_path / "m.model.json"
    fit("power-law", amdahl_table(), target="time", features=["P"]).save(path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "kind": "other"}))
    with pytest.raises(ChecksumError):
        Model.load(path)
    wrong = {k: v for k, v in document.items() if k not in ("id", "formula")} | {"formula": "__import__('os')"}
    path.write_text(json.dumps(wrong))
    with pytest.raises(SchemaError, match="no valid model"):
        Model.load(path)


@pytest.mark.slow
def test_intervals_cover_new_observations_at_about_their_level():
    rng = np.random.default_rng(5)
    hits = []
    for _ in range(60):
        p = np.repeat([1.0, 2, 4, 8, 16], 4)
        y = (3 + 80 / p) * rng.normal(1, 0.05, len(p))
        model = fit("analytic", {"P": p, "time": y}, target="time", features=["P"], formula="1 + 1/P", center="none")
        truth = (3 + 80 / p) * rng.normal(1, 0.05, len(p))
        result = model.predict({"P": p}, 0.9)
        hits.append(np.mean((truth >= result.low) & (truth <= result.high)))
    assert 0.86 < np.mean(hits) < 0.94


def test_an_empty_model_predicts_nothing_and_says_so():
    rng = np.random.default_rng(0)
    data = {"P": rng.uniform(1, 2, 30), "time": rng.normal(0, 1, 30)}
    model = fit("analytic", data, target="time", features=["P"], formula="P", weights="none", rules="drop")
    assert model.empty
    assert "empty model" in model.equation()
    with pytest.raises(ModelError, match="is empty"):
        model.apply({"P": [1]})


def test_outliers_do_not_have_terms_dropped_that_explain_the_other_points():
    rng = np.random.default_rng(0)
    n = np.repeat([100.0, 120, 128, 144, 160], 5)
    latency = np.tile([0, 1e-6, 2e-6, 4e-6, 8e-6], 5)
    y = (1e-9 * n**3 + 60 * latency) * rng.normal(1, 0.01, 25)
    strange = (n == 128) | ((n == 144) & (latency == 8e-6))
    data = {"N": n, "latency": latency, "time": np.where(strange, 1.5 * y, y)}
    options = {"features": ["N", "latency"], "formula": "N^3 + latency", "center": "none"}
    bent = fit("analytic", data, target="time", **options)
    assert [term.expression for term in bent.active] == ["N ** 3"]
    model = fit("analytic", data, target="time", **options, drop_outliers=5)
    assert [term.coefficient for term in model.active] == pytest.approx([1e-9, 60], rel=0.05)
    assert model.quality["outliers_removed"] == 6
    assert model.quality["points"] == 25  # the quality is that of all points
    assert "outlier, not fitted: N 128, latency 0" in model.notes


def test_equations_subtract_and_name_the_form_that_an_ensemble_corrects():
    terms = tuple(Term(expression=e, coefficient=c) for e, c in (("1/P", -2.0), ("1", -0.5), ("P", 3.25)))
    model = Model(name="m", kind="analytic", target="time", features=("P",), terms=terms)
    assert model.equation() == "time = -2 * 1/P - 0.5 + 3.25 * P"
    corrected = Model(
        name="m", kind="mecp", target="time", features=("P",), terms=(), formula="a*P", members=("2*P + exp(P)", "2*P")
    )
    assert corrected.equation() == "time = median of 2 corrections (members of the file) of a*P"


def test_a_lookup_gives_a_feature_its_default():
    terms = (Term(expression="LF/P", coefficient=10.0),)
    lookup = Lookup(of="P", points=((4.0, 1.0), (8.0, 0.5)))
    model = Model(name="m", kind="linear", target="T", features=("P", "LF"), terms=terms, tables={"LF": lookup})
    assert model.apply({"P": [4, 6]}) == pytest.approx([2.5, 1.25])
    assert model.apply({"P": [4], "LF": [2]}) == pytest.approx([5])


def test_a_missing_feature_and_an_unknown_kind_are_named():
    model = fit("power-law", amdahl_table(), target="time", features=["P"])
    with pytest.raises(ModelError, match="needs P"):
        model.apply({"N": [1]})
    with pytest.raises(ModelError, match="use one of"):
        fit("oracle", amdahl_table(), target="time", features=["P"])


@pytest.fixture
def run(convolver):
    return functools.partial(convolver, "model")


def test_the_command_line_fits_applies_shows_and_converts(tmp_path, run):
    amdahl_table().save(tmp_path / "runs.csv")
    fitted = run(
        "fit", "runs.csv", "-k", "analytic", "-y", "time", "-x", "P", "-s", "formula=1 + 1/P", "-o", "m.json", cwd=tmp_path
    )
    assert fitted.returncode == 0, fitted.stderr
    assert "Wrote m.json" in fitted.stderr
    assert "80" in fitted.stdout
    applied = run("apply", "m.json", "P=4,64", "--json", cwd=tmp_path)
    rows = json.loads(applied.stdout)
    assert rows[1]["time"] == pytest.approx(4.25)
    assert rows[1]["outside"]
    assert "Amdahl" in rows[0]["baselines"]
    assert "outside the data" in applied.stderr
    assert json.loads(run("show", "m.json", "--json", cwd=tmp_path).stdout)["kind"] == "analytic"
    assert run("convert", "runs.csv", "runs.jsonl", cwd=tmp_path).returncode == 0
    drawn = run("residuals", "m.json", "runs.csv", "-o", "m.svg", cwd=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    assert "predicted" in (tmp_path / "m.svg").read_text()
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 5


def test_the_command_line_refuses_to_overwrite_and_bad_words(tmp_path, run):
    amdahl_table().save(tmp_path / "runs.csv")
    again = run("convert", "runs.csv", "runs.csv", cwd=tmp_path)
    assert again.returncode == 2
    assert "--force" in again.stderr
    fit("power-law", amdahl_table(), target="time", features=["P"]).save(tmp_path / "m.json")
    assert run("apply", "m.json", "P", cwd=tmp_path).returncode == 2
    assert run("apply", "m.json", "N=2", cwd=tmp_path).returncode == 2
    for value in ("abc", "4,b", "inf"):
        done = run("apply", "m.json", f"P={value}", cwd=tmp_path)
        assert (done.returncode, "The value of P is no number" in done.stderr) == (2, True)


def test_options_of_the_command_line_may_be_numbers_lists_and_mappings():
    from convolver.cli.model import parse_pairs

    given = parse_pairs(["bounds=g:1e-9:1e-3,h:1:1.5", "fixed=f:4965", "trials=5", "formula=a*max(x,1)", "quick=true", "P=4,9"])
    assert given["bounds"] == {"g": [1e-9, 1e-3], "h": [1, 1.5]}
    assert given["fixed"] == {"f": 4965}
    assert (given["trials"], given["formula"], given["quick"], given["P"]) == (5, "a*max(x,1)", True, [4, 9])


def test_a_plain_csv_has_the_features_and_the_target_as_columns(tmp_path, run):
    rows = "\n".join(f"host,{p},{1 + 8 / p}" for p in (1, 2, 4, 8))
    (tmp_path / "plain.csv").write_text(f"where,P,time\n{rows}\n")
    words = ["-k", "analytic", "-y", "time", "-x", "P", "-s", "formula=1 + 1/P", "-o", "plain.json", "--json"]
    done = run("fit", "plain.csv", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert run("check", "plain.json", "plain.csv", cwd=tmp_path).returncode == 0
    wrong = run("fit", "plain.csv", "-k", "analytic", "-y", "energy", "-x", "P", "-s", "formula=P", cwd=tmp_path)
    assert "no column 'energy' of numbers; its columns of numbers are: P, time" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-k", "oracle"), "'oracle' is unknown"),
        (("-k", "power-law", "-y", "tiem"), "'tiem' is neither"),
        (("-k", "power-law", "-x", "Q"), "'Q' is neither"),
        (("-k", "power-law", "-s", "a=1"), "has no option 'a'"),
        (("-k", "power-law", "--center", "middle"), "'middle' is unknown"),
        (("-k", "power-law", "--unit", "P=s**2"), "is no unit"),
        (("-k", "mecp"), "needs formula and bounds"),
        (("-k", "linear"), "L, BW is missing"),
        (("-k", "analytic", "-s", "formula=1 + P^"), "is not an expression"),
        (("-k", "analytic", "-s", "formula=1 + Q"), "needs Q, which is not among P"),
    ],
)
def test_wrong_words_of_a_fit_are_wrong_usage(words, said, convolver, tmp_path):
    amdahl_table().save(tmp_path / "runs.csv")
    done = convolver("model", "fit", "runs.csv", "-y", "time", "-x", "P", *words, cwd=tmp_path)
    assert said in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize(("point", "said"), [("Q=4", "no feature 'Q'"), ("P=4 Q=4", "no feature 'Q'; it has P")])
def test_a_point_of_other_features_is_wrong_usage(point, said, convolver, tmp_path):
    amdahl_table().save(tmp_path / "runs.csv")
    convolver("model", "fit", "runs.csv", "-y", "time", "-x", "P", "-k", "power-law", "-o", "m.json", cwd=tmp_path, code=0)
    assert said in convolver("model", "apply", "m.json", *point.split(), cwd=tmp_path, code=2).stderr


def test_data_that_a_model_cannot_fit_are_no_wrong_usage(convolver, tmp_path):
    (tmp_path / "runs.csv").write_text("P,time\n1,0\n2,3\n4,5\n")
    done = convolver("model", "fit", "runs.csv", "-y", "time", "-x", "P", "-k", "power-law", cwd=tmp_path)
    assert "above 0" in done.stderr
    assert done.returncode == 5

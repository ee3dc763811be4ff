"""Equation 2 for each of a few paths: known paths are found over P, counted by evidence, and predict a P that was not swept."""

import numpy as np
import pytest

from convolver.errors import ExtrapolationWarning, ModelError
from convolver.modeling.base import fit
from convolver.modeling.model_artifact import Model

COUNTS = (4, 9, 16, 25, 36)
LOCALITY = {4: 1.0, 9: 1.02, 16: 1.05, 25: 1.08, 36: 1.11}


def hidden(p, latency, bandwidth, factor):
    """SP's two outer paths: one with all its messages, one that computes longer while they pass."""
    q = np.sqrt(p)
    messages = 3.9 / p * factor + 30 * (q - 1) * latency + 2e7 * (1 / q - 1 / p) / bandwidth
    return np.maximum(messages, 4.15 / p * factor + 1.5 * p * latency + 8e5 / bandwidth)


def one_path(p, latency, bandwidth, factor):
    return 4 / p * factor + 30 * np.sqrt(p) * latency + 2e7 / np.sqrt(p) / bandwidth


def swept(law, factors=LOCALITY, count=60):
    rng = np.random.default_rng(0)
    p = np.repeat(np.array(COUNTS, dtype=float), count)
    latency, bandwidth = 10 ** rng.uniform(-6, -4, len(p)), 10 ** rng.uniform(7.3, 9, len(p))
    factor = np.array([factors[int(one)] for one in p])
    return {"P": p, "L": latency, "BW": bandwidth, "time": law(p, latency, bandwidth, factor)}


def fitted(columns, **options):
    chosen = {"locality": LOCALITY, "most": 2, **options}
    return fit("scaled-paths", columns, target="time", features=["P", "L", "BW"], center="none", **chosen)


@pytest.fixture(scope="module")
def model():
    return fitted(swept(hidden))


def test_both_paths_and_their_scaling_are_found(model):
    assert model.quality["paths"] == 2
    found = {term.expression: term.coefficient for term in model.terms}
    assert found["alpha_1_0"] == pytest.approx(3.9, rel=1e-6)
    assert (found["beta_1_0"], found["beta_1_1"]) == pytest.approx((-30, 30), rel=1e-4)
    assert (found["gamma_1_0"], found["gamma_1_1"]) == pytest.approx((-2e7, 2e7), rel=1e-5)
    assert found["alpha_2_0"] == pytest.approx(4.15, rel=1e-6)
    assert max(row["model_max_relative_error"] for row in model.validation) < 1e-5


def test_one_line_scaled_with_p_is_worse(model):
    line = fit("linear", swept(hidden), target="time", features=["P", "L", "BW"], center="none", locality=LOCALITY)
    assert line.quality["max_relative_error"] > 0.01 > 100 * model.quality["max_relative_error"]


@pytest.mark.parametrize(("count", "factor"), [(20, None), (64, 1.17)])
def test_a_count_that_was_not_swept_is_predicted_and_outside_is_reported(model, tmp_path, count, factor):
    model.save(tmp_path / "m.model.json")
    point = {"P": count, "L": np.array([2e-6, 9e-5]), "BW": np.array([9e8, 3e7]), **({"LF": factor} if factor else {})}
    if factor:
        with pytest.warns(ExtrapolationWarning):
            result = Model.load(tmp_path / "m.model.json").predict(point)
    else:
        result = Model.load(tmp_path / "m.model.json").predict(point)
    between = factor or np.interp(count, list(LOCALITY), list(LOCALITY.values()))
    assert result.values == pytest.approx(hidden(count, point["L"], point["BW"], between), rel=1e-4)
    assert result.outside.all() == (factor is not None)


def test_one_path_is_enough_where_nothing_is_hidden():
    assert fitted(swept(one_path)).quality["paths"] == 1


def test_intervals_hold_what_left_out_counts_teach():
    noise = dict(zip(COUNTS, np.random.default_rng(1).normal(1, 0.03, len(COUNTS)), strict=True))
    columns = swept(one_path)
    columns["time"] *= np.array([noise[int(p)] for p in columns["P"]])
    model = fitted(columns, paths=1)
    result = model.predict({"P": 20, "L": 2e-5, "BW": 1e8})
    assert result.low[0] < one_path(20, 2e-5, 1e8, np.interp(20, COUNTS, list(LOCALITY.values()))) < result.high[0]
    assert 0.005 < model.scatter < 0.2


def test_bursts_that_were_scaled_by_the_factor_give_the_same_model(model):
    corrected = fitted(swept(hidden, dict.fromkeys(COUNTS, 1.0)), corrected=True, paths=2)
    points = {name: values for name, values in swept(hidden).items() if name != "time"}
    assert corrected.apply(points) == pytest.approx(model.apply(points), rel=1e-6)


def test_two_process_counts_are_refused():
    columns = {name: values[:120] for name, values in swept(hidden).items()}
    with pytest.raises(ModelError, match="at least three"):
        fitted(columns)

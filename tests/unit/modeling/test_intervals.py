"""Intervals from left-out points: the law of ranks, and that they hold the stated share of fresh points from known truths."""

import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.modeling.base import fit
from convolver.modeling.cross_validation import LeftOut, limits, spread
from convolver.modeling.model_artifact import Model

LEVELS = (0.8, 0.9)
"""Shares that are checked; with 100 left-out points the true coverage scatters by some 4 % about them."""


@given(st.lists(st.floats(-5, 5), max_size=80), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_the_spread_bounds_its_share_of_the_residuals_and_grows_with_the_level(residuals, level, other):
    found = spread(residuals, level)
    if np.isnan(found):
        assert (len(residuals) + 1) * level > len(residuals)
        return
    assert np.mean(np.abs(residuals) <= found) >= level
    assert not spread(residuals, min(level, other)) > found


def test_a_level_of_95_percent_needs_19_points():
    residuals = np.linspace(-1, 0.9, 19)
    assert spread(residuals, 0.95) == 1
    assert np.isnan(spread(residuals[:-1], 0.95))


@given(st.lists(st.floats(-2, 2), min_size=19, max_size=40), st.floats(-1e6, 1e6))
def test_an_interval_contains_its_value_and_is_nowhere_negative_in_width(residuals, value):
    low, high = limits([LeftOut(residuals=tuple(residuals))], {}, np.array([value]), 0.95)
    assert low[0] <= value <= high[0]


def swept(seed, count):
    """Times of two process counts, the longer of two paths and a third path, with scatter of 1 and 4 %."""
    rng = np.random.default_rng(seed)
    latency, bandwidth = 10 ** rng.uniform(-6, -4, 2 * count), 10 ** rng.uniform(7.3, 9, 2 * count)
    processes = np.repeat([4.0, 9.0], count)
    hiding = np.maximum(0.5 + 100 * latency + 1e6 / bandwidth, 0.42 + 160 * latency + 9e6 / bandwidth)
    seconds = np.where(processes == 4, hiding, 0.3 + 50 * latency + 2e6 / bandwidth)
    scatter = rng.normal(0, np.where(processes == 4, 0.01, 0.04))
    return {"P": processes, "L": latency, "BW": bandwidth, "time": seconds * np.exp(scatter)}


def test_intervals_of_paths_hold_their_share_of_fresh_points_at_each_process_count(tmp_path):
    fit("paths", swept(0, 100), target="time", features=["P", "L", "BW"], center="none", paths=2).save(tmp_path / "m.json")
    model = Model.load(tmp_path / "m.json")
    fresh = swept(1, 1000)
    widths = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for level in LEVELS:
            found = model.predict(fresh, level)
            inside = (found.low <= fresh["time"]) & (fresh["time"] <= found.high)
            for processes in (4, 9):
                assert inside[fresh["P"] == processes].mean() == pytest.approx(level, abs=0.08)
            widths.append((found.high - found.low) / found.values)
        assert (found.low <= found.values).all()
        assert (found.values <= found.high).all()
        assert np.isnan(model.predict({"P": [16.0], "L": [1e-5], "BW": [1e8]}).high).all()
    assert (widths[1] > widths[0]).all()
    assert np.median(widths[1][fresh["P"] == 9]) > 3 * np.median(widths[1][fresh["P"] == 4])


def measured(seed, count):
    rng = np.random.default_rng(seed)
    x, y = 10 ** rng.uniform(0, 2, count), 10 ** rng.uniform(0, 1, count)
    # the base model lacks what y does
    return {"x": x, "y": y, "time": 2 * x**1.2 * y**0.3 * np.exp(rng.normal(0, 0.08, count))}


needs_operon = pytest.mark.skipif(find_spec("pyoperon") is None, reason="needs pyoperon")
BASE = {"formula": "a*x^b", "bounds": {"a": (0.1, 10), "b": (0.5, 3)}, "loss": "log", "population": 40, "generations": 4}


@pytest.mark.slow
@needs_operon
def test_intervals_of_a_correction_hold_their_share_of_fresh_points():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {**BASE, "trials": 5, "case": 2, "space": "log"}
        model = fit("mecp", measured(0, 60), target="time", features=["x", "y"], center="none", **options)
        fresh = measured(1, 2000)
        assert model.quality["corrected"] == 1
        for level in LEVELS:
            found = model.predict(fresh, level)
            inside = (found.low <= fresh["time"]) & (fresh["time"] <= found.high)
            assert inside.mean() == pytest.approx(level, abs=0.1)
            assert (found.low < found.values).all()
            assert (found.values < found.high).all()


@needs_operon
def test_a_model_left_alone_has_the_intervals_of_its_base_model():
    data = {name: values for name, values in measured(0, 60).items() if name != "y"}
    data["time"] = 2 * data["x"] ** 1.2 * np.exp(np.random.default_rng(5).normal(0, 0.05, 60))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit("mecp", data, target="time", features=["x"], center="none", **{**BASE, "case": 2, "space": "auto"})
    assert model.quality["corrected"] == 0
    assert len(model.left_out[0].residuals) == 60
    assert spread(model.left_out[0].residuals, 0.9) == pytest.approx(1.645 * 0.05, rel=0.3)

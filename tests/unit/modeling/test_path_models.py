"""Times as the longest of a few paths: known paths are found, the number by evidence, and the artifact keeps them."""

import json

import numpy as np
import pytest

from convolver.errors import ModelError
from convolver.modeling.base import fit
from convolver.modeling.model_artifact import Model
from convolver.modeling.scaled_paths import fit_paths


def samples(seed, *paths, count=120):
    rng = np.random.default_rng(seed)
    latency, bandwidth = 10 ** rng.uniform(-6, -4, count), 10 ** rng.uniform(7.3, 9, count)
    return latency, bandwidth, np.max([a + b * latency + g / bandwidth for a, b, g in paths], axis=0)


HIDDEN = (0.5, 100.0, 1e6), (0.42, 160.0, 9e6)


def test_the_paths_of_a_program_that_hides_transfers_are_found_exactly():
    found = fit_paths(*samples(0, *HIDDEN))
    assert len(found.fits) == 2
    for fitted, (alpha, beta, gamma) in zip(found.fits, sorted(HIDDEN), strict=True):
        assert (fitted["alpha"], fitted["beta"], fitted["gamma"]) == pytest.approx((alpha, beta, gamma), rel=1e-6)
    latency, bandwidth, seconds = samples(1, *HIDDEN)
    paths = [(one["alpha"], one["beta"], one["gamma"]) for one in found.fits]
    assert np.max([a + b * latency + g / bandwidth for a, b, g in paths], axis=0) == pytest.approx(seconds, rel=1e-6)


def test_one_path_is_enough_where_nothing_is_hidden():
    assert len(fit_paths(*samples(0, HIDDEN[0])).fits) == 1


def test_the_artifact_predicts_each_process_count_by_its_own_paths(tmp_path):
    columns = {"P": [], "L": [], "BW": [], "time": []}
    for count, paths in ((4, HIDDEN), (9, HIDDEN[:1])):
        latency, bandwidth, seconds = samples(count, *paths)
        for name, values in (("P", [count] * len(seconds)), ("L", latency), ("BW", bandwidth), ("time", seconds)):
            columns[name] += list(values)
    model = fit("paths", columns, target="time", features=["P", "L", "BW"], center="none")
    assert (model.quality["paths_P4"], model.quality["paths_P9"]) == (2, 1)
    model.save(tmp_path / "m.model.json")
    point = {"P": [4.0, 9.0], "L": [1e-5, 1e-5], "BW": [1e8, 1e8]}
    longest = max(a + b * 1e-5 + g / 1e8 for a, b, g in HIDDEN)
    assert Model.load(tmp_path / "m.model.json").apply(point) == pytest.approx([longest, 0.5 + 1e-3 + 1e-2])


def test_a_count_that_was_not_swept_has_no_number(tmp_path, convolver):
    latency, bandwidth, seconds = samples(0, *HIDDEN)
    columns = {"P": [4] * len(seconds), "L": latency, "BW": bandwidth, "time": seconds}
    fit("paths", columns, target="time", features=["P", "L", "BW"], center="none").save(tmp_path / "m.model.json")
    done = convolver("model", "apply", "m.model.json", "P=16", "L=1e-5", "BW=1e8", "--json", cwd=tmp_path, code=0)
    row = json.loads(done.stdout)[0]
    assert row["time"] is None
    assert row["outside"]
    assert "outside the data" in done.stderr


def test_too_few_samples_are_refused():
    with pytest.raises(ModelError, match="too few"):
        fit_paths(*samples(0, *HIDDEN, count=6))

"""The validation table of linear models: each P alone, all P together, each P left out; on real sweeps and new networks."""

import json
from pathlib import Path

import numpy as np
import pytest

from convolver.modeling.base import fit
from convolver.modeling.model_artifact import Model
from convolver.modeling.table import Table

EXAMPLES = Path(__file__).parents[3] / "examples"
FACTORS = {4: 1, 9: 1.02564, 16: 1.05192, 25: 1.08611, 36: 1.12217, 49: 1.14779}
"""Of SP's critical path, as `convolver model sweep` says them."""
KINDS = ("linear", "scaled-paths")
RANGES = {"L": (1e-6, 1e-4), "BW": (2e7, 1e9)}


def swept(changed=None, by=1.0):
    """Times of a program whose coefficients are simple functions of P; ``changed`` is a P whose times are others."""
    rng = np.random.default_rng(0)
    p = np.repeat([4.0, 9, 16, 25, 36], 40)
    drawn = {name: np.exp(rng.uniform(np.log(low), np.log(high), len(p))) for name, (low, high) in RANGES.items()}
    time = 4 / p + 30 * np.sqrt(p) * drawn["L"] + 2e7 / np.sqrt(p) / drawn["BW"]
    return {"P": p, **drawn, "time": np.where(p == (changed or 0), by, 1.0) * time}


def fitted(kind, columns, **options):
    return fit(kind, columns, target="time", features=["P", "L", "BW"], center="none", **options)


@pytest.fixture(scope="module", params=KINDS)
def sp(request):
    return fitted(request.param, EXAMPLES / "sp_sweep.parquet", locality=FACTORS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_known_law_leaves_no_error_in_any_column(kind):
    rows = fitted(kind, swept()).validation
    assert [(row["P"], row["samples"]) for row in rows] == [(p, 40) for p in (4, 9, 16, 25, 36)]
    names = ("own_max", "model_mean", "model_max", "left_out_max")
    assert max(row[f"{name}_relative_error"] for row in rows for name in names) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_out_is_not_in_the_fit(kind):
    rows = fitted(kind, swept(changed=25, by=3.0)).validation
    other = next(row for row in rows if row["P"] == 25)
    assert other["own_max_relative_error"] < 1e-6
    assert other["left_out_max_relative_error"] == pytest.approx(2 / 3, abs=1e-6)


def test_a_real_program_is_within_the_aim_over_all_its_process_counts(sp):
    assert max(row["model_max_relative_error"] for row in sp.validation) < 0.05
    assert sp.quality["max_relative_error"] == pytest.approx(max(row["model_max_relative_error"] for row in sp.validation))


def test_on_networks_that_were_not_swept_the_errors_are_alike(sp, tmp_path, convolver):
    sp.save(tmp_path / "sp.model.json")
    networks = EXAMPLES / "sp_other_networks.parquet"
    done = convolver("model", "check", "sp.model.json", networks, "--json", cwd=tmp_path, code=0)
    *rows, every = json.loads(done.stdout)
    held = Table.load(EXAMPLES / "sp_other_networks.parquet").observations("time", ["P", "L", "BW"], center="none")
    errors = np.abs(sp.apply(held.x) / held.y - 1)
    assert [row["P"] for row in rows] == [4, 9, 16, 25, 36, 49]
    assert [row["max_relative_error"] for row in rows] == pytest.approx([errors[held.x["P"] == row["P"]].max() for row in rows])
    assert (every["P"], every["samples"]) == (None, 1200)
    assert every["mean_relative_error"] == pytest.approx(errors.mean())
    assert every["max_relative_error"] < 0.05


def test_coefficients_of_a_real_program_that_are_not_significant_are_reported():
    model = fitted("linear", EXAMPLES / "sp_sweep.parquet", locality=FACTORS)
    assert {row["P"]: row["not_significant"] for row in model.validation if row["not_significant"]} == {4: "beta", 9: "beta"}


def test_functions_of_p_that_are_not_significant_stay_in_the_table_and_count_no_more():
    model = fitted("linear", EXAMPLES / "sp_sweep.parquet", locality=FACTORS, basis="paper")
    dropped = {term.expression: term.coefficient for term in model.terms if term.flag == "N.S., dropped"}
    assert dropped == {"L": 0.0}
    assert "L" not in {term.expression for term in model.active}
    assert any(note.startswith("beta: 1: not significant, p = 0.") for note in model.notes)


def test_the_table_is_kept_in_the_file_and_printed(sp, tmp_path, convolver):
    sp.save(tmp_path / "m.model.json")
    assert Model.load(tmp_path / "m.model.json").validation == sp.validation
    text = convolver("model", "show", "m.model.json", cwd=tmp_path, code=0).stdout
    assert "Each P alone" in text
    assert f"{100 * sp.validation[0]['model_max_relative_error']:.3f} %" in text
    assert ("N.S." in text) == (sp.kind == "linear")


def test_files_without_a_table_keep_their_id(tmp_path):
    columns = {"p": np.arange(2.0, 9), "time": 3 * np.arange(2.0, 9)}
    model = fit("power-law", columns, target="time", features=["p"])
    model.save(tmp_path / "m.model.json")
    assert "validation" not in json.loads((tmp_path / "m.model.json").read_text())
    assert Model.load(tmp_path / "m.model.json").id == model.id

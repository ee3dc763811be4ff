"""CPU ratios between pairs of machines: their statistics and the baseline beside them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.validating.campaign import Campaign, Condition, Program
from convolver.validating.machine_pairs import whole_machines
from tests.bench.campaign_results import ONE_FACTOR, pair_statistics


def row(program, predicted, measured, **fields):
    ends = {"low": 0.9 * predicted, "high": 1.1 * predicted}
    names = {"input": "", "origin": "own", "mode": "hybrid", "method": "model", "base": "a", "target": "b"}
    own = {"program": program, "predicted": predicted, "measured": measured, "error": predicted / measured - 1}
    return {**names, **ends, **own, **fields}


def test_states_of_the_base_are_no_machines():
    conditions = (Condition(name="here"), Condition(name="busy", loaded_cpus=1), Condition(name="there", profile="x", times="y"))
    campaign = Campaign(name="c", program=[Program(name="p", command=["p"])], condition=conditions)
    assert [one.name for one in whole_machines(campaign)] == ["here", "there"]


def test_the_interval_s_share_and_the_median_factor_are_counted():
    found = pair_statistics([row("a", 1.0, 1.05), row("b", 1.0, 2.0), row("c", 3.0, 3.0)])
    of_all = {entry["method"]: entry for entry in found if entry["origin"] == "all"}
    assert of_all["model"]["coverage"] == pytest.approx(2 / 3)
    assert of_all["model"]["error"]["worst"] == pytest.approx(0.5)
    assert of_all[ONE_FACTOR]["coverage"] is None
    assert of_all[ONE_FACTOR]["error"]["median"] == pytest.approx(1 / 3)  # 2 / 1.05, 2 / 2 and 2 / 3


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=20))
def test_exact_predictions_have_no_error_on_any_pair(ratios):
    rows = [row(str(i), one, one) for i, one in enumerate(ratios)]
    assert all(entry["error"]["worst"] == 0 for entry in pair_statistics(rows) if entry["method"] == "model")
    assert sum(
        entry["count"] for entry in pair_statistics(rows) if entry["origin"].startswith("half ") and entry["method"] == "model"
    ) == len(rows)

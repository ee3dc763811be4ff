"""CPU ratios between pairs of machines: their statistics and the baseline beside them."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.validating.campaign import Campaign, Condition, Program
from convolver.validating.predicting import whole_machines
from tests.bench.campaign_results import HALVES, ONE_FACTOR, half, machines_table, pair_statistics


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


def test_a_table_of_machines_has_each_ordered_pair_and_both_baselines():
    pairs = [
        row("a", 1.0, 2.0),
        row("d", 4.0, 2.0),
        *(row(name, value, 2.0, method="paper", low=None, high=None) for name, value in (("a", 3.0), ("d", 2.0))),
    ]
    times = [{"condition": name, "program": name, "method": "model", "error": -0.25} for name in ("a", "b")]
    columns, rows, values = machines_table(SimpleNamespace(rows=times, pairs=pairs), pair_statistics(pairs))
    assert [half(name) for name in ("a", "d")] == [HALVES[1], HALVES[0]]
    assert rows[0] == ["time on `a`", "25.0/25.0/25", "25.0/25.0/25", "", "", ""]
    assert rows[1] == ["ratio a / b", "75.0/75.0/100", "50.0/50.0/50", "0%", "0.0/0.0/0", "25.0/25.0/50"]
    assert len(columns) == len(rows[0])
    assert values == {"a_over_b": "75.0/75.0/100", "ratios_covered": "0 %", "ratios_better": "0"}

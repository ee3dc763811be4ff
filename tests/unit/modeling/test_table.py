"""The measurement table and its files."""

import json
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convolver.errors import FormatError, ModelError, NoiseWarning, SchemaError
from convolver.modeling.table import Table

numbers = st.floats(-1e12, 1e12, allow_nan=False)


def example():
    rows = []
    for p in (4, 8, 16):
        for n in (100, 200):
            for repetition in range(3):
                base = {"param.p": p, "param.n": n, "repetition": repetition, "callpath": "main->solve"}
                rows.append({**base, "metric": "time", "unit": "s", "value": n / p + 0.1 * repetition})
                rows.append({**base, "metric": "misses", "unit": "1", "value": n * p})
    return Table.of_rows(rows)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "json", "txt"])
def test_a_table_survives_each_format(tmp_path, ending):
    table = example()
    table.save(tmp_path / f"t.{ending}")
    again = Table.load(tmp_path / f"t.{ending}")
    for metric in table.metrics:
        want, have = (t.observations(metric, ["p", "n"], center="none") for t in (table, again))
        keys = [sorted(zip(o.x["p"], o.x["n"], o.y, strict=True)) for o in (want, have)]
        assert keys[0] == keys[1]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(1, 1e6), numbers), min_size=1, max_size=20))
def test_json_lines_round_trip_is_exact(tmp_path_factory, points):
    path = tmp_path_factory.mktemp("t") / "t.jsonl"
    table = Table.of_columns({"p": [p for p, _ in points], "time": [v for _, v in points]})
    table.save(path)
    again = Table.load(path).observations("time", ["p"], center="none")
    assert sorted(zip(again.x["p"], again.y, strict=True)) == sorted(points)


def test_a_point_is_the_median_of_its_repetitions():
    points = example().observations("time", ["p", "n"])
    assert len(points) == 6
    assert points.y[0] == pytest.approx(25.1)
    assert example().observations("time", ["p", "n"], center="minimum").y[0] == 25


def test_a_metric_of_the_same_run_can_be_a_feature():
    points = example().observations("time", ["p", "misses"], center="none")
    assert set(np.unique(points.x["misses"])) == {400, 800, 1600, 3200}


def test_unknown_names_are_errors_that_list_the_known_ones():
    with pytest.raises(ModelError, match=r"it has n, p, time, misses"):
        example().observations("energy", ["p"])
    with pytest.raises(SchemaError, match="value"):
        Table.of(pl.DataFrame({"p": [1]}))
    with pytest.raises(SchemaError, match=r"param\.NAME"):
        Table.of(pl.DataFrame({"p": [1], "value": [1.0]}))


def test_several_callpaths_must_be_chosen_from():
    both = Table.of_rows([{"param.p": 1, "value": 1, "callpath": "a"}, {"param.p": 1, "value": 2, "callpath": "b"}])
    with pytest.raises(ModelError, match="2 callpaths"):
        both.observations("<default>", ["p"])
    assert both.observations("<default>", ["p"], callpath="b").y == pytest.approx([2])


def test_extra_p_text_with_shared_points_regions_and_default_metric_is_read(tmp_path):
    text = "PARAMETER p\nPOINTS\t(1000) (2000)\n\nREGION met1\nDATA 4.1 3.9\nDATA 5\n# note\nREGION met2\nDATA 1\nDATA 2\n"
    (tmp_path / "a.txt").write_text(text)
    table = Table.load(tmp_path / "a.txt")
    assert table.observations("<default>", ["p"], callpath="met1").y == pytest.approx([4.0, 5])
    assert table.observations("<default>", ["p"], callpath="met2").x["p"].tolist() == [1000, 2000]


def test_extra_p_json_with_ids_is_read(tmp_path):
    pair = {"parameter_id": 1, "parameter_value": 4}
    document = {
        "parameters": [{"id": 1, "name": "p"}],
        "callpaths": [{"id": 1, "name": "sweep"}],
        "metrics": [{"id": 1, "name": "time"}],
        "coordinates": [{"id": 1, "parameter_value_pairs": [pair]}],
        "measurements": [
            {"id": i, "metric_id": 1, "callpath_id": 1, "coordinate_id": 1, "value": v} for i, v in ((1, 3), (2, 5))
        ],
    }
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert Table.load(tmp_path / "a.json").observations("time", ["p"]).y == pytest.approx([4])


def test_repetitions_spread_over_lines_are_numbered(tmp_path):
    line = '{"params":{"x":1,"y":1},"metric":"m","value":2}\n'
    (tmp_path / "a.jsonl").write_text(line * 3)
    assert Table.load(tmp_path / "a.jsonl").table["repetition"].to_list() == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("a.txt", "PARAMETER p\nPOINTS (1)\nDATA 1\nDATA 2\n", "line 4: more DATA"),
        ("a.txt", "PARAMETER p\nPOINTS (1 2)\nDATA 1\n", r"line 2: the point \(1 2\) does not have the 1 parameters"),
        ("a.txt", "NONSENSE\n", "line 1: unknown word"),
        ("a.jsonl", '{"value": 1}\n', "line 1"),
        ("a.jsonl", "not json\n", "line 1"),
        ("a.json", '{"parameters": []}', "Extra-P's JSON"),
        ("a.json", "[]", "Extra-P's JSON"),
        ("a.txt", "", "no measurement"),
        ("a.xls", "", "ending"),
        ("a.csv", "a,b\n1,2\n", "value"),
        ("a.csv", "value,param.p\nmany,2\n", "no number"),
    ],
)
def test_a_broken_file_is_a_format_error_that_says_where(tmp_path, name, text, match):
    (tmp_path / name).write_text(text)
    with pytest.raises(FormatError, match=match):
        Table.load(tmp_path / name)


def test_text_format_refuses_regions_with_different_points(tmp_path):
    rows = [{"param.p": 1, "value": 1, "callpath": "a"}, {"param.p": 2, "value": 2, "callpath": "b"}]
    with pytest.raises(ModelError, match="JSON Lines"):
        Table.of_rows(rows).save(tmp_path / "t.txt")


def test_repetitions_that_look_like_different_points_are_warned_of():
    slow = [{"param.p": 2.0, "metric": m, "value": v, "repetition": r} for r in range(6) for m, v in (("time", 1.0), ("L", 5e-6))]
    fast = [{**row, "value": row["value"] / 10, "repetition": row["repetition"] + 6} for row in slow]
    with pytest.warns(NoiseWarning, match="L differs 10 times among repetitions of one p"):
        Table.of_rows(slow + fast).observations("time", ["p", "L"], center="minimum")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        disturbed = [*slow, {**slow[1], "value": 1e-3, "repetition": 6}, {**slow[0], "repetition": 6}]
        Table.of_rows(disturbed).observations("time", ["p", "L"], center="minimum")
        Table.of_rows(slow + fast).observations("time", ["p", "L"], center="none")

"""Every verb that shows a table prints it as JSON and as CSV, and its curves in one line."""

import csv
import io
import json

import pytest

from convolver.machine.catalog import find_machine, list_machines
from convolver.reporting.machine_tables import BARS, sparkline


@pytest.fixture(scope="module")
def printed(convolver):
    def run(*words: str) -> str:
        result = convolver(*words)
        assert result.returncode in (0, 4), result.stderr
        return result.stdout

    return run


@pytest.mark.parametrize("words", [("machine", "list"), ("machine", "check", "server-hbm"), ("doctor",)])
def test_csv_has_the_rows_of_the_json(words, printed):
    document = json.loads(printed(*words, "--json"))
    rows = document if isinstance(document, list) else document.get("findings") or document.get("checks")
    read = list(csv.DictReader(io.StringIO(printed(*words, "--csv"))))
    assert len(read) == len(rows)
    assert set(read[0]) >= {name for name, value in rows[0].items() if not isinstance(value, dict)}


def test_info_names_every_value_of_a_machine(printed):
    path = str(next(entry.path for entry in list_machines() if entry.name == "server-hbm"))
    read = {row["name"]: row["value"] for row in csv.DictReader(io.StringIO(printed("info", path, "--csv")))}
    document = json.loads(printed("info", path, "--json"))
    assert read["id"] == document["id"]
    assert read["levels.0.level"] == "L1"
    assert set(document) - {"levels", "inputs", "totals"} <= set(read)


def test_kinds_of_models_are_rows(printed):
    read = list(csv.DictReader(io.StringIO(printed("model", "kinds", "--csv"))))
    assert {row["kind"] for row in read} == set(json.loads(printed("model", "kinds", "--json")))


def test_nested_values_get_columns_of_their_own(printed):
    read = list(csv.DictReader(io.StringIO(printed("machine", "show", "server-hbm", "--csv"))))
    profile = find_machine("server-hbm")
    assert [row["kernel"] for row in read] == [curve.kernel for curve in profile.maps]
    assert float(read[0]["seconds.L1"]) < float(read[0]["seconds.memory"])


def test_one_form_at_a_time(convolver):
    assert "contradict" in convolver("machine", "list", "--json", "--csv", code=2).stderr


def test_a_sparkline_rises_with_its_values():
    assert sparkline([1, 2, 4, 8]) == "▁▃▆█"
    assert sparkline([3.0, 3.1, 3.0]) == BARS[0] * 3
    assert len(sparkline([float(n + 1) for n in range(100)])) <= 16

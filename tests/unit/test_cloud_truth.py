"""What is compared with the public table of cloud machines: its rows, the pairs, and both baselines."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"
CPUS = {"a": "CPU A", "b": "CPU B"}
WORK = "gzip-1-compress"
HEAD = "cpu,suite,workload,unit,threads,median,iqr_over_median,instances\n"


@pytest.fixture
def cloud_truth(monkeypatch):
    for folder in (BENCH, BENCH / "cloud"):
        monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module("cloud_truth")


def test_rows_of_a_wide_range_or_of_many_threads_are_left_out(cloud_truth, tmp_path):
    table = tmp_path / "throughput.csv"
    lines = [
        f"CPU A,compression,{WORK},bytes/s,1,100,0.01,9",
        f"CPU B,compression,{WORK},bytes/s,1,100,0.20,9",
        f"CPU A,compression,{WORK},bytes/s,8,800,0.01,9",
        "CPU A,stress-ng,crypt,ops/s,1,7,0.01,9",
    ]
    table.write_text(HEAD + "\n".join(lines))
    assert cloud_truth.truth(table, 0.03) == {WORK: {"CPU A": 100.0}}
    assert cloud_truth.truth(table, 0.03, "stress-ng") == {"crypt": {"CPU A": 7.0}}


def test_a_time_is_what_the_public_rate_makes_of_the_bytes(cloud_truth):
    size, times = cloud_truth.WORK[WORK]
    known = {WORK: {"CPU A": 1e8, "CPU B": 2e8}}
    results = {WORK: {"seconds": {"a": 2.0, "b": 1.0}, "ends": {"a b": (0.9, 1.1)}}}
    found = list(cloud_truth.rows(results, known, CPUS))
    of = {(row["base"], row["target"]): row for row in found}
    assert of["a", ""]["measured"] == pytest.approx(size * (times - 1) / 1e8)
    assert of["a", "b"]["predicted"] == of["a", "b"]["measured"] == pytest.approx(2.0)
    assert of["a", "b"]["covered"]
    assert of["b", "a"]["covered"] is None  # no interval was given for it


def test_one_factor_is_the_median_of_a_pairs_measured_ratios(cloud_truth):
    names = ("gzip-1-compress", "gzip-5-compress", "gzip-9-compress")
    pairs = [
        {"workload": name, "base": "a", "target": "b", "predicted": 9.0, "measured": ratio}
        for name, ratio in zip(names, (1.0, 2.0, 4.0), strict=True)
    ]
    assert [cloud_truth.error(row) for row in cloud_truth.one_factor(pairs)] == [1.0, 0.0, -0.5]
    public = {"crypt": {"CPU A": 1.0, "CPU B": 2.0}}
    assert cloud_truth.public_factor(pairs, public, CPUS) == [(1.0, 8.0), (0.0, 3.5), (-0.5, 1.25)]


def test_workloads_that_nobody_looked_at_are_told_apart(cloud_truth):
    assert not cloud_truth.LOOKED_AT.keys() & cloud_truth.FRESH.keys()
    pairs = [{"workload": name, "base": "a", "target": "b"} for name in ("gzip-1-compress", "gzip-1-decompress", "crypt")]
    found = cloud_truth.groups(pairs, CPUS)
    assert [row["workload"] for row in found["fresh"]] == ["gzip-1-decompress"]
    assert len(found["workloads, half looked at"]) + len(found["workloads, half held out"]) == 2
    assert [row["workload"] for row in found["stressors"]] == ["crypt"]
    assert found["measured"] == []


@pytest.mark.parametrize(
    ("workload", "parts"),
    [("zstd-7-decompress", ("zstd", 7, "decompress", 0)), ('lz4-1-compress{"block_size": 65536}', ("lz4", 1, "compress", 65536))],
)
def test_a_workloads_name_says_what_it_does(cloud_truth, workload, parts):
    assert cloud_truth.parse(workload) == parts

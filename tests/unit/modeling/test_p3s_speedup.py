"""``convolver model speedup`` and ``scale`` from the shell, on a program whose work shrinks and whose messages do not."""

from __future__ import annotations

import json

import pytest

from convolver.modeling.p3s.rules import Rule
from convolver.mpi.cfg import write_cfg
from convolver.mpi.network import flat_configuration
from convolver.mpi.time_independent import Operation, to_events


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("speedup")
    for count in (4, 9, 16):
        trace = []
        for rank in range(count):
            to, source = (Rule("torus", "square", 0, way)(rank, count) for way in (1, -1))
            step = [Operation("isend", to, 4000, 0, 1e6 / count), Operation("recv", source, 4000)]
            trace.append([*step * 10, Operation("barrier", work=100.0)])
        to_events(trace, seconds_per_work=1e-9).save(path / f"t.{count}.parquet")
    write_cfg(flat_configuration(64, latency_seconds=1e-5, bandwidth_bytes_per_second=1e9), path / "net.cfg")
    return path


@pytest.fixture(scope="module")
def run(folder, convolver):
    traces = [folder / f"t.{count}.parquet" for count in (4, 9, 16)]
    return lambda verb, *words: convolver("model", verb, *traces, *words)


def test_efficiency_falls_and_the_advice_says_where(folder, tmp_path, run):
    words = ["--at", "64", "--at", "36", "--config", str(folder / "net.cfg")]
    done = run("speedup", *words, "--threshold", "0.8", "-o", str(tmp_path / "s.svg"), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(row["processes"], row["traced"]) for row in found["points"]] == [
        (4, True), (9, True), (16, True), (36, False), (64, False)
    ]  # fmt: skip
    # a step is 1 ms / P of work and a message of 14 us, in which ranks overlap by one message at most
    for row in found["points"]:
        steps = 10e-3 / row["processes"]
        assert steps + 14e-5 <= row["seconds"] <= steps + 28e-5 + 1e-4  # the barrier: some latencies more
    advised = [row["processes"] for row in found["points"] if row["advised"]]
    assert advised == [4, 9]
    assert found["advice"].startswith("Use up to 9 processes")
    assert (tmp_path / "s.svg").stat().st_size > 5000


def test_illegal_counts_and_twice_the_same_are_refused(folder, tmp_path, convolver, run):
    done = run("speedup", "--at", "20", "--config", str(folder / "net.cfg"))
    assert done.returncode == 5
    assert "not legal" in done.stderr
    twice = [str(folder / "t.4.parquet")] * 2
    done = convolver("model", "scale", *twice, "--at", "9", "-o", tmp_path / "x.parquet")
    assert "give one trace a process count" in done.stderr
    done = run("scale", "--at", "25", "--point", "one", "-o", str(tmp_path / "x.parquet"))
    assert "COUNTED,TIMED" in done.stderr

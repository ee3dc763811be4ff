"""``convolver model points`` from the shell: the workload to measure, and how near a measured one comes."""

from __future__ import annotations

import csv
import functools
import io
import json

import pytest

from convolver.errors import ModelError
from convolver.modeling.p3s.rules import Rule
from convolver.modeling.p3s.workload import similar_side
from convolver.mpi.time_independent import Operation, to_events

SIDE = 120


def heat(count, side=SIDE, nanoseconds=1.0):
    """Ten steps on side x side cells: a shift around the ranks after their share of the work, ten instructions a cell."""
    trace = []
    for rank in range(count):
        to, source = (Rule("torus", "square", 0, way)(rank, count) for way in (1, -1))
        step = [Operation("isend", to, 8 * side, 0, 10 * side**2 / count * nanoseconds), Operation("recv", source, 8 * side)]
        trace.append([*step * 10, Operation("barrier")])
    return to_events(trace, seconds_per_work=1e-9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("points")
    for count in (4, 9, 16):
        heat(count).save(path / f"t.{count}.parquet")
    for side, nanoseconds in ((SIDE, 4.0), (30, 0.5)):
        heat(4, side).save(path / f"counted.{side}.parquet")
        heat(4, side, nanoseconds).save(path / f"timed.{side}.parquet")
    return path


@pytest.fixture(scope="module")
def run(folder, convolver):
    traces = [folder / f"t.{count}.parquet" for count in (4, 9, 16)]
    return functools.partial(convolver, "model", "points", *traces, "--at", "64")


def point(folder, side):
    return ["--point", f"{folder}/counted.{side}.parquet,{folder}/timed.{side}.parquet"]


def test_the_similar_size_has_the_target_s_instructions_when_measured(folder, run):
    done = run("--on", "4", "--size", str(SIDE), "--dimensions", "2", *point(folder, 30), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["similar_sides"] == [30.0]
    assert found["instructions"] == pytest.approx(10 * 10 * SIDE**2 / 64)
    assert [(one["ranks"], round(one["difference"], 6)) for one in found["points"]] == [(4, 0.0)]
    assert found["between_points"]
    assert found["seconds"] == pytest.approx(0.5e-9 * found["instructions"])


def test_a_point_that_is_far_off_is_said(folder, run):
    done = run(*point(folder, SIDE))
    assert done.returncode == 0, done.stderr
    assert "no point stands for it" in done.stdout
    assert "+1500.0 %" in done.stdout
    both = run(*point(folder, SIDE), *point(folder, 30))
    assert "no point" not in both.stdout
    assert "isend" in both.stdout
    table = list(csv.DictReader(io.StringIO(run(*point(folder, SIDE), *point(folder, 30), "--csv").stdout)))
    assert [float(row["seconds_per_instruction"]) for row in table] == pytest.approx([0.5e-9, 4e-9])


def test_a_point_needs_two_traces_and_the_verb_something_to_say(folder, run):
    assert "--on PROCESSES" in run().stderr
    for text in ("one", "one,", ",one"):
        assert "COUNTED,TIMED" in run("--point", text).stderr
    with pytest.raises(ModelError, match="above 0"):
        similar_side(0, 4, 4)

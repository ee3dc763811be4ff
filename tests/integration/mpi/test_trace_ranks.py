"""Ranks of an MPI program under the tracer, started by the real launchers: a trace each, counts as in a run alone, a group."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from convolver.signature.signature import Signature
from convolver.tracing.reader import Trace
from tests.integration.tool_runs import requires_tool

pytestmark = requires_tool
SOURCE = Path(__file__).parents[1] / "programs" / "ranks.c"
CONVOLVER = [sys.executable, "-m", "convolver"]
RANKS = 2
N = 1000


@pytest.fixture(scope="module")
def binary(library, tmp_path_factory):
    program = tmp_path_factory.mktemp("ranks") / "ranks"
    subprocess.run([library[1], "-O1", "-g", "-o", program, SOURCE], check=True)
    return program


def convolver(folder, *words, launcher=()):
    command = [*launcher, *CONVOLVER, *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)


def own_counts(table, binary):
    """Executions and references of each block of the program's two working functions."""
    own = table.filter((pl.col("module") == str(binary)) & pl.col("function").is_in(["same", "more"]))
    return own.select("function", "offset", "executions", "instructions", "loads", "stores", "flops").sort("offset")


def launcher_of(library):
    return [*library[0], "-np", str(RANKS)]


@pytest.mark.slow
def test_each_rank_has_a_trace_with_the_counts_of_a_run_alone(library, binary, tmp_path):
    done = convolver(tmp_path, "trace", "--counts-only", "--", binary, launcher=launcher_of(library))
    assert done.returncode == 0, done.stderr
    traces = [Trace.load(tmp_path / f"ranks.{rank}.cvt") for rank in range(RANKS)]
    assert [trace.header["rank"] for trace in traces] == [0, 1]
    alone = convolver(tmp_path, "trace", "--counts-only", "-o", "alone.cvt", "--", binary)
    assert alone.returncode == 0, alone.stderr
    tables = [own_counts(trace.signature.table, binary) for trace in [*traces, Trace.load(tmp_path / "alone.cvt")]]
    assert tables[0].equals(tables[2])  # alone, the program is rank 0
    same = [table.filter(pl.col("function") == "same") for table in tables]
    assert same[1].equals(same[2])
    assert tables[1].filter(pl.col("function") == "more")["stores"].sum() == N

    grouped = convolver(tmp_path, "merge", "-o", "all.sig.parquet", *(f"ranks.{rank}.cvt" for rank in (1, 0)))
    assert grouped.returncode == 0, grouped.stderr
    group = Signature.load(tmp_path / "all.sig.parquet")
    assert group.inputs == {f"rank {rank}": trace.id for rank, trace in enumerate(traces)}
    for rank, trace in enumerate(traces):
        mine = group.table.filter(pl.col("rank") == rank)
        assert mine.drop("rank", "block").equals(trace.signature.table.drop("block"))


@pytest.mark.slow
def test_a_group_needs_every_rank(library, binary, tmp_path):
    done = convolver(tmp_path, "trace", "--counts-only", "-o", "%r.cvt", "--", binary, launcher=launcher_of(library))
    assert done.returncode == 0, done.stderr
    for words in (["1.cvt"], ["0.cvt", "0.cvt"]):
        refused = convolver(tmp_path, "merge", "-o", "all.sig.parquet", *words)
        assert refused.returncode == 2
        assert "Each rank from 0 on" in refused.stderr
    assert convolver(tmp_path, "merge", "-o", "all.cvt", "0.cvt", "1.cvt").returncode == 2


@pytest.mark.slow
def test_a_launcher_under_the_tracer_brings_a_trace_for_each_rank(library, binary, tmp_path):
    words = launcher_of(library)
    done = convolver(tmp_path, "trace", "--counts-only", "--trace-children", "--no-scan", "--", *words, binary)
    assert done.returncode == 0, done.stderr
    traces = [Trace.load(tmp_path / f"ranks.{rank}.cvt") for rank in range(RANKS)]
    same = [own_counts(trace.signature.table, binary).filter(pl.col("function") == "same") for trace in traces]
    assert same[0].equals(same[1])
    assert same[0]["loads"].sum() >= N

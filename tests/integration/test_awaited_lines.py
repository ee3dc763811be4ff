"""Which lines a core waits for: steps too long for a stream, and a stream's first lines, each on some cores only."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from numpy.typing import NDArray

from convolver.analyzing.analyze import analyze
from convolver.analyzing.core_cycles import far_levels
from convolver.analyzing.falls import RANDOM, Falls
from convolver.machine.catalog import find_machine
from convolver.tracing.reader import Trace
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace
from tests.integration.tool_runs import requires_tool

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#define BYTES (64u << 20)
char room[BYTES];
__attribute__((noinline)) long strided(long n)
{
    long sum = 0;
    for (unsigned long at = 0; n--; at = at + 20544 < BYTES ? at + 20544 : at + 20544 - BYTES)
        sum += room[at];
    return sum;
}
__attribute__((noinline)) long jumping(long n)
{
    long sum = 0;
    for (unsigned long at = 1; n--;)
        sum += room[(at = at * 6364136223846793005u + 1442695040888963407u) >> 38];
    return sum;
}
__attribute__((noinline)) long starting(long n)
{
    long sum = 0;
    for (unsigned long at = 1; n--;) {
        at = at * 6364136223846793005u + 1442695040888963407u;
        for (int line = 0; line < 4; line++)
            sum += room[(at >> 46 << 8) + 64 * line];
    }
    return sum;
}
__attribute__((noinline)) long steady(long n)
{
    long sum = 0;
    for (unsigned long at = 0; n--; at = (at + 64) % BYTES)
        sum += room[at];
    return sum;
}
int main(void) { return (int)(strided(100000) + jumping(100000) + starting(25000) + steady(100000)); }
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("strides")
    (folder / "strides.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-o", folder / "strides", folder / "strides.c"], check=True)
    trace([str(folder / "strides")], output=folder / "strides.cvt", sampling=SamplingPlan(mode="full"))
    return Trace.load(folder / "strides.cvt")


def busiest(traced: Trace, function: str) -> int:
    """The block of a function with most of its references."""
    functions, references = (traced.signature.table[name].to_numpy() for name in ("function", "memops"))
    return int(np.argmax(np.where(functions == function, references, 0)))


def found(traced: Trace, machine: str) -> tuple[Falls, NDArray[np.float32]]:
    """Where references fall on a machine, and the lines that its core waits for: each machine once, as the store keeps less."""
    profile = find_machine(machine)
    where = analyze(traced, [profile]).parts[0].falls
    return where, far_levels(where, profile).rates


@requires_tool
@pytest.mark.parametrize(("machine", "waits"), [("cloud-epyc-milan", False), ("cloud-server", True)])
def test_cores_wait_for_long_strides_unless_they_follow_them(machine: str, waits: bool, traced: Trace) -> None:
    where, rates = found(traced, machine)
    strided, jumping = busiest(traced, "strided"), busiest(traced, "jumping")
    assert where.long_strides is not None
    assert (where.long_strides[strided, :2] > 0.95).all()
    assert (where.long_strides[jumping, :2] < 0.05).all()
    lines, waited = where.lines(np.ones(len(where.sampled)))[:, :, RANDOM].sum(axis=1), rates.sum(axis=1)
    assert waited[jumping] == pytest.approx(lines[jumping], rel=0.1)
    assert waited[strided] == pytest.approx(lines[strided] if waits else 0.0, abs=0.1 * lines[strided])


@requires_tool
@pytest.mark.parametrize(("machine", "waits"), [("cloud-epyc-genoa", True), ("cloud-xeon-emerald", False)])
def test_cores_wait_for_first_lines_of_streams_where_they_follow_late(machine: str, waits: bool, traced: Trace) -> None:
    where, waited = found(traced, machine)
    assert where.early is not None
    starting, steady = busiest(traced, "starting"), busiest(traced, "steady")
    assert (where.early[starting, :2] > 0.95).all()
    assert (where.early[steady, :2] < 0.05).all()
    assert waited[starting, 0] == pytest.approx(0.75 * waits, abs=0.05)  # three of four lines; the other one is random
    assert waited[starting, 1:].sum() == pytest.approx(0.25, abs=0.05)
    assert waited[steady].sum() < 0.05

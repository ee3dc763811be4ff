"""What would help: the answers are those of machines with the change, simulated in full, from traces and signatures alike."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import msgspec
import pytest

from convolver.analyzing.analyze import analyze
from convolver.convolution.convolve import convolve
from convolver.convolution.machine_changes import AS_IS, variants, what_if
from convolver.machine.catalog import as_machine
from convolver.machine.project import Changes, project
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace
from tests.integration.tool_runs import requires_tool
from tools.docs_pages import ROOT

pytestmark = requires_tool
SMALL = project(as_machine("cloud-epyc-genoa"), "small", Changes(sizes={"L2": 128 << 10, "L3": 1 << 20}))


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    program = tmp_path_factory.mktemp("what-if") / "cg"
    subprocess.run(["gcc", "-g", "-O2", "-o", program, ROOT / "examples" / "cg.c", "-lm"], check=True)
    return [str(program), "16"]


@pytest.fixture(scope="module")
def sampled(command):
    plan = SamplingPlan(interval=100_000, sample=30_000)
    return trace(command, output=Path(command[0]).with_name("sampled.cvt"), sampling=plan)


@pytest.fixture(scope="module")
def full(command):
    return trace(command, output=Path(command[0]).with_name("full.cvt"), sampling=SamplingPlan(mode="full", paths=True))


@pytest.fixture(scope="module")
def found(sampled):
    return {one.change: one for one in what_if(sampled, SMALL)}


@pytest.fixture(scope="module")
def in_full(full):
    return {one.change: one for one in what_if(full, SMALL)}


@pytest.mark.slow
@pytest.mark.parametrize(("level", "factor"), [("L2", 2), ("L3", 2), ("L3", 4)])
def test_a_larger_level_takes_as_long_as_one_simulated_in_full(level, factor, full, found, in_full):
    levels = [
        msgspec.structs.replace(one, size_bytes=factor * one.size_bytes) if one.level == level else one for one in SMALL.hierarchy
    ]
    larger = msgspec.structs.replace(SMALL, name="larger", hierarchy=tuple(levels))
    name, exact = f"{level} x {factor}", convolve(analyze(full, larger), larger).total[0]
    assert in_full[name].seconds == pytest.approx(exact, rel=1e-3)
    widths = [one[name].ratio_interval[1] - one[name].ratio_interval[0] for one in (found, in_full)]
    most = 0.001 + math.hypot(*widths)  # 3.3 standard errors: windows are a sample of a full trace's paths, too
    assert abs(found[name].ratio - in_full[name].ratio) <= most
    assert in_full[name].ratio > 1 - most
    assert found[name].ratio == pytest.approx(in_full[name].ratio, rel=0.05)  # a sample errs alike on both machines


def test_a_signature_says_the_same_as_its_trace(sampled, found, tmp_path):
    path = tmp_path / "cg.analysis.parquet"
    analyze(sampled, SMALL).save(path)
    for one in what_if(sampled.signature, SMALL, hits=path):
        assert one.seconds is None or one == found[one.change]


def test_every_change_is_an_improvement_and_the_shortest_time_comes_first(found):
    first, *rest = found.values()
    assert first.change == AS_IS
    assert {one.change for one in rest} == {*variants(SMALL)}
    assert [one.seconds for one in rest] == sorted(one.seconds for one in rest)
    assert rest[-1].seconds <= 1.005 * first.seconds

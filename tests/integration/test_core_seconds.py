"""Core time of a traced program, from its paths: loops whose cycles are known."""

from __future__ import annotations

import shutil
import subprocess

import msgspec
import pytest

from convolver.analyzing.analyze import analyze
from convolver.convolution.convolve import CoreSeconds
from convolver.errors import CoverageError
from convolver.execution.core_time import Walk, core_times
from convolver.machine.cores import find_core
from convolver.machine.profile import Throughput
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace
from tests.synthetic import machine

TURNS = 4000
SOURCE = f"""
__attribute__((noinline)) long chain(long x) {{
    for (long i = 0; i < {TURNS}; i++)
        __asm__ volatile("imul %0,%0\\n imul %0,%0\\n imul %0,%0\\n imul %0,%0" : "+r"(x));
    return x;
}}
__attribute__((noinline)) void chase(void) {{
    static void *place = &place;
    void *at = &place;
    for (long i = 0; i < {TURNS}; i++)
        __asm__ volatile("mov (%0),%0\\n mov (%0),%0" : "+r"(at));
}}
int main(void) {{ chase(); return (int)chain(3) & 0; }}
"""

pytestmark = pytest.mark.skipif(not (shutil.which("valgrind") and shutil.which("gcc")), reason="needs valgrind and gcc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("core")
    (folder / "loops.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-g", "-o", folder / "loops", folder / "loops.c"], check=True)
    return folder


def _cycles(table, signature, name):
    chosen = signature.filter(signature["function"] == name)
    each = table["cycles_per_execution"].to_numpy()[chosen["block"].to_numpy()]
    return float((each * chosen["executions"].to_numpy()).sum())


@pytest.mark.parametrize("paths", [True, False])
def test_chains_of_known_latency_take_their_cycles(folder, paths):
    """Four multiplications of three cycles, two loads of five: from paths, and from the code of the loop alone."""
    plan = SamplingPlan(mode="full", paths=paths)
    traced = trace([str(folder / "loops")], output=folder / f"{paths}.cvt", sampling=plan)
    table = core_times(traced, [[Walk(find_core("golden-cove"), 64)]])[0][0].table
    signature = traced.signature.table
    hot = signature["executions"].to_numpy() >= TURNS - 1
    assert (table["how"] == ("window" if paths else "static")).to_numpy()[hot].all()
    # The two do not depend on each other: the second begins while the last of the first are under way.
    assert _cycles(table, signature, "chain") == pytest.approx(12 * TURNS, rel=0.03)
    assert _cycles(table, signature, "chase") == pytest.approx(10 * TURNS, rel=0.01)
    if paths:
        assert (table["share"].to_numpy()[hot] > 0.1).all()
        assert (table["error"].to_numpy()[hot] < 0.03).all()


def test_no_seconds_without_paths_or_clock(folder):
    bare = machine("m")
    counts = trace([str(folder / "loops")], output=folder / "counts.cvt", sampling=SamplingPlan(mode="counts"))
    with pytest.raises(CoverageError):
        analyze(counts, bare)
    sampled = trace([str(folder / "loops")], output=folder / "sampled.cvt", sampling=SamplingPlan())
    assert analyze(sampled, bare).parts[0].core is None


def test_the_core_runs_at_the_clock_that_there_usually_is(folder):
    """And blocks that no window shows cost the same in every walk of one core."""
    traced = trace([str(folder / "loops")], output=folder / "clock.cvt", sampling=SamplingPlan(mode="full", paths=True))
    cycle = Throughput(kernel="cycle", operation="cycle", seconds=0.25e-9)
    fastest, usual = (
        msgspec.structs.replace(
            machine(name), floating_point=(cycle,), provenance={"noise": {"cycle_seconds_median": clock * cycle.seconds}}
        )
        for name, clock in (("fastest", 1.0), ("usual", 1.08))
    )
    found = analyze(traced, [fastest, usual])
    near = [CoreSeconds.of_cycles(found.of(one).core, one).near for one in (fastest, usual)]
    assert near[1] == pytest.approx(1.08 * near[0])
    assert near[0].sum() > 22 * TURNS * cycle.seconds

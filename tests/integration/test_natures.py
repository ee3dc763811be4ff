"""The largest share of the time of kernels whose nature is known, traced as programs, on machines of both makers."""

from __future__ import annotations

import polars as pl
import pytest

from convolver.analyzing.analyze import analyze
from convolver.convolution.convolve import convolve
from convolver.convolution.limit_shares import grouped
from convolver.machine.catalog import as_machine
from convolver.tracing.tracer import trace
from tests.integration.tool_runs import PROGRAMS, program, requires_tool

pytestmark = requires_tool
MACHINES = [as_machine(name) for name in ("cloud-server", "cloud-epyc-genoa")]
NATURES = {
    "triad-l2": ("triad_lines", {"L2", "ports"}),  # two loads a line keep the load ports of some cores as busy as L2
    "triad-memory": ("triad", {"memory_bandwidth"}),
    "chase-l3": ("chase", {"L3"}),
    "chase-memory": ("chase", {"memory_latency"}),
    "branches": ("branches", {"branches"}),
    "divide": ("divide", {"dependent"}),
    "dgemm": ("dgemm", {"ports"}),
    "gather": ("gather", {"memory_latency"}),
}
QUICK = {"triad-memory", "chase-l3", "branches", "dgemm"}


@pytest.fixture(scope="module")
def natures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("natures")
    return program(folder, PROGRAMS / "natures.c", "-O3", "-mavx2", "-mfma", "-static")


@pytest.mark.parametrize("kernel", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in NATURES])
def test_the_largest_share_is_what_the_kernel_is_made_of(kernel, natures, tmp_path):
    function, expected = NATURES[kernel]
    analysis = analyze(trace([natures, kernel], output=tmp_path / "k.cvt"), MACHINES)
    for machine in MACHINES:
        times = convolve(analysis, machine)
        whole = sum(grouped(times.table).values())
        assert whole == pytest.approx(times.seconds, rel=1e-9)
        own = times.table.filter(pl.col("function") == function)
        found = grouped(own)
        assert next(iter(found)) in expected, found
        if kernel == "triad-l2":
            assert found["L2"] > 0.45 * own["seconds"].sum()

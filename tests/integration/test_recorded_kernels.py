"""The probe tells of its kernels what the tracer sees of them: the same references, in the same order."""

from __future__ import annotations

import json
import subprocess

import pytest

from convolver.calibration.measured_points import REFERENCES
from convolver.probing.record import WHOLE_TURNS
from convolver.probing.runner import list_kernels, probe_binary
from tests.integration.test_tracer_tool import function_range
from tests.integration.tool_runs import requires_tool
from tests.oracle import wire_oracle as wire

BYTES, WANTED = 16384, 2 * WHOLE_TURNS
KERNELS, _ = list_kernels()
# Valgrind knows no AVX-512.
TRACEABLE = sorted(name for name, kernel in KERNELS.items() if kernel.pattern and kernel.supported and kernel.width_bytes < 64)
ALIKE = {"chase_2", "chase_4", "load_v16", "store_v16", "stride_2", "stride_4", "stride_16", "stride_32"}
"""Kernels that differ from one of the others in a number alone."""
STORE, DEPENDENT = 1, 4
KEEP_LOADS = "--vex-iropt-register-updates=allregs-at-each-insn"
"""Valgrind drops loads whose value is never used, which is what many kernels are made of, unless all registers are kept up to
date."""


def described(segments, references, regions):
    """By region of memory, since the compiler may read a table ahead of time: offset, size and flags of each reference, in
    order."""
    sites = {segment.first_site + place: site for segment in segments for place, site in enumerate(segment.sites)}
    found = {base: [] for base in regions}
    for one in references:
        base = max(region for region in regions if region <= one.address)
        found[base].append((one.address - base, one.size, sites[one.site].flags & (STORE | DEPENDENT)))
    return [found[base] for base in regions]


def recorded(plan):
    done = subprocess.run([probe_binary(), "--record"], input=plan.encode(), capture_output=True, check=True)
    modules, segments, events = wire.read_stream(done.stdout)
    return described(segments, wire.references(segments, events), [module.address for module in modules])


def traced(runner, kernel, plan):
    path = runner.folder / "plan"
    path.write_text(plan)
    with path.open() as stdin:
        run = runner.trace([str(probe_binary()), "--run"], "--mode=full", KEEP_LOADS, stdin=stdin.fileno())
    code = function_range(str(probe_binary()), f"cv_kernel_{kernel}")
    sites = {
        segment.first_site + place
        for segment in run.segments
        if segment.file_offset in code and run.modules[segment.module].path.endswith(probe_binary().name)
        for place in range(len(segment.sites))
    }
    regions = json.loads(run.stdout)
    # Beside the loop itself, the kernel's state is read and written.
    loop = [one for one in run.references() if one.site in sites and in_regions(one.address, regions)]
    return described(run.segments, loop, regions)


def without_flag(regions):
    return [[(offset, size, flags & STORE) for offset, size, flags in rows] for rows in regions]


def in_regions(address, regions):
    return any(region <= address < region + (2 << 20) for region in regions)


@requires_tool
@pytest.mark.parametrize("kernel", [pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE)) for name in TRACEABLE])
def test_a_recorded_kernel_makes_the_references_of_the_traced_one(runner, kernel):
    plan = f"{kernel} {BYTES} {WANTED} 0\n"
    ours = recorded(plan)
    theirs = traced(runner, "chase" if kernel == "chase_sequential" else kernel, plan)
    assert sum(map(len, ours)) >= WANTED
    assert without_flag(ours) == without_flag(theirs)
    # The tracer sees a load feed an address only within a block and its turns: not in the block before the loop.
    differing = sum(mine != other for one, two in zip(ours, theirs, strict=True) for mine, other in zip(one, two, strict=True))
    assert differing <= WANTED / 16


def test_points_are_recorded_in_whole_turns():
    assert REFERENCES % WHOLE_TURNS == 0

"""Totals equal to those of a real cachegrind run of the same program, in cachegrind's semantics.

It counts some references differently: a read-modify-write is a read alone (its write hits what the read just touched, so that no
miss differs), and its last level also holds the code.
"""

from __future__ import annotations

import numpy as np
import pytest

from convolver.simulation.one_pass import simulate_arrays
from tests.integration.tool_runs import KERNELS, Runner, program, requires_tool

pytestmark = [requires_tool, pytest.mark.slow]

D1, LL = (4096, 4), (131072, 8)
MACHINE = {
    "name": "m",
    "hierarchy": [{"level": name, "size_bytes": size, "ways": ways} for name, (size, ways) in (("D1", D1), ("LL", LL))],
    "semantics": "cachegrind",
}


def _cachegrind(runner: Runner, command: list[str]) -> dict[str, int]:
    out = runner.folder / "cachegrind"
    caches = [f"--{name}={size},{ways},64" for name, (size, ways) in (("I1", (65536, 16)), ("D1", D1), ("LL", LL))]
    runner.other("cachegrind", command, "--cache-sim=yes", *caches, f"--cachegrind-out-file={out}")
    lines = out.read_text().splitlines()
    names = next(line for line in lines if line.startswith("events:")).split()[1:]
    return dict(zip(names, map(int, next(line for line in lines if line.startswith("summary:")).split()[1:]), strict=True))


@pytest.mark.parametrize("kernel", ["spmv", "stencil"])
def test_misses_equal_those_of_cachegrind(tmp_path, kernel):
    runner = Runner(tmp_path)
    command = [program(tmp_path, KERNELS / f"{kernel}.c", "-O2", "-fno-tree-vectorize"), "1"]
    theirs = _cachegrind(runner, command)
    references = list(runner.trace(command, "--mode=full").references())
    addresses = np.array([each.address for each in references], dtype=np.uint64)
    sizes = np.array([each.size for each in references], dtype=np.uint16)
    d1, ll = simulate_arrays(addresses, sizes=sizes, machines=MACHINE).totals("m")
    assert d1["accesses"] >= theirs["Dr"] + theirs["Dw"]
    assert d1["misses"] == theirs["D1mr"] + theirs["D1mw"]
    assert ll["misses"] == pytest.approx(theirs["DLmr"] + theirs["DLmw"], rel=2e-3)

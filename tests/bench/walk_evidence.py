"""What the walk leaves out: predictions from as many windows as it takes, against those from all windows that a trace kept.

    python tests/bench/walk_evidence.py TRACES/*.hybrid.cvt [--machines NAME,NAME] [--store]

A figure is the prediction of a machine over that from all windows; the stated standard error of its core cycles stands beside it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median

from result_file import write_result

from convolver.analyzing.analyze import analyze
from convolver.convolution.convolve import convolve
from convolver.execution.sampled_walk import CORE_ERROR
from convolver.machine.catalog import find_machine
from convolver.machine.profile import MachineProfile

MACHINES = "cloud-server,cloud-epyc-milan"
ALL = 1e-9
"""A standard error that no walk reaches, so that the walk takes every window."""


def predicted(trace: Path, machines: list[MachineProfile], error: float) -> tuple[list[float], float]:
    """Return each machine's seconds, and the processor seconds that they took, with an empty store."""
    with tempfile.TemporaryDirectory() as store:
        os.environ["CONVOLVER_CACHE"] = store
        before = time.process_time()
        analysis = analyze(trace, machines, core_error=error)
        return [convolve(analysis, machine).seconds for machine in machines], time.process_time() - before


def main() -> None:
    """Predict each trace twice, print, and write the result file where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, nargs="+")
    parser.add_argument("--machines", default=MACHINES)
    parser.add_argument("--store", action="store_true", help="write benchmarks/results/walk-evidence.json")
    options = parser.parse_args()
    machines = [find_machine(name) for name in options.machines.split(",")]
    rows, moved = [], []
    for trace in options.trace:
        (some, cost), (every, whole) = predicted(trace, machines, CORE_ERROR), predicted(trace, machines, ALL)
        off = [one / full - 1 for one, full in zip(some, every, strict=True)]
        moved += map(abs, off)
        rows.append([trace.stem.removesuffix(".hybrid"), *(f"{100 * one:+.2f} %" for one in off), f"{cost:.1f}", f"{whole:.1f}"])
        print(*rows[-1], flush=True)
    within = sum(one < 0.01 for one in moved)
    values = {
        "median": f"{100 * median(moved):.2f} %",
        "worst": f"{100 * max(moved):.1f} %",
        "within": f"{within} of {len(moved)}",
    }
    print(values)
    if options.store:
        print(write_result("walk-evidence", ["program", *(one.name for one in machines), "s", "s, all windows"], rows, values))


if __name__ == "__main__":
    main()

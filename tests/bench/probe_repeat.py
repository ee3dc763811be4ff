"""How well the probe repeats: two or more runs of a plan, and how far their points lie apart. Not a test: it reports.

    python tests/bench/probe_repeat.py [--full] [--runs 2] [--cpu N] [--json]

The deviation of a point is |a / b - 1| between consecutive runs. Targets, on a quiet machine: median <= 3 % for quick,
<= 1 % for full.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from itertools import pairwise
from statistics import mean, median
from typing import Any

from convolver.errors import NoiseWarning
from convolver.machine.profile import MachineProfile
from convolver.probing.probe import choose_plan, probe


def values(profile: MachineProfile) -> dict[tuple[Any, ...], float]:
    """Return the centre of every point by (kernel, threads, working set); instructions have a working set of 0."""
    result: dict[tuple[Any, ...], float] = {
        (curve.kernel, curve.threads, point.working_set_bytes): point.seconds_per_reference
        for curve in profile.maps
        for point in curve.points
    }
    result.update({(entry.kernel, 1, 0): entry.seconds for entry in profile.floating_point})
    return result


def run(full: bool, cpu: int | None) -> tuple[float, MachineProfile]:
    """Probe once; returns the duration and the profile."""
    start = time.monotonic()
    profile = probe(choose_plan(full=full, cpu=cpu), cpu=cpu)
    return time.monotonic() - start, profile


def report(runs: list[tuple[float, MachineProfile]]) -> dict[str, Any]:
    """Return durations, deviations of consecutive runs, and what each run thought of its own noise."""
    deviations = []
    for (_, first), (_, second) in pairwise(runs):
        left, right = values(first), values(second)
        deviations += [abs(left[key] / right[key] - 1) for key in left.keys() & right.keys()]
    deviations.sort()
    return {
        "plan": runs[0][1].provenance["plan"],
        "points": len(values(runs[0][1])),
        "seconds": [round(seconds, 1) for seconds, _ in runs],
        "deviation_median": round(median(deviations), 4),
        "deviation_mean": round(mean(deviations), 4),
        "deviation_90th": round(deviations[int(0.9 * len(deviations))], 4),
        "detected": [[level.size_bytes for level in profile.detected] for _, profile in runs],
        "noise": [profile.provenance["noise"] for _, profile in runs],
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--cpu", type=int)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    result = report([run(chosen.full, chosen.cpu) for _ in range(chosen.runs)])
    if chosen.json:
        print(json.dumps(result, indent=1))
    else:
        for key, value in result.items():
            print(f"{key}: {value}")


if __name__ == "__main__":
    main()

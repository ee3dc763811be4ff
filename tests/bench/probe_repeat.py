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
from convolver.probing.machine_probe import choose_plan, probe


def values(profile: MachineProfile, busy: bool = False) -> dict[tuple[Any, ...], float]:
    """Return the center of every point by kernel, threads, working set and what runs beside it: of idle CPUs, or of busy ones."""
    result: dict[tuple[Any, ...], float] = {
        (curve.kernel, curve.threads, point.working_set_bytes, curve.beside): point.seconds_per_reference
        for curve in profile.maps
        for point in curve.points
        if (curve.threads > 1) == busy
    }
    if not busy:
        result.update({(entry.kernel, 1, 0, ""): entry.seconds for entry in profile.floating_point})
    return result


def deviations(runs: list[tuple[float, MachineProfile]], busy: bool = False) -> list[float]:
    """Return how far the points of consecutive runs lie apart, ordered."""
    found = []
    for (_, first), (_, second) in pairwise(runs):
        left, right = values(first, busy), values(second, busy)
        found += [abs(left[key] / right[key] - 1) for key in left.keys() & right.keys()]
    return sorted(found)


def run(full: bool, cpu: int | None) -> tuple[float, MachineProfile]:
    """Probe once; returns the duration and the profile."""
    start = time.monotonic()
    profile = probe(choose_plan(full=full, cpu=cpu), cpu=cpu)
    return time.monotonic() - start, profile


def report(runs: list[tuple[float, MachineProfile]]) -> dict[str, Any]:
    """Return durations, deviations of consecutive runs, and what each run thought of its own noise."""
    idle, busy = deviations(runs), deviations(runs, busy=True)
    return {
        "plan": runs[0][1].provenance["plan"],
        "points": len(values(runs[0][1])),
        "seconds": [round(seconds, 1) for seconds, _ in runs],
        "deviation_median": round(median(idle), 4),
        "deviation_mean": round(mean(idle), 4),
        "deviation_90th": round(idle[int(0.9 * len(idle))], 4),
        "deviation_median_busy": round(median(busy), 4) if busy else None,
        "detected": [[level.size_bytes for level in profile.detected] for _, profile in runs],
        "confidence": [[level.confidence for level in profile.detected] for _, profile in runs],
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

"""Speed of the core model's walk: instructions walked for each second of processor time in it, by trace and core table.

    python tests/bench/walk_speed.py TRACE ... [--rounds 5] [--store]

Traces must hold whole paths. Decoding, code and estimates are not counted; the fastest round counts, for what else runs on a
core slows the others.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from result_file import write_result

from convolver._native.path_sample import SampleWalk
from convolver.execution.core_time import Walk, core_times
from convolver.machine.cores import find_core
from convolver.tracing.reader import Trace

CORES = ("zen3", "golden-cove")


class WalkClock:
    """Processor seconds that walks took, and the instructions that they walked."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.instructions = 0

    @property
    def speed(self) -> float:
        """Million instructions a second; 0 where nothing was walked."""
        return self.instructions / self.seconds / 1e6 if self.seconds else 0.0


@contextmanager
def timed_walks() -> Iterator[WalkClock]:
    """Time all walks of samples meanwhile."""
    clock, walk = WalkClock(), SampleWalk.walk

    def timed(self: SampleWalk, windows: NDArray[np.uint32]) -> None:
        before, begin = self._core.instructions, time.process_time()
        walk(self, windows)
        clock.seconds += time.process_time() - begin
        clock.instructions += self._core.instructions - before

    with patch.object(SampleWalk, "walk", timed):
        yield clock


def speeds(trace: Trace, rounds: int) -> list[float]:
    """Return the best speed of a trace's walk on each of the cores."""
    best = dict.fromkeys(CORES, 0.0)
    for _ in range(rounds):
        for name in CORES:
            with timed_walks() as clock:
                core_times(trace, [[Walk(find_core(name), 64)]])
            best[name] = max(best[name], clock.speed)
    return list(best.values())


def main() -> None:
    """Walk all traces on all cores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", action="store_true", help="write benchmarks/results/walk-speed.json")
    options = parser.parse_args()
    rows, found = [], []
    for path in options.traces:
        found.append(speeds(Trace.load(path), options.rounds))
        rows.append([path.name.partition(".")[0], *(f"{one:.1f}" for one in found[-1])])
        print("  ".join(rows[-1]), flush=True)
    medians = {name: f"{median(each):.1f} M/s" for name, each in zip(CORES, zip(*found, strict=True), strict=True)}
    print("median", medians)
    if options.store:
        write_result("walk-speed", ["trace", *(f"{name}, M instructions/s" for name in CORES)], rows, medians)


if __name__ == "__main__":
    main()

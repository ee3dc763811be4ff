"""Throughput of the detailed engine on the five streams, beside the fast one on the same machine.

tests/bench/detailed_speed.py [MILLION_REFERENCES] [--json]

CPU time of one core, the best of three runs interleaved over the kinds of work. ``fast`` and ``plain`` simulate the same
three levels by the two engines; the others add one option to it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from result_file import write_result
from streams import STREAMS, Arrays

from convolver.simulation.detailed import Details
from convolver.simulation.one_pass import simulate_arrays

KIB, MIB = 1 << 10, 1 << 20
LEVELS = [
    {"level": "L1", "size_bytes": 48 * KIB, "ways": 12},
    {"level": "L2", "size_bytes": 2 * MIB, "ways": 16},
    {"level": "L3", "size_bytes": 32 * MIB, "ways": 16},
]
TLB = [{"level": "DTLB", "entries": 64, "ways": 4}, {"level": "STLB", "entries": 2048, "ways": 16}]


def _machine(*options: dict, **more: object) -> dict:
    levels = [{**level, **option} for level, option in zip(LEVELS, options or ({}, {}, {}), strict=True)]
    return {"name": "m", "hierarchy": levels, **more}


STREAM_PREFETCHER = {"prefetcher": {"kind": "stream", "degree": 4}}
KINDS: dict[str, Callable[[Arrays], object]] = {
    "fast": lambda a: simulate_arrays(**a, machines=_machine()),
    # A seed is an option: it sends the plain hierarchy through the detailed engine.
    "plain": lambda a: simulate_arrays(**a, machines=_machine({"seed": 1}, {}, {})),
    "inclusive": lambda a: simulate_arrays(**a, machines=_machine({}, {"inclusion": "inclusive"}, {"inclusion": "inclusive"})),
    "victim": lambda a: simulate_arrays(**a, machines=_machine({}, {}, {"inclusion": "victim"})),
    "write-through": lambda a: simulate_arrays(**a, machines=_machine({"write": "through"}, {}, {})),
    "prefetchers": lambda a: simulate_arrays(**a, machines=_machine(STREAM_PREFETCHER, STREAM_PREFETCHER, {})),
    "TLB": lambda a: simulate_arrays(**a, machines=_machine(tlb=TLB)),
    "causes": lambda a: simulate_arrays(**a, machines=_machine(), details=Details(causes=True)),
}


def measure(million: float) -> dict[str, dict[str, float]]:
    """Return million references a second by stream and kind of work."""
    count = int(million * 1e6)
    results: dict[str, dict[str, float]] = {}
    for name, make in STREAMS.items():
        arrays, best = make(count), dict.fromkeys(KINDS, 0.0)
        for _ in range(3):
            for kind, work in KINDS.items():
                start = time.process_time()
                work(arrays)
                best[kind] = max(best[kind], count / (time.process_time() - start) / 1e6)
        results[name] = best
    return results


def main() -> None:
    """Print the table, or JSON; ``--store`` writes the result file of the pages."""
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    results = measure(float(words[0]) if words else 16)
    if "--json" in sys.argv:
        print(json.dumps(results, indent=1))
        return
    print(f"{'M references/s':16s}" + "".join(f"{kind:>15s}" for kind in KINDS))
    for name, rates in results.items():
        print(f"{name:16s}" + "".join(f"{rates[kind]:15.1f}" for kind in KINDS))
    if "--store" in sys.argv:
        rows = [[name, *(f"{rates[kind]:.4g}" for kind in KINDS)] for name, rates in results.items()]
        write_result("level-options", ["stream", *KINDS], rows)


if __name__ == "__main__":
    main()

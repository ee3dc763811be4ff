"""Throughput of the cache simulator on five streams, beside pycachesim where it is installed (it is no dependency).

tests/bench/simulator.py [MILLION_REFERENCES] [--json]

CPU time of one core, the best of three runs interleaved over the kinds of work; two threads by wall time. ``one`` is one
machine with three levels, ``one, C core alone`` the same without anything around it, ``three`` are three machines in one
pass, ``1/32`` is one class of sets out of all references (references given count, not those simulated). Everything is in the
time: making the simulator and the table of hit rates too.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable

import numpy as np
from streams import STREAMS, Arrays

from convolver._native.simulator import Geometry, Simulator
from convolver.machine.hierarchy import Level, parse_levels
from convolver.simulation.simulate import simulate_arrays

KIB, MIB = 1 << 10, 1 << 20


def _machine(name: str, *levels: tuple[int, int]) -> dict:
    hierarchy = [Level(level=f"L{k}", size_bytes=size, ways=ways) for k, (size, ways) in enumerate(levels, 1)]
    return {"name": name, "hierarchy": [{"level": x.level, "size_bytes": x.size_bytes, "ways": x.ways} for x in hierarchy]}


MACHINES = [
    _machine("a", (48 * KIB, 12), (2 * MIB, 16), (32 * MIB, 16)),
    _machine("b", (32 * KIB, 8), (512 * KIB, 8), (16 * MIB, 16)),
    _machine("c", (64 * KIB, 4), (1 * MIB, 16), (64 * MIB, 16)),
]


def _core(arrays: Arrays) -> None:
    """One call into the C core: what the Python path is compared with."""
    levels = parse_levels(MACHINES[0]["hierarchy"], "a")
    simulator = Simulator([[Geometry(level.sets, level.ways, level.line_bytes) for level in levels]])
    simulator.feed(arrays["addresses"], None, arrays["writes"], arrays["blocks"])


def _pycachesim(arrays: Arrays) -> None:
    from cachesim import Cache, CacheSimulator, MainMemory

    memory = MainMemory()
    l3 = Cache("L3", 32768, 16, 64, "LRU")
    l2 = Cache("L2", 2048, 16, 64, "LRU", store_to=l3, load_from=l3)
    l1 = Cache("L1", 64, 12, 64, "LRU", store_to=l2, load_from=l2)
    memory.load_to(l3)
    memory.store_from(l3)
    CacheSimulator(l1, memory).load(arrays["addresses"].astype(np.int64), length=8)


def _kinds() -> dict[str, tuple[Callable[[Arrays], object], Callable[[], float]]]:
    cpu = time.process_time
    kinds: dict[str, tuple[Callable[[Arrays], object], Callable[[], float]]] = {
        "one": (lambda a: simulate_arrays(**a, machines=MACHINES[0]), cpu),
        "one, C core alone": (_core, cpu),
        "three": (lambda a: simulate_arrays(**a, machines=MACHINES), cpu),
        "1/32": (lambda a: simulate_arrays(**a, machines=MACHINES[0], sets=32, set_class=13), cpu),
        "one, wall": (lambda a: simulate_arrays(**a, machines=MACHINES[0]), time.perf_counter),
        "two threads, wall": (lambda a: simulate_arrays(**a, machines=MACHINES[0], jobs=2), time.perf_counter),
    }
    if importlib.util.find_spec("cachesim"):
        kinds["pycachesim, loads only"] = (_pycachesim, cpu)
    return kinds


def measure(million: float) -> dict[str, dict[str, float]]:
    """Return million references a second by stream and kind of work."""
    count = int(million * 1e6)
    results: dict[str, dict[str, float]] = {}
    for name, make in STREAMS.items():
        arrays, best = make(count), {}
        for _ in range(3):
            for kind, (work, clock) in _kinds().items():
                start = clock()
                work(arrays)
                best[kind] = max(best.get(kind, 0.0), count / (clock() - start) / 1e6)
        results[name] = best
    return results


def main() -> None:
    """Print the table, or JSON."""
    words = [word for word in sys.argv[1:] if word != "--json"]
    results = measure(float(words[0]) if words else 52)
    if "--json" in sys.argv:
        print(json.dumps(results, indent=1))
        return
    kinds = list(next(iter(results.values())))
    print(f"{'M references/s':16s}" + "".join(f"{kind:>24s}" for kind in kinds))
    for name, rates in results.items():
        print(f"{name:16s}" + "".join(f"{rates[kind]:24.1f}" for kind in kinds))


if __name__ == "__main__":
    main()

"""Throughput of the cache simulator on five streams, beside pycachesim where it is installed (it is no dependency).

tests/bench/simulator_speed.py [MILLION_REFERENCES] [--json]

CPU time of one core, the best of three runs interleaved over the kinds of work; two threads by elapsed time. ``one`` is one
machine with three levels, ``one, C core alone`` the same without anything around it, ``three`` are three machines in one
pass, ``three, one L1`` those with the first level of the first in all, ``half of the sets`` is what each of two threads does,
by CPU time, ``1/32`` is one class of sets out of all references (references given count, not those simulated). Everything is
in the time: making the simulator and the table of hit rates too.

Where Valgrind is installed, ``cachegrind`` runs a program with these references (kernels/streams.c) and simulates two levels: the
data references that it counts over its CPU time, both less those of the same program with nothing to do. It also executes the
program and simulates its instruction fetches.

Below the table: what two threads that share nothing gain over one on this machine, with work that is all computing (a hash), that
reads memory in order (a sum) or at random (a gather). Two processors that are siblings of one core gain little from any of them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from result_file import write_result
from streams import STREAMS, Arrays

from convolver._native.simulator import Geometry, Simulator
from convolver.machine.hierarchy import Level, parse_levels
from convolver.simulation.one_pass import simulate_arrays

KIB, MIB = 1 << 10, 1 << 20


def _machine(name: str, *levels: tuple[int, int]) -> dict:
    hierarchy = [Level(level=f"L{k}", size_bytes=size, ways=ways) for k, (size, ways) in enumerate(levels, 1)]
    return {"name": name, "hierarchy": [{"level": x.level, "size_bytes": x.size_bytes, "ways": x.ways} for x in hierarchy]}


MACHINES = [
    _machine("a", (48 * KIB, 12), (2 * MIB, 16), (32 * MIB, 16)),
    _machine("b", (32 * KIB, 8), (512 * KIB, 8), (16 * MIB, 16)),
    _machine("c", (64 * KIB, 4), (1 * MIB, 16), (64 * MIB, 16)),
]
ONE_L1 = [{**machine, "hierarchy": [MACHINES[0]["hierarchy"][0], *machine["hierarchy"][1:]]} for machine in MACHINES]


def _core(arrays: Arrays, shares: int = 1) -> None:
    """One call into the C core, on one of so many shares of the sets: what the Python path and threads are compared with."""
    levels = parse_levels(MACHINES[0]["hierarchy"], "a")
    simulator = Simulator([[Geometry(level.sets, level.ways, level.line_bytes) for level in levels]])
    simulator.select(shares - 1, 0)
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
        "half of the sets, C core": (lambda a: _core(a, 2), cpu),
        "three": (lambda a: simulate_arrays(**a, machines=MACHINES), cpu),
        "three, one L1": (lambda a: simulate_arrays(**a, machines=ONE_L1), cpu),
        "1/32": (lambda a: simulate_arrays(**a, machines=MACHINES[0], sets=32, set_class=13), cpu),
        "one, wall": (lambda a: simulate_arrays(**a, machines=MACHINES[0]), time.perf_counter),
        "two threads, wall": (lambda a: simulate_arrays(**a, machines=MACHINES[0], jobs=2), time.perf_counter),
    }
    if importlib.util.find_spec("cachesim"):
        kinds["pycachesim, loads only"] = (_pycachesim, cpu)
    return kinds


def _cachegrind_run(program: Path, name: str, count: int) -> tuple[int, float]:
    """Return the data references that cachegrind counts, and its CPU seconds."""
    caches = ["--I1=32768,8,64", "--D1=49152,12,64", "--LL=33554432,16,64", f"--cachegrind-out-file={program}.out"]
    command = ["valgrind", "-q", "--tool=cachegrind", "--cache-sim=yes", *caches, program, name, str(count)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = Path(f"{program}.out").read_text().splitlines()
    names = next(line for line in lines if line.startswith("events:")).split()[1:]
    sums = next(line for line in lines if line.startswith("summary:")).split()[1:]
    counts = dict(zip(names, map(int, sums), strict=True))
    return counts["Dr"] + counts["Dw"], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cachegrind(million: float) -> dict[str, float]:
    """Return million data references a second by stream, the best of three runs; nothing without Valgrind and gcc."""
    if not (shutil.which("valgrind") and shutil.which("gcc")):
        return {}
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "streams"
        subprocess.run(["gcc", "-O1", "-o", program, Path(__file__).parent / "kernels/streams.c"], check=True)
        for name in STREAMS:
            runs = [(_cachegrind_run(program, name, int(million * 1e6)), _cachegrind_run(program, name, 0)) for _ in range(3)]
            rates[name] = max((all_[0] - idle[0]) / (all_[1] - idle[1]) / 1e6 for all_, idle in runs)
    return rates


def measure(million: float) -> dict[str, dict[str, float]]:
    """Return million references a second by stream and kind of work."""
    count = int(million * 1e6)
    results: dict[str, dict[str, float]] = {}
    for name, make in STREAMS.items():
        arrays, best = make(count), {}
        for _ in range(3):
            for kind, (work, clock) in _kinds().items():
                for array in arrays.values():
                    array.max()  # every kind finds the same in the processor's caches
                start = clock()
                work(arrays)
                best[kind] = max(best.get(kind, 0.0), count / (clock() - start) / 1e6)
        results[name] = best
    return results


def two_threads_at_best() -> dict[str, float]:
    """Return how much faster two independent pieces of work end on two threads than one after the other, the median of nine."""
    generator = np.random.default_rng(2)
    text = b"x" * (8 << 20)
    numbers = [np.ones(8 << 20) for _ in range(2)]
    places = [generator.integers(0, 8 << 20, 2 << 20) for _ in range(2)]
    gathered = [np.empty(2 << 20) for _ in range(2)]
    work: dict[str, Callable[[int], object]] = {
        "a hash": lambda i: hashlib.sha256(text),
        "a sum": lambda i: numbers[i].sum(),
        "a gather": lambda i: np.take(numbers[i], places[i], out=gathered[i], mode="clip"),
    }
    gains = {}
    with ThreadPoolExecutor(2) as pool:
        for name, one in work.items():
            ratios = []
            for _ in range(9):
                start = time.perf_counter()
                list(map(one, range(2)))
                middle = time.perf_counter()
                list(pool.map(one, range(2)))
                ratios.append((middle - start) / (time.perf_counter() - middle))
            gains[name] = statistics.median(ratios)
    return gains


def main() -> None:
    """Print the table, or JSON; ``--store`` writes the result file of the pages."""
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    million = float(words[0]) if words else 52
    results = measure(million)
    for name, rate in cachegrind(min(million, 20)).items():
        results[name]["cachegrind"] = rate
    if "--json" in sys.argv:
        print(json.dumps(results, indent=1))
        return
    kinds = list(next(iter(results.values())))
    print(f"{'M references/s':16s}" + "".join(f"{kind:>26s}" for kind in kinds))
    for name, rates in results.items():
        print(f"{name:16s}" + "".join(f"{rates[kind]:26.1f}" for kind in kinds))
    if "--store" in sys.argv:
        rows = [[name, *(f"{rates[kind]:.4g}" for kind in kinds)] for name, rates in results.items()]
        write_result("simulator", ["stream", *kinds], rows)
    gains = ", ".join(f"{name} x{gain:.2f}" for name, gain in two_threads_at_best().items())
    print(f"two threads that share nothing: {gains}")


if __name__ == "__main__":
    main()

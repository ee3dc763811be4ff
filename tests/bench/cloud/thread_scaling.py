"""Predicts how much all CPUs of cloud machines do over what one does, for the stressors of a public table.

    python tests/bench/cloud/thread_scaling.py --truth throughput.csv --machines machines.csv --stress-ng stress-ng -o run/scaling

The tables (Spare Cores, CC BY-SA 4.0) are not part of this repository. Rows `1` and `all:N` are bogo operations a second of
one stressor on one CPU and on all N. Each stressor is traced here on one CPU, and predicted for a core alone and for one of two
threads of a core (`convolver.machine.project`); N CPUs do N times what one does, of machines with two threads a core beside its
sibling, as far as memory gives them lines (`convolver.convolution.thread_costs`). Beside it: N times, and N over a core's threads
times as fast, as if siblings added all, or nothing. Stressors that measure the kernel or shared lines are left out, as are
those that the given stress-ng does not have: Debian's has `cpu`, `crypt`, `fp` and `heapsort`, 0.20.01 all. Rows of fewer than
`--instances` or above `--most-range` say little. Analyses are kept: the same command goes on after an interruption.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from derive_cloud_machines import slug

from convolver.analyzing.analyze import analyze
from convolver.convolution.block_times import HIT_RATE
from convolver.convolution.convolve import convolve
from convolver.convolution.thread_costs import memory_capacity
from convolver.machine.catalog import find_machine
from convolver.machine.contention import has_siblings
from convolver.machine.project import beside_sibling

sys.path.append(str(Path(__file__).resolve().parents[1]))
from result_file import write_result

OPERATIONS = {
    "crypt": 300,
    "fma": 2000,
    "fractal": 300,
    "expmath": 96,
    "fp": 12,
    "insertionsort": 1,
    "heapsort": 1,
    "bitonicsort": 1,
    "cpu": 90,
    "bubblesort": 1,
}
"""By stressor: whole rounds through its methods, some 0.1 to 1 s."""
LINE_BYTES = 64
LARGE = 32
"""CPUs from which on a machine counts as a large one."""


class Efficiency(NamedTuple):
    """What a CPU does beside its sibling over what it does alone, and the bytes that it brings from memory a second."""

    shared: float
    bytes_a_second: float


def trace(stressor: str, program: str, folder: Path) -> Path | None:
    """Return the trace of a stressor's worker, made unless it is there; None where the program does not have it."""
    path = folder / f"{stressor}-2.cvt"
    if not path.exists():
        work = [program, f"--{stressor}", "1", f"--{stressor}-ops", str(OPERATIONS[stressor])]
        if subprocess.run([*work, "--dry-run"], capture_output=True, check=False).returncode:
            return None
        options = ["--trace-children", "--interval", "1M", "--sample", "30k", "--force", "-o", str(folder / f"{stressor}.cvt")]
        subprocess.run([sys.executable, "-m", "convolver", "trace", *options, "--", *work], capture_output=True, check=True)
    return path


def predicted(path: Path, names: Sequence[str]) -> dict[str, Efficiency]:
    """Return what a trace's work gets on machines of the catalog."""
    alone = [find_machine(name) for name in names]
    shared = [beside_sibling(one) if has_siblings(one) else one for one in alone]
    analysis = analyze(path, [*alone, *(one for one in shared if one not in alone)])
    found = {}
    for name, one, other in zip(names, alone, shared, strict=True):
        times, slower = convolve(analysis, one), convolve(analysis, other)
        last = times.table[HIT_RATE + times.levels[-1]].fill_null(1.0).fill_nan(1.0)
        moved = LINE_BYTES * float(((1 - last).clip(0, None) * times.table["memops"]).sum())
        found[name] = Efficiency(times.seconds / slower.seconds, moved / slower.seconds)
    return found


def truth(path: Path, instances: int, most_range: float) -> dict[str, dict[str, dict[int, float]]]:
    """Return by stressor, CPU and N what N CPUs do over what one does."""
    single: dict[tuple[str, str], float] = {}
    many: dict[tuple[str, str, int], float] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            if row["workload"] not in OPERATIONS or float(row["iqr_over_median"]) > most_range:
                continue
            if row["threads"] == "1":
                single[row["workload"], row["cpu"]] = float(row["median"])
            elif row["threads"].startswith("all:") and int(row["instances"]) >= instances:
                many[row["workload"], row["cpu"], int(row["threads"][4:])] = float(row["median"])
    found: dict[str, dict[str, dict[int, float]]] = {}
    for (stressor, cpu, count), value in many.items():
        if (stressor, cpu) in single:
            found.setdefault(stressor, {}).setdefault(cpu, {})[count] = value / single[stressor, cpu]
    return found


def served(name: str, count: int, own: Efficiency) -> float:
    """Return the part of what ``count`` CPUs of a machine ask memory for that it gives them."""
    capacity = memory_capacity(find_machine(name), count)[0]
    return min(1.0, capacity[-1] / max(count * own.bytes_a_second, 1e-9)) if len(capacity) else 1.0


def share(value: float) -> str:
    """Return a share in per cent."""
    return f"{value:.0%}".replace("%", " %")


def main() -> None:
    """Trace, predict, compare and write ``benchmarks/results/thread-scaling.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument("--machines", type=Path, required=True)
    parser.add_argument("--stress-ng", default="stress-ng")
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--most-range", type=float, default=0.05)
    parser.add_argument("--cpu", action="append", help="this CPU model of the table alone; repeatable")
    parser.add_argument("-o", "--output", type=Path, default=Path("run/scaling"))
    options = parser.parse_args()
    folder = options.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with options.machines.open() as file:
        machines = {row["cpu"]: int(row["threads_per_core"]) for row in csv.DictReader(file) if row["chase_ns_by_KiB"]}
    known = truth(options.truth, options.instances, options.most_range)
    cpus = [one for one in machines if any(one in of for of in known.values()) and (not options.cpu or one in options.cpu)]
    rows: list[list[str]] = []
    every: dict[str, list[float]] = {"": [], "whole_": [], "cores_": []}
    large: dict[str, list[float]] = {name: [] for name in every}
    for stressor in OPERATIONS:
        kept = folder / f"{stressor}.json"
        if not kept.exists():
            path = trace(stressor, options.stress_ng, folder)
            if path is None:
                continue
            kept.write_text(json.dumps(predicted(path, [slug(cpu) for cpu in cpus])))
        says = {name: Efficiency(*one) for name, one in json.loads(kept.read_text()).items()}
        errors: dict[str, list[float]] = {name: [] for name in every}
        per_cpu = []
        for cpu, counts in known[stressor].items():
            if cpu not in cpus or slug(cpu) not in says:
                continue
            own = says[slug(cpu)]
            for count, measured in counts.items():
                limit = served(slug(cpu), count, own)
                for name, guess in {"": count * own.shared * limit, "whole_": count, "cores_": count / machines[cpu]}.items():
                    errors[name].append(guess / measured - 1)
                    if count >= LARGE:
                        large[name].append(guess / measured - 1)
                per_cpu.append((own.shared * limit, measured / count))
        if not per_cpu:
            continue
        middle = [median(values) for values in zip(*per_cpu, strict=True)]
        medians = [median(map(abs, values)) for values in errors.values()]
        rows.append([stressor, str(len(per_cpu)), *(f"{value:.2f}" for value in middle), *map(share, medians)])
        print(*rows[-1], flush=True)
        for name, values in errors.items():
            every[name] += values
    values = {"stressors": str(len(rows)), "rows": str(len(every[""])), "cpus": str(len(cpus))}
    for name, found in every.items():
        values |= {f"{name}median": share(median(map(abs, found))), f"{name}worst": share(max(map(abs, found)))}
        values[f"{name}large"] = share(median(map(abs, large[name]))) if large[name] else "-"
    values["large_rows"] = str(len(large[""]))
    columns = ["stressor", "rows", "predicted of N", "measured of N", "error", "error of N times", "error of all cores"]
    print(values, write_result("thread-scaling", columns, rows, values))


if __name__ == "__main__":
    main()

"""Derives the cloud machines of `convolver/machine/data/cloud/` from a public table of what cloud CPUs do.

    python tests/bench/cloud/derive_cloud_machines.py machines.csv [throughput.csv]

The table (Spare Cores, CC BY-SA 4.0, medians over at least 8 instances of one CPU model; the derived files keep that license) has
caches as reported, the latency of random loads by working set, and bandwidths. In a random walk over S bytes a cache of C bytes
holds the share C / S, so that latency = sum of shares x latencies: L1's from the largest set with room in it, L2's from the next,
and the rest by least squares over the effective capacity of the last level, its latency and memory's. Factors are those to the
base, a measured machine of the nearest core: clock by L1's latency and stores to L1, else by L1's and L2's latencies, in the
cycles that they take (the higher of both: what else runs on a core makes it slower, never faster), memory and last level by the
base's own chase, L2 by its cycles. The kernel's costs are those of the measured machine with the fewest cycles for a system call,
by the clock: virtual machines that the others were measured in add their own (1.2 to 2.1 us for a page that is filled in advance,
0.4 there). The most CPUs are those of the largest machine with rows `all:N` in the second table, where it is given, or of one
processor whose name says how many cores it has. `--check` derives the measured machines from one another and stores how far they
are from what was measured: medians over the points of log(derived / measured), its size and with its sign.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
import numpy as np
from scipy.optimize import nnls

from convolver.machine.catalog import find_machine
from convolver.machine.derived import DERIVED_SUFFIX, Derivation
from convolver.machine.profile import MEMORY, MOST_CPUS, MachineProfile

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from result_file import write_result  # noqa: E402

FOLDER = HERE.parents[2] / "convolver" / "machine" / "data" / "cloud"
SOURCE = (
    "Spare Cores inspector data (github: SpareCores/sc-inspector-data, CC BY-SA 4.0), medians over instances; "
    "this file keeps that license."
)
DEVIATION = 0.25
"""Of the logarithm of costs beyond L2, about what `--check` shows."""
MEASURED = {
    "cloud-server": "Intel(R) Xeon(R) 6975P-C",
    "cloud-epyc-milan": "AMD EPYC 7R13 Processor",
    "cloud-epyc-genoa": "AMD EPYC 9V74 80-Core Processor",
    "cloud-epyc-turin": "AMD EPYC 9B45",
}
"""The measured machines, and rows of the table with their CPU and a curve. Turin's VM does not say which CPU it has; this one has
its core and its last level."""
ALL = "all:"
"""Begins the threads of a row that was measured on all CPUs of a machine."""
GOLDEN_COVE = (143, 173, 207)
STORING = (23, 25)
"""Families of AMD's cores that take one store of 16 bytes a cycle, as the public tool makes them: Zen to Zen 4."""
FEW = 3
"""CPUs of one core, from which on their median counts."""


class Core(NamedTuple):
    """The measured machine with the nearest core, family and model number of the core table, and the cycles of L1 and L2 for a
    load whose address was just loaded, as makers and Fog's tables say."""

    base: str
    family: int
    model: int
    cycles: tuple[float, float]


def core(family: int, model: int) -> Core:
    """Return what stands for a CPU's core."""
    if family > 25:
        return Core("cloud-epyc-turin", 26, 2, (4, 14))
    if family == 25 and model >= 16:
        return Core("cloud-epyc-genoa", 25, 17, (4, 14))
    if family != 6:
        return Core("cloud-epyc-milan", family, model, (4, 12))
    if model in GOLDEN_COVE:
        return Core("cloud-server", 6, 143, (5, 16))
    if model == 106:
        return Core("cloud-server", 6, model, (5, 14))
    return Core("cloud-server", 6, model, (4, 12)) if model == 79 else Core("cloud-server", 6, 85, (4, 14))


class Latencies(NamedTuple):
    """What a row's curve says: nanoseconds of each level, and the effective last level in bytes."""

    l1: float
    l2: float
    l3: float
    memory: float | None
    capacity: float


def latencies(row: dict[str, str]) -> Latencies | None:
    """Return what the curve of random loads says; None without one."""
    pairs = [item.split(":") for item in row["chase_ns_by_KiB"].split(";") if item]
    points = [(int(size) * 1024, float(value)) for size, value in pairs]
    if len(points) < 6:
        return None
    c1, c2, c3 = (float(row[name]) for name in ("l1d_bytes", "l2_bytes", "l3_bytes"))
    l1 = max((size, value) for size, value in points if size <= 0.7 * c1)[1]
    near = [(size, value) for size, value in points if 1.5 * c1 <= size <= 0.6 * c2]
    l2 = median((value - c1 / size * l1) / (1 - c1 / size) for size, value in near)
    far = [(size, value) for size, value in points if size >= 2 * c2]
    best: tuple[float, Latencies] | None = None
    for capacity in np.geomspace(max(0.1 * c3, 3 * c2), c3, 40):
        one, two, three = (np.minimum(1, size / np.array([s for s, _ in far])) for size in (c1, c2, capacity))
        left = np.array([value for _, value in far]) - one * l1 - (two - one) * l2
        weight = 1 / np.array([value for _, value in far])
        found, cost = nnls(np.column_stack([(three - two) * weight, (1 - three) * weight]), left * weight)
        memory = float(found[1]) if found[1] > 1.5 * found[0] else None
        if best is None or cost < best[0] - 1e-9:
            best = (float(cost), Latencies(l1, l2, float(found[0]), memory, float(capacity)))
    return None if best is None else best[1]


def bandwidths(row: dict[str, str]) -> dict[tuple[int, str, str], float]:
    """Return bytes a second by working set, operation and number of threads."""
    found = {}
    for item in row["MBps_by_KiB/operation/threads"].split(";"):
        if item:
            key, value = item.split(":")
            size, operation, threads = key.split("/")
            found[int(size) * 1024, operation, threads] = float(value) * 1e6
    return found


def store_nanoseconds(row: dict[str, str]) -> float | None:
    """Return the nanoseconds of a core's cycle by its stores to L1, of one thread or of both that a core has; None where there
    are none, or they say nothing of it."""
    if int(row["family"]) not in STORING:
        return None
    of_a_core = ("1", "2") if row["threads_per_core"] == "2" else ("1",)
    found = bandwidths(row)
    return next((16e9 / found[16384, "write", one] for one in of_a_core if (16384, "write", one) in found), None)


def bandwidth_factor(
    own: dict[str, str], base: dict[str, str], first: float, last: float, base_first: float, base_last: float
) -> float | None:
    """Return the bandwidth between two working sets over the base's with as many threads; None where either has none."""

    def level(row: dict[str, str], low: float, high: float) -> dict[tuple[str, str], float]:
        kept: dict[tuple[str, str], list[float]] = {}
        for (size, operation, threads), value in bandwidths(row).items():
            if low <= size <= high:
                kept.setdefault((operation, threads), []).append(value)
        return {key: median(values) for key, values in kept.items()}

    ours, theirs = level(own, first, last), level(base, base_first, base_last)
    factors = [ours[key] / theirs[key] for key in ours.keys() & theirs.keys()]
    return median(factors) if factors else None


def memory_bandwidths(row: dict[str, str]) -> dict[int, float]:
    """Return the bytes a second that several busy CPUs read together, by their number: of the largest working set."""
    read = {(int(threads), size): value for (size, operation, threads), value in bandwidths(row).items() if operation == "read"}
    largest = max((size for _, size in read), default=0)
    return {threads: value for (threads, size), value in sorted(read.items()) if size == largest and threads > 1}


def machine_sizes(throughput: Iterable[dict[str, str]]) -> dict[str, list[int]]:
    """Return by CPU how many of them machines had on all of which something was measured."""
    found: dict[str, list[int]] = {}
    for row in throughput:
        if row["threads"].startswith(ALL):
            found.setdefault(row["cpu"], []).append(int(row["threads"].removeprefix(ALL)))
    return found


def most_cpus(row: dict[str, str], machines: Sequence[int]) -> int:
    """Return the CPUs of the largest machine, or of one whole processor by its name; 0 where neither is known."""
    named = re.search(r"(\d+)-Core", row["cpu"])
    return max(int(named[1]) * int(row["threads_per_core"]) if named else 0, *machines, 0)


def slug(cpu: str) -> str:
    """Return a name for a CPU: ``cloud-epyc-7r13``."""
    if cpu.startswith("AMD EPYC-"):  # what a hypervisor calls a CPU, whichever it is
        cpu = cpu.replace("AMD EPYC-", "kvm-epyc-")
    words = re.sub(r"\(R\)|CPU|Processor|\d+-Core|GHz|@|AMD|Intel", " ", cpu).lower()
    return "cloud-" + re.sub(r"[^a-z0-9.]+", "-", words).strip("-").replace(".", "")


def level_latencies(profile: MachineProfile) -> tuple[float, float, float, float]:
    """Return nanoseconds of L1, L2, L3 and memory that the profile's own chase shows, on huge pages where it was there."""
    levels, chase = profile.hierarchy, profile.curve("chase")
    by_size = {point.working_set_bytes: 1e9 * point.seconds_per_reference for point in chase.points}

    def at(first: float, last: float) -> float:
        return median(value for size, value in by_size.items() if first <= size <= last)

    known = profile.calibration
    l3 = 1e9 * known.latency[1] if known is not None else at(2 * levels[1].size_bytes, levels[2].size_bytes)
    huge = [curve for curve in profile.huge_maps if curve.pattern == "chase"]
    memory = median(1e9 * point.seconds_per_reference for point in huge[0].points[-3:]) if huge else by_size[max(by_size)]
    return at(0, levels[0].size_bytes / 2), at(1.5 * levels[0].size_bytes, 4 * levels[0].size_bytes), l3, memory


def cycle(machine: str, rows: Mapping[str, dict[str, str]]) -> float:
    """Return the nanoseconds of a measured machine's cycle, by its walk in L1."""
    row = rows[MEASURED[machine]]
    return level_latencies(find_machine(machine))[0] / core(int(row["family"]), int(row["model"])).cycles[0]


def cheapest_kernel(rows: Mapping[str, dict[str, str]]) -> str:
    """Return the measured machine on which a system call takes the fewest cycles."""

    def cycles(machine: str) -> float:
        return next(cost.seconds for cost in find_machine(machine).kernel if cost.name == "call.least") / cycle(machine, rows)

    return min(MEASURED, key=cycles)


def walked_cycles(like: Core, rows: Mapping[str, dict[str, str]]) -> float:
    """Return the cycles that the public tool's walk takes in L2 on a core, by those in L1: the median of its CPUs, since what
    else runs makes some walks slower. Of a core with few CPUs, those published and what the walk adds to them on the base's."""

    def seen(one: Core) -> list[float]:
        same = (latencies(row) for row in rows.values() if core(int(row["family"]), int(row["model"])) == one)
        return [known.l2 / known.l1 * one.cycles[0] for known in same if known is not None]

    own = seen(like)
    if len(own) >= FEW:
        return median(own)
    base_row = rows[MEASURED[like.base]]
    base = core(int(base_row["family"]), int(base_row["model"]))
    return like.cycles[1] + median(seen(base)) - base.cycles[1]


def derivation(
    row: dict[str, str], rows: dict[str, dict[str, str]], base_name: str = "", machines: Sequence[int] = ()
) -> Derivation | None:
    """Return the changes that make the base this CPU; None without a curve of it. ``machines``: CPUs of those that have it."""
    own = latencies(row)
    if own is None:
        return None
    like = core(int(row["family"]), int(row["model"]))
    base_name = base_name or like.base
    base = find_machine(base_name)
    base_row = rows[MEASURED[base_name]]
    base_core, base_own = core(int(base_row["family"]), int(base_row["model"])), latencies(base_row)
    assert base_own is not None
    first, _, last, memory = level_latencies(base)
    other = store_nanoseconds(row) or own.l2 / walked_cycles(like, rows)
    clock = first / base_core.cycles[0] / min(own.l1 / like.cycles[0], other)
    second = {} if like.cycles[1] == base_core.cycles[1] else {"L2": round(like.cycles[1] / base_core.cycles[1], 3)}
    far = own.memory if own.memory is not None else base_own.memory
    assert far is not None
    c2, c3 = float(row["l2_bytes"]), own.capacity
    b2, b3 = float(base_row["l2_bytes"]), base_own.capacity
    streams = bandwidth_factor(row, base_row, 3 * c3, math.inf, 3 * b3, math.inf) or math.sqrt(memory / far)
    inside = bandwidth_factor(row, base_row, 2 * c2, c3 / 2, 2 * b2, b3 / 2) or last / own.l3
    step = 2 ** (math.floor(math.log2(c3)) - 2)
    sets = ["avx", "avx2", "fma", "sse2", *(["avx512f"] if like.model in (85, 106) else [])]
    cpu: dict[str, Any] = {"model": row["cpu"], "vendor": base.cpu["vendor"]}
    cpu |= {"family": str(like.family), "model_number": str(like.model)}
    cpu["vector_sets"] = list(base.cpu["vector_sets"]) if like == base_core else sets
    cpu["threads_per_core"] = int(row["threads_per_core"])
    if most := most_cpus(row, machines):
        cpu[MOST_CPUS] = most
    kernel = cheapest_kernel(rows)
    return Derivation(
        name=slug(row["cpu"]),
        base=base_name,
        base_id=base.id,
        cpu=cpu,
        sizes={"L1": int(row["l1d_bytes"]), "L2": int(row["l2_bytes"]), "L3": int(round(c3 / step) * step)},
        latencies={**second, "L3": round(own.l3 / last, 3), MEMORY: round(far / memory, 3)},
        bandwidths={"L3": round(inside, 3), MEMORY: round(streams, 3)},
        clock=round(clock, 3),
        kernel_base="" if kernel == base_name else kernel,
        kernel_clock=1.0 if kernel == base_name else round(cycle(kernel, rows) / cycle(base_name, rows) * clock, 3),
        deviation=DEVIATION,
        memory_bandwidths=memory_bandwidths(row),
        source=f"{row['instances']} instances. {SOURCE}",
    )


def curve_errors(derived: MachineProfile, measured: MachineProfile) -> dict[str, list[float]]:
    """Return log(derived / measured) of the single-threaded curves' points, by the level that they fit into."""
    others = {(curve.kernel, curve.threads, curve.beside): curve for curve in derived.maps}
    errors: dict[str, list[float]] = {}
    for curve in measured.maps:
        other = others.get((curve.kernel, curve.threads, curve.beside))
        if other is None or curve.threads != 1 or curve.beside:
            continue
        sizes = np.log([point.working_set_bytes for point in other.points])
        values = np.log([point.seconds_per_reference for point in other.points])
        for point in curve.points:
            size = point.working_set_bytes
            home = next((level.level for level in measured.hierarchy_reported if size <= level.size_bytes), MEMORY)
            error = float(np.interp(math.log(size), sizes, values)) - math.log(point.seconds_per_reference)
            errors.setdefault(home, []).append(error)
    return errors


def check(rows: dict[str, dict[str, str]]) -> None:
    """Derive each measured machine from each one; print and store the errors of its curves by level."""
    table = []
    for target, cpu in MEASURED.items():
        for base in MEASURED:
            found = derivation(rows[cpu], rows, base)
            assert found is not None
            errors = curve_errors(found.apply(find_machine(base)), find_machine(target))
            table.append([target, base, *(f"{median(map(abs, found)):.2f} ({median(found):+.2f})" for found in errors.values())])
            print(*table[-1], sep=", ")
    write_result("derived-machines", ["machine", "from", *errors], table)


def main() -> None:
    """Write a file for each CPU with a curve, or check the method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("throughput", type=Path, nargs="?", default=os.devnull)
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    parser.add_argument(
        "--check", action="store_true", help="derive measured machines; write benchmarks/results/derived-machines.json"
    )
    options = parser.parse_args()
    with options.table.open() as file:
        rows = {row["cpu"]: row for row in csv.DictReader(file)}
    if options.check:
        check(rows)
        return
    with options.throughput.open() as file:
        machines = machine_sizes(csv.DictReader(file))
    options.output.mkdir(parents=True, exist_ok=True)
    for row in rows.values():
        found = derivation(row, rows, machines=machines.get(row["cpu"], ()))
        if found is not None:
            path = options.output / f"{found.name}{DERIVED_SUFFIX}"
            path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
            changes = f"clock {found.clock:5.2f}  latencies {found.latencies}  bandwidths {found.bandwidths}"
            print(f"{found.name:32s} {found.base:17s} {[size >> 10 for size in found.sizes.values()]} KiB  {changes}")


if __name__ == "__main__":
    main()

"""Core time of small functions whose data stay in the first level: predicted against measured cycles of a call.

Two sets of functions, each built three times (-O1, -O2, -O3 for x86-64-v3): those that the model was developed with (looked_at)
and those that were written before the model was run on any (frozen). Both are measured here, over a calibrated clock, and traced
in full; a call's cycles are those of twice the calls less those of the calls, so that predictors are trained in both. ``--builds
v4`` builds them with vectors of 64 bytes, for CPUs that have AVX-512.

    python tests/bench/core_time_errors.py [--set looked_at|frozen|both] [--calls 100] [--rounds 5] [--machine NAME] [--json]
        [--builds O1 O2 O3 v4]
        [--seed none|published|CORE ...] [--facts] [--store core-time-zen5] [--times FILE [--only-measure]] [--shifts 0 16 32 48]

Samples count during which nothing else ran on the core. --times keeps what was measured in a file, from which the next run takes
it: timings want a quiet machine, predictions do not. A loop takes up to twice as long where it crosses a line of code, on cores
as in the model: the file says which code was measured, and --shifts builds all anew with so many bytes before the functions.

With --machine the same functions are predicted from each table of --seed and from that table with the machine's probes: ``none``
is a core of round numbers that nobody makes (core/neutral.toml), beside which probes stand with nothing entered by hand. --facts
then lists what no probe measured, and the errors with each of these taken from the published table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import product
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypedDict

import numpy as np
from core_seeds import NONE, PROBED, PUBLISHED, label_of, seeded_tables, unmeasured, with_fact
from result_file import write_result
from walk_speed import timed_walks

from convolver.execution.core_time import PLAN, Walk, core_times, decoded_paths
from convolver.execution.program import DecodedCode, operations
from convolver.execution.static import static_cycles
from convolver.machine.catalog import find_machine
from convolver.machine.cores import CoreTable
from convolver.machine.this_machine import describe_cpu
from convolver.probing.machine_probe import default_cpu
from convolver.tracing.reader import Trace

FOLDER = Path(__file__).parent / "core"
WIDEST = "v4"
BUILDS = {
    **{"O1": ["-O1"], "O2": ["-O2"], "O3": ["-O3", "-march=x86-64-v3"]},
    WIDEST: ["-O3", "-march=x86-64-v4", "-mprefer-vector-width=512"],
}
USUAL = [name for name in BUILDS if name != WIDEST]
ENGINES = {WIDEST: ["--engine", "native"]}
"""Of the build that Valgrind does not run."""
NEEDED = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
"""Flags of a CPU that runs it."""
CALLED = {"fib": "recursion", "hanoi": "towers"}
"""Functions that others call."""
EVERY = PLAN._replace(most=1 << 20)
NO_ERROR = 1e-9
"""All of the path is walked: what a sample tells of a program within one percent it tells of a small function within 30."""


def build(folder: Path, name: str, shift: int = 0) -> Path:
    """Compile one build of all functions, with so many bytes before them."""
    program, before = folder / f"{name}-{shift}", folder / f"{shift}.s"
    before.write_text(f'.text\n.fill {shift}, 1, 0x90\n.section .note.GNU-stack, "", @progbits\n')
    sources = [FOLDER / "main.c", before, *(FOLDER / file for file in ("looked_at.c", "frozen.c"))]
    subprocess.run(["gcc", "-g", *BUILDS[name], "-o", program, *sources, "-lm"], check=True)
    return program


def code_of(program: Path) -> str:
    """Return a digest of a program's code, which says where all of it lies, too."""
    with TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        subprocess.run(["objcopy", "-O", "binary", "--only-section=.text", program, text], check=True)
        return sha256(text.read_bytes()).hexdigest()


def measure(program: Path, which: str, calls: int, rounds: int) -> dict[str, float]:
    """Return measured cycles of a call, of those that are traced: the least of rounds. On one CPU: co-runners differ."""
    found: dict[str, float] = {}
    for _ in range(rounds):
        command = ["taskset", "-c", str(default_cpu()), str(program), "measure", which, str(calls)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        for name, cycles in (line.split() for line in done.stdout.splitlines()):
            found[name] = min(found.get(name, float("inf")), float(cycles) or float("inf"))
    return found


def trace(program: Path, which: str, calls: int, engine: Sequence[str] = ()) -> Trace:
    """Trace so many calls of each function, every path and address."""
    output = program.with_name(f"{program.name}-{which}-{calls}.cvt")
    words = ["trace", *engine, "--full", "--paths", "--force", "-o", str(output), "--", str(program), "run", which, str(calls)]
    subprocess.run([sys.executable, "-m", "convolver", *words], check=True, capture_output=True)
    return Trace.load(output)


def by_function(trace: Trace, cycles: Any) -> dict[str, float]:
    """Sum cycles times executions over the blocks of each function."""
    table = trace.signature.table
    sums: dict[str, float] = {}
    for name, each, executions in zip(table["function"], cycles, table["executions"], strict=True):
        if name:
            name = CALLED.get(name, name)
            sums[name] = sums.get(name, 0.0) + each * executions
    return sums


class Predicted(NamedTuple):
    """Cycles of each function by windows and by code alone, and million instructions walked a second."""

    windows: dict[str, float]
    static: dict[str, float]
    speed: float


def predict(trace: Trace, tables: Sequence[CoreTable]) -> list[Predicted]:
    """Predict the functions of a trace from each table."""
    sample = decoded_paths(trace, EVERY)
    with timed_walks() as clock:
        walked = core_times(trace, [[Walk(table, 64, target=NO_ERROR)] for table in tables], sample=sample)
    blocks = trace.blocks
    every = blocks.counts["executions"].nonzero()[0]
    code = DecodedCode(trace.definitions)
    found = []
    for table, (one,) in zip(tables, walked, strict=True):
        static, _ = static_cycles(blocks, operations(code, table), table, every)
        windows = by_function(trace, one.table["cycles_per_execution"])
        found.append(Predicted(windows, by_function(trace, static), clock.speed))
    return found


class Measured(TypedDict):
    """Measured cycles of a call of each function, and the code that they are of."""

    code: str
    cycles: dict[str, float]


Times = dict[str, Measured]
"""What was measured by set, build and shift."""


class Runs(NamedTuple):
    """What is asked for: sets, builds of them, and bytes before their functions."""

    sets: Sequence[str]
    builds: Sequence[str]
    shifts: Sequence[int]


def times_of(folder: Path, runs: Runs, calls: int, rounds: int, kept: Path | None) -> Times:
    """Return what is measured of all builds of some sets: what a file keeps, which is written with the others."""
    found: Times = json.loads(kept.read_text()) if kept and kept.exists() else {}
    for which, name, shift in product(*runs):
        key, program = f"{which} {name} {shift}", build(folder, name, shift)
        if key not in found:
            found[key] = {"code": code_of(program), "cycles": measure(program, which, calls, rounds)}
            if kept:
                kept.write_text(json.dumps(found, indent=1))
        if found[key]["code"] != code_of(program):
            sys.exit(f"{kept}: {key} is of other code than is built here; measure it anew.")
    return found


def rows(folder: Path, runs: Runs, calls: int, times: Times, tables: Mapping[str, CoreTable]) -> list[dict[str, Any]]:
    """Predict some sets in all builds from each table, beside what was measured."""
    found = []
    for which, name, shift in product(*runs):
        program = build(folder, name, shift)
        cycles_of = times[f"{which} {name} {shift}"]["cycles"]
        measured = {function: cycles for function, cycles in cycles_of.items() if cycles < float("inf")}
        once, twice = (predict(trace(program, which, n, ENGINES.get(name, ())), [*tables.values()]) for n in (calls, 2 * calls))
        for label, first, second in zip(tables, once, twice, strict=True):
            for function, cycles in measured.items():
                window, static = ((second[way][function] - first[way][function]) / calls for way in (0, 1))
                errors = {"error": window / cycles - 1, "static_error": static / cycles - 1}
                about = {"set": which, "table": label, "build": name, "shift": shift, "function": function, "speed": second.speed}
                found.append({**about, "measured": cycles, "predicted": window, "static": static, **errors})
    return found


def summary(found: list[dict[str, Any]]) -> list[list[str]]:
    """Return the rows of the pages' table: a set and a table with their errors each, and those from the code alone."""
    rows = []
    ways = [(which, table, "error", table) for which, table in dict.fromkeys((row["set"], row["table"]) for row in found)]
    ways += [
        (which, PUBLISHED, "static_error", "published, from the code alone")
        for which in dict.fromkeys(which for which, table, *_ in ways if table == PUBLISHED)
    ]
    for which, table, way, label in sorted(ways, key=lambda one: one[0], reverse=True):
        errors = np.array([row[way] for row in found if (row["set"], row["table"]) == (which, table)])
        within = np.mean(np.abs(errors) <= 0.2)
        figures = (np.mean(np.abs(errors)), np.median(np.abs(errors)))
        cells = [*(f"{100 * one:.1f} %" for one in figures), f"{100 * np.median(errors):+.1f} %", f"{100 * within:.0f} %"]
        rows.append([f"{which}, {len(errors)}", label, *cells])
    return rows


def without_facts(found: list[dict[str, Any]], facts: Mapping[str, tuple[str, str]]) -> list[list[str]]:
    """Return a row a fact that no probe measures: what is made up, what is published, and the median and mean error of each set
    with the published one; first those with none, last with all."""
    probed = label_of(NONE, probed=True)
    labels = {"nothing published": probed, **{name: name for name in facts}, "all published": PROBED}
    sets = [*dict.fromkeys(row["set"] for row in found)]
    lines = []
    for name, label in labels.items():
        errors = [[abs(row["error"]) for row in found if (row["set"], row["table"]) == (which, label)] for which in sets]
        cells = [f"{100 * median(one):.1f} / {100 * mean(one):.1f} %" for one in errors]
        lines.append([name, *facts.get(name, ("", "")), *cells])
    return lines


def report(found: list[dict[str, Any]]) -> None:
    """Print a table and the errors of each set."""
    columns = ["set", "table", "function", "build", "shift", "measured", "predicted", "error", "from the code alone"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in sorted(found, key=lambda one: (one["set"], one["table"], one["function"], one["build"], one["shift"])):
        numbers = (
            f"{row['measured']:.0f} | {row['predicted']:.0f} | {100 * row['error']:+.0f} % | {100 * row['static_error']:+.0f} %"
        )
        print(f"| {row['set']} | {row['table']} | {row['function']} | {row['build']} | {row['shift']} | {numbers} |")
    for which, table in dict.fromkeys((row["set"], row["table"]) for row in found):
        chosen = [row for row in found if (row["set"], row["table"]) == (which, table)]
        for way, label in (("error", "windows"), ("static_error", "code alone")):
            errors = [abs(row[way]) for row in chosen]
            within = sum(error <= 0.2 for error in errors) / len(errors)
            print(
                f"{which}, {table}, {label}: mean {100 * mean(errors):.1f} %, median {100 * median(errors):.1f} %, "
                f"within 20 %: {100 * within:.0f} % of {len(errors)}"
            )
    print(f"median {median(row['speed'] for row in found):.1f} M instructions/s walked")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=["looked_at", "frozen", "both"], default="both")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5, help="measurements of a set, seconds each")
    parser.add_argument("--machine", help="profile whose probes calibrate the core table")
    parser.add_argument("--seed", nargs="+", default=[PUBLISHED], metavar="none|published|CORE", help="tables to predict from")
    parser.add_argument("--facts", action="store_true", help="errors with each fact that no probe of --machine measures")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--builds", nargs="+", choices=[*BUILDS], default=USUAL)
    parser.add_argument("--times", type=Path, metavar="FILE", help="measured cycles, which are taken from there if it is there")
    parser.add_argument("--only-measure", action="store_true")
    parser.add_argument(
        "--shifts", type=int, nargs="+", default=[0], metavar="BYTES", help="builds with so many before the functions"
    )
    parser.add_argument("--store", metavar="NAME", help="write benchmarks/results/NAME.json for the pages")
    options = parser.parse_args()
    machine = find_machine(options.machine) if options.machine else None
    facts = unmeasured(machine) if machine and options.facts else {}
    tables = seeded_tables([NONE, PUBLISHED] if facts else options.seed, machine)
    if machine:
        tables |= {name: with_fact(name, machine) for name in facts}
    sets = ["looked_at", "frozen"] if options.set == "both" else [options.set]
    if WIDEST in options.builds and not set(describe_cpu()["instruction_sets"]) >= NEEDED:
        sys.exit("This CPU lacks AVX-512, so the build v4 does not run here.")
    runs = Runs(sets, options.builds, options.shifts)
    with TemporaryDirectory() as folder:
        times = times_of(Path(folder), runs, options.calls, options.rounds, options.times)
        if options.only_measure:
            return
        found = rows(Path(folder), runs, options.calls, times, tables)
    if options.json:
        print(json.dumps(found))
    elif facts:
        print("\n".join(" | ".join(line) for line in without_facts(found, facts)))
    else:
        report(found)
    if options.store and facts:
        write_result(options.store, ["fact", "made up", "published", *sets], without_facts(found, facts))
    elif options.store:
        frozen = [abs(row["error"]) for row in found if (row["set"], row["table"]) == ("frozen", PUBLISHED)]
        values = {"median": f"{100 * median(frozen):.1f} %"} if frozen else None
        columns = ["set", "core table", "mean", "median", "signed median", "within 20 %"]
        write_result(options.store, columns, summary(found), values)


if __name__ == "__main__":
    main()

"""What a longer run costs to store and to predict, and how far its prediction is from that of the full trace.

``python tests/bench/run_length.py [--side 60] [--repeats 1,10,100] [--full-side 20] [--full-repeats 1,10]``. The program is the
solve of examples/cg.c, repeated. Size and processor
time of each length, by the default plan; then, of a smaller problem, local miss rates of blocks and the program's seconds by the
default plan against those of the full trace: the largest deviation in stated standard errors, and relative.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

import polars as pl
from result_file import write_result

from convolver.analyzing.analyze import analyze
from convolver.analyzing.program_analysis import Analysis
from convolver.convolution.convolve import convolve
from convolver.machine.catalog import find_machine
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace

SOLVE = Path(__file__).resolve().parents[2] / "examples" / "cg.c"
MACHINES = ("cloud-epyc-milan", "cloud-server")
RUNS = 3
LEAST = 0.01
REPEATED = """#include <stdlib.h>
#include <sys/mman.h>
static struct {{ void *at; size_t bytes; }} kept[16];
static int count;
static void *keep(size_t elements, size_t size)
{{
    void *at = mmap(0, elements * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    kept[count].at = at, kept[count++].bytes = elements * size;
    return at == MAP_FAILED ? 0 : at;
}}
#define calloc keep
#define free(memory) (void)(memory)
#define main once
#include "{source}"
#undef main
int main(int argc, char **argv)
{{
    int wrong = 0;
    for (int left = atoi(argv[2]); left > 0; left--) {{
        wrong |= once(argc - 1, argv);
        for (; count; count--)
            munmap(kept[count - 1].at, kept[count - 1].bytes);
    }}
    return wrong;
}}
"""
"""Each solve gives its memory back: the program leaves most of it to its end, and hours of solves need more than there is. It is
mapped, since what the heap gives a second time must be cleared: the first solve would be another."""


class Agreement(NamedTuple):
    """Of one machine: by level, over blocks of at least 1 % of the accesses whose rate is stated with an error, how many standard
    errors and how much of the rate (largest each) lie between the local miss rates of the sampled and of the full trace; the
    program's seconds by both, and the error and the ends of the 90 % interval that are stated of the sampled one's."""

    machine: str
    levels: list[str]
    deviations: list[float]
    relative: list[float]
    full_seconds: float
    seconds: float
    error: float
    interval: tuple[float, float]


def build(folder: Path) -> Path:
    """Compile the program: SIDE and how often it solves are its arguments."""
    source, program = folder / "repeated.c", folder / "repeated"
    source.write_text(REPEATED.format(source=SOLVE))
    subprocess.run(["cc", "-g", "-O2", "-o", program, source, "-lm"], check=True)
    return program


def deviations(full: Analysis, sampled: Analysis, machine: str, level: str) -> tuple[float, float]:
    """Return the largest deviation of a block's local miss rate in standard errors, and as a share of it."""
    rates = [one.hit_rates for one in (full, sampled)]
    of_level = (pl.col("machine") == machine) & (pl.col("level") == level)
    tables = [one.table.filter(of_level) for one in rates if one is not None]
    rate, other = pl.col("misses") / pl.col("accesses"), pl.col("misses_right") / pl.col("accesses_right")
    error = pl.col("standard_error_right")
    stated = tables[0].join(tables[1], on="block").filter(error > 0, pl.col("accesses") >= LEAST * pl.col("accesses").sum())
    found = stated.select(
        ((other - rate).abs() / error).max(), ((other - rate).abs() / rate).filter(rate > 0).max().alias("part")
    )
    return tuple(value or 0.0 for value in found.row(0))


def agreements(command: list[str], folder: Path) -> list[Agreement]:
    """Trace a command in full and by the default plan, and compare."""
    full, sampled = (
        analyze(trace(command, output=folder / f"{name}.cvt", sampling=plan), list(MACHINES))
        for name, plan in (("full", SamplingPlan(mode="full", paths=True)), ("sampled", SamplingPlan()))
    )
    found = []
    for name in MACHINES:
        levels = list(sampled.of(find_machine(name)).levels)
        apart = [deviations(full, sampled, name, level) for level in levels]
        whole, times = convolve(full, name), convolve(sampled, name)
        cores = [one.header["core_error"] * one.seconds for one in (whole, times)]  # each walks windows of its own
        error = math.hypot(float((times.table["sampling_seconds"] ** 2).sum() ** 0.5), *cores)
        ends = (float(times.interval[0]), float(times.interval[1]))
        columns = [list(column) for column in zip(*apart, strict=True)]
        found.append(Agreement(name, levels, *columns, whole.seconds, times.seconds, error, ends))
    return found


def processor_seconds(words: list[str], cache: Path) -> float:
    """Return the processor time of a command of Convolver."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-m", "convolver", *words]
    subprocess.run(words, check=True, capture_output=True, env=environment | {"CONVOLVER_CACHE": str(cache)})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cost(command: list[str], folder: Path, engine: str) -> tuple[float, float, float, float]:
    """Return megabytes of the trace, processor seconds of tracing, of a first prediction and of one more."""
    cvt = folder / "long.cvt"
    traced = processor_seconds(["trace", "--engine", engine, "--force", "-o", str(cvt), "--", *command], folder)
    words = ["predict", str(cvt), "--base", MACHINES[0], "--target", MACHINES[1]]
    cold, warm = [], []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(processor_seconds(words, Path(cache)))
            warm.append(processor_seconds(words, Path(cache)))
    return cvt.stat().st_size / 1e6, traced, median(cold), median(warm)


def numbers(text: str) -> list[int]:
    """Return the numbers of a list with commas."""
    return [int(word) for word in text.split(",") if word]


def main() -> None:
    """Measure, print, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", default="60")
    parser.add_argument("--repeats", type=numbers, default=[1, 10, 100])
    parser.add_argument("--full-side", default="20")
    parser.add_argument("--full-repeats", type=numbers, default=[1, 10])
    parser.add_argument("--engine", default="auto")
    options = parser.parse_args()
    values, rows = {}, []
    with tempfile.TemporaryDirectory(prefix="length-") as name:
        folder = Path(name)
        program = build(folder)
        for repeats in options.repeats:
            found = cost([str(program), options.side, str(repeats)], folder, options.engine)
            for what, value in zip(("megabytes", "trace", "cold", "warm"), found, strict=True):
                values[f"{repeats} {what}"] = round(value, 3)
            print(repeats, *(f"{value:.2f}" for value in found), flush=True)
        for repeats in options.full_repeats:
            for one in agreements([str(program), options.full_side, str(repeats)], folder):
                rates = [f"{one.deviations[level]:.1f} ({one.relative[level]:.1%})" for level in range(3)]
                off = one.seconds - one.full_seconds
                rows.append([repeats, one.machine, *rates, f"{off / one.error:.1f} ({off / one.full_seconds:.1%})"])
                print(*rows[-1], one, flush=True)
    print(write_result("run-length", ["solves", "machine", "L1", "L2", "L3", "seconds"], rows, values))


if __name__ == "__main__":
    main()

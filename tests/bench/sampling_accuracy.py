"""Print how far sampled hit rates are from those of the full trace, in percentage points of cumulative hit rate.

``python tests/bench/sampling_accuracy.py [--only triad,cg] [--plans hybrid,bursts] [--scale 1]``. Every program is traced once in
full and once by each plan, simulated while it runs on three hierarchies. ``whole``: the worst level of the whole program;
``block``: the worst level of any block with at least 1 % of the references; ``unseen``: references in blocks without a sample.
Aims of ``hybrid``: 1 and 3. ``paper``: long bursts alone, of 10 % of the references. ``native``: ``hybrid`` by the
native engine, stored within its budget, since the engine takes fewer samples of a longer run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
import polars as pl
from result_file import write_result

from convolver.simulation.one_pass import RecordedTrace, simulate
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import LiveTrace, trace

KERNELS = Path(__file__).parent / "kernels"
ARGUMENTS = {"triad": 40, "spmv": 30, "gups": 3, "dgemm": 2, "stencil": 10, "cg": 15, "ep": 500, "is": 2, "mg": 2}
PLANS = {
    "hybrid": SamplingPlan(),
    "bursts": SamplingPlan(sets=0),
    "warm": SamplingPlan(sets=0, sample=20_000, warmup=10_000),
    "paper": SamplingPlan(sets=0, interval=10_000_000, sample=1_000_000),
    "sets": SamplingPlan(interval=0, sample=0),
    "limit": SamplingPlan(mode="full", block_limit=10_000),
    "native": SamplingPlan(engine="native"),
}
KIB, MIB = 1024, 1 << 20


def machine(name: str, *levels: tuple[int, int]) -> dict[str, object]:
    """Describe a machine by the sizes and ways of its levels."""
    found = [{"level": f"L{n}", "size_bytes": size, "ways": ways, "line_bytes": 64} for n, (size, ways) in enumerate(levels, 1)]
    return {"name": name, "hierarchy": found}


MACHINES = [
    machine("desktop", (32 * KIB, 8), (256 * KIB, 8), (8 * MIB, 16)),
    machine("server", (32 * KIB, 8), (1 * MIB, 16), (32 * MIB, 16)),
    machine("large", (48 * KIB, 12), (2 * MIB, 16), (260 * MIB, 20)),
]


class Rates(NamedTuple):
    """Cumulative miss rates by machine: of blocks (rows of ``blocks``), and of the whole program; and what was sampled."""

    blocks: pl.DataFrame
    misses: dict[str, np.ndarray]
    recorded: float


def rates(command: list[str], plan: SamplingPlan) -> Rates:
    """Trace and simulate a command; blocks without a sample have nan."""
    with tempfile.TemporaryDirectory() as folder:
        if plan.engine == "native":
            traced: RecordedTrace = trace(command, output=Path(folder) / "trace", sampling=plan)
        else:
            traced = LiveTrace(command, sampling=plan, scan=False)
        hits = simulate(traced, MACHINES)
    blocks = traced.signature.table.select("block", "build_id", "offset", "length_bytes", "memops", "function")
    misses = {}
    for name in hits.machines:
        remaining, rows = np.ones(blocks.height), []
        for level in hits.levels(name):
            table = hits.table.filter((pl.col("machine") == name) & (pl.col("level") == level))
            local = np.full(blocks.height, np.nan)
            seen = table["accesses"].to_numpy() > 0
            place = table["block"].to_numpy()
            local[place[seen]] = table["misses"].to_numpy()[seen] / table["accesses"].to_numpy()[seen]
            local[place[~seen]] = 0.0  # nothing was asked of this level
            remaining = remaining * local
            rows.append(remaining)
        misses[name] = np.stack(rows, axis=1)
    return Rates(blocks, misses, hits.references / max(1, int(blocks["memops"].sum())))


def compare(full: Rates, sampled: Rates, least: float = 0.01) -> tuple[float, float, float, str]:
    """Return the worst error of the program and of a block, in points; the share of references without a sample; where."""
    keys = ["build_id", "offset", "length_bytes"]
    numbered = [one.blocks.with_row_index("row") for one in (full, sampled)]
    joined = numbered[0].join(numbered[1], on=keys, how="inner", suffix="_s").filter(pl.col("memops") > 0)
    mine, other = joined["row"].to_numpy(), joined["row_s"].to_numpy()
    memops = joined["memops"].to_numpy().astype(float)
    whole = block = 0.0
    where = ""
    for name, misses in full.misses.items():
        truth, seen = misses[mine], sampled.misses[name][other]
        known = ~np.isnan(seen).any(axis=1) & ~np.isnan(truth).any(axis=1)
        weights = np.where(known, memops, 0)[:, None]
        total = weights.sum()
        if not total:
            return float("nan"), float("nan"), 1.0, ""
        exact = np.nansum(np.nan_to_num(truth) * memops[:, None], axis=0) / memops.sum()
        estimate = np.nansum(np.nan_to_num(seen) * weights, axis=0) / total
        whole = max(whole, float(np.abs(exact - estimate).max()))
        hot = known & (memops >= least * memops.sum())
        errors = np.abs(truth - seen)[hot]
        if errors.size and errors.max() > block:
            block = float(errors.max())
            row, level = np.unravel_index(int(errors.argmax()), errors.shape)
            where = f"{joined['function'].to_numpy()[hot][row]} {name} L{level + 1}"
    missing = 1 - memops[known].sum() / memops.sum()
    return 100 * whole, 100 * block, missing, where


def measure(programs: list[str], plans: list[str], scale: float, out: TextIO) -> list[list[str]]:
    """Trace every program by every plan and print a row each; return the rows of the table of the pages."""
    rows = []
    print(f"{'program':8} {'plan':8} {'recorded':>9} {'whole':>7} {'block':>7}  {'unseen':>7}  worst block", file=out, flush=True)
    with tempfile.TemporaryDirectory() as name:
        for program in programs:
            binary = Path(name) / program
            subprocess.run(["gcc", "-O2", "-g", "-o", binary, KERNELS / f"{program}.c", "-lm"], check=True)
            command = [str(binary), str(max(1, round(ARGUMENTS[program] * scale)))]
            full = rates(command, SamplingPlan(mode="full"))
            cells = [program]
            for plan in plans:
                sampled = rates(command, PLANS[plan])
                whole, block, missing, where = compare(full, sampled)
                row = f"{program:8} {plan:8} {sampled.recorded:9.2%} {whole:7.2f} {block:7.2f}  {missing:7.2%}  {where}"
                print(row, file=out, flush=True)
                cells.append(f"{whole:.2f} / {block:.2f}")
            rows.append(cells)
    return rows


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(ARGUMENTS))
    parser.add_argument("--plans", default=",".join(PLANS))
    parser.add_argument("--scale", type=float, default=1.0, help="of the programs' lengths")
    parser.add_argument(
        "--store", metavar="NAME", help="write benchmarks/results/NAME.json, from which pages are made (sampling-accuracy)"
    )
    options = parser.parse_args()
    with os.fdopen(os.dup(1), "w") as out, open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)  # the programs print there
        plans = options.plans.split(",")
        rows = measure(options.only.split(","), plans, options.scale, out)
    if options.store:
        write_result(options.store, ["program", *plans], rows)


if __name__ == "__main__":
    main()

"""Where a program's time is natively and where predicted: ``python tests/bench/hot_blocks.py MACHINE -- CMD ARGS``.

MACHINE is a profile of this computer. The command's program counter is sampled in ``--runs`` runs, each sample weighted with the
processor time since the one before; ``--trace X.cvt`` takes a trace of the command that is there. Shares of each side's own time
are compared, since another clock or a shared core stretches all blocks alike. An instruction that waits is sampled where its
result is used. First threads of programs only.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from convolver.analyzing.analyze import analyze
from convolver.convolution.convolve import convolve
from convolver.machine.catalog import as_machine
from convolver.tracing.reader import Trace
from convolver.tracing.tracer import trace

SOURCE = Path(__file__).parent / "programs" / "pc_samples.c"
LEAST_SHARE = 0.006
Sampled = dict[str, dict[int, float]]
"""Processor seconds by file and offset."""


def sampled(command: list[str], runs: int, folder: Path) -> Sampled:
    """Return where the command's processor time is, over all runs."""
    sampler, out = folder / "pc_samples", folder / "samples"
    subprocess.run(["gcc", "-O2", "-o", sampler, SOURCE], check=True)
    found: Sampled = defaultdict(lambda: defaultdict(float))
    for _ in range(runs):
        subprocess.run([sampler, out, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        for line in out.read_text().splitlines():
            seconds, offset, path = line.split(" ", 2)
            found[path][int(offset, 16)] += float(seconds)
    return found


def by_block(found: Sampled, blocks: pl.DataFrame) -> np.ndarray:
    """Return the sampled seconds of each block; those in no block belong to nobody."""
    seconds = np.zeros(blocks.height)
    begins = blocks["offset"].to_numpy()
    ends = begins + blocks["length_bytes"].to_numpy()
    for path, spent in found.items():
        rows = np.flatnonzero((blocks["module"] == path).to_numpy())
        rows = rows[np.argsort(begins[rows])]
        offsets = np.array([*spent])
        at = np.searchsorted(begins[rows], offsets, side="right") - 1
        inside = (at >= 0) & (offsets < ends[rows[np.maximum(at, 0)]] if len(rows) else False)
        np.add.at(seconds, rows[at[inside]], np.array([*spent.values()])[inside])
    return seconds


def main() -> None:
    """Sample, predict, and print the blocks with the largest shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine")
    parser.add_argument("command", nargs="+")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--top", type=int, default=30)
    options = parser.parse_args()
    with TemporaryDirectory(prefix="hot-blocks-") as name:
        path = options.trace or Path(name) / "program.cvt"
        if not options.trace:
            trace(options.command, output=path)
        found = sampled(options.command, options.runs, Path(name))
        taken, machine = Trace.load(path), as_machine(options.machine)
        times = convolve(analyze(taken, [machine]), machine)
    blocks = taken.signature.table
    predicted = np.zeros(blocks.height)
    predicted[times.table["block"].to_numpy()] = times.table["seconds"].to_numpy() / times.total[0]
    whole = sum(sum(spent.values()) for spent in found.values())
    native = by_block(found, blocks) / whole
    print(f"{whole / options.runs:.3f} s natively, {times.total[0]:.3f} s predicted; code not traced: {1 - native.sum():.1%}")
    print("native  predicted  ratio")
    order = np.argsort(-np.maximum(native, predicted))[: options.top]
    for row in (int(row) for row in order if max(native[row], predicted[row]) > LEAST_SHARE):
        where = blocks.row(row, named=True)
        place = f"{Path(where['module']).name}+{where['offset']:#x} {where['function']} {where['line'] or ''}"
        print(f"{native[row]:6.1%} {predicted[row]:10.1%} {predicted[row] / max(native[row], 1e-9):6.2f}  {place}")


if __name__ == "__main__":
    main()

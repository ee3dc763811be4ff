"""Machines whose curves follow from known costs, and the artifacts around them, for tests of the convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from convolver.analyzing.analyze import analyze
from convolver.analyzing.core_cycles import CoreCycles
from convolver.analyzing.program_analysis import Analysis
from convolver.convolution.block_times import BlockTimes
from convolver.convolution.convolve import convolve
from convolver.convolution.costs import kernel_lines
from convolver.machine.hierarchy import Level
from convolver.machine.profile import Curve, MachineProfile, Point, Throughput
from convolver.signature.signature import Signature
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.targets import Target
from tests.strategies import block_rows

LEVELS = (Level(level="L1", size_bytes=4096, ways=4), Level(level="L2", size_bytes=65536, ways=8))
NS = 1e-9
COSTS: dict[str, tuple[float, ...]] = {
    "unit": (0.5 * NS, 4 * NS, 16 * NS),
    "stride": (0.5 * NS, 6 * NS, 24 * NS),
    "random": (1.0 * NS, 3 * NS, 40 * NS),
    "chase": (2.0 * NS, 5 * NS, 80 * NS),
    "store": (1.0 * NS, 8 * NS, 30 * NS),
    "copy": (0.625 * NS, 6 * NS, 23 * NS),
}
"""By kernel: seconds of a reference that hits L1, of a line from L2, of a line from memory. Half of a load's time in L1 comes on
top of a store's: 2 x 0.625 = 1.0 + 0.5 x 0.5."""


def curve(kernel: str, costs: Sequence[float], levels: Sequence[Level] = LEVELS, *, spread: float = 0.0) -> Curve:
    """Return the curve that a kernel of these costs would measure, two points an octave from 1 KiB to beyond the last level."""
    pattern, operation = ("unit", kernel) if kernel in ("store", "copy") else (kernel, "load")
    shape = Curve(kernel=kernel, pattern=pattern, operation=operation, points=(), stride_bytes=64 if kernel == "stride" else 0)
    lines = kernel_lines(shape, levels)
    sizes = [1024 * 2 ** (i / 2) for i in range(int(2 * (levels[-1].size_bytes * 8 // 1024).bit_length()))]
    points = tuple(
        Point(
            working_set_bytes=int(size),
            seconds_per_reference=costs[0] + sum(n * c for n, c in zip(lines(int(size)), costs[1:], strict=True)),
            spread=spread,
        )
        for size in sizes
    )
    return Curve(kernel=kernel, pattern=pattern, operation=operation, points=points, stride_bytes=64 if kernel == "stride" else 0)


def machine(
    name: str = "m",
    *,
    scale: float = 1.0,
    levels: tuple[Level, ...] = LEVELS,
    kernels: Sequence[str] = tuple(COSTS),
    flop: float = 0.25 * NS,
    instruction: float = 0.1 * NS,
    spread: float = 0.0,
) -> MachineProfile:
    """Return a machine with the costs of :data:`COSTS`, all multiplied by ``scale``."""
    maps = tuple(curve(kernel, [scale * cost for cost in COSTS[kernel]], levels, spread=spread) for kernel in kernels)
    points = tuple(
        Throughput(kernel=kind, operation=kind, seconds=scale * flop, width_bytes=8, flops=1) for kind in ("add", "multiply")
    )
    issue = Throughput(kernel="instruction", operation="instruction", seconds=scale * instruction)
    return MachineProfile(name=name, hierarchy=levels, maps=maps, floating_point=(*points, issue))


def hit_rates(rows: Sequence[tuple[Any, ...]], *machines: MachineProfile, inputs: dict[str, Any] | None = None) -> HitRates:
    """Return hit rates from rows (block, accesses, misses per level ..., optionally a list of write-backs per level)."""
    records = []
    for profile in machines:
        for block, accesses, *rest in rows:
            written = rest.pop() if isinstance(rest[-1], list) else [0] * len(rest)
            reaching = accesses
            for level, missed, dirty in zip(profile.hierarchy, rest, written, strict=True):
                counts = (reaching, reaching - missed, missed, dirty)
                records.append((block, profile.name, level.level, *counts))
                reaching = missed
    types = {"block": pl.UInt32, "machine": pl.String, "level": pl.String}
    types |= dict.fromkeys(("accesses", "hits", "misses", "write_backs"), pl.UInt64)
    table = pl.DataFrame(records, schema=types, orient="row").with_columns(standard_error=pl.lit(0.0))
    documents = [Target(profile.name, profile.system).to_document() for profile in machines]
    return HitRates.make(table, machines=documents, references=0, inputs=inputs or {})


def loads(memops: int, *, pattern: str = "unit", sampled: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a signature row of a block that only loads 8-byte words in one pattern."""
    count = memops if sampled is None else sampled
    row = {"executions": 1, "loads": memops, "load_bytes": 8 * memops, "sampled_references": count}
    return {**row, f"{pattern}_references": count, **more}


def signature(*rows: dict[str, Any], **extra: Any) -> Signature:
    """Return a signature of such rows."""
    return Signature(block_rows(list(rows)), **extra)


def analyzed(program: Signature, rates: HitRates, *machines: MachineProfile, near: Any = None, waiting: Any = None) -> Analysis:
    """Return the analysis of a signature and its hit rates, with seconds of each block on the core where they are given."""
    found = analyze(program, machines, hits=rates)
    if near is None:
        return found
    core = CoreCycles(np.array(near, float), np.array(near if waiting is None else waiting, float), 1.0)
    return found.with_cores({machine.name: core for machine in machines})


def convolved(
    program: Signature, rates: HitRates, machine: MachineProfile, *, near: Any = None, waiting: Any = None, **options: Any
) -> BlockTimes:
    """Return the times of a signature and its hit rates on a machine."""
    return convolve(analyzed(program, rates, machine, near=near, waiting=waiting), machine, **options)

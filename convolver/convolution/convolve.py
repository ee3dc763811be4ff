"""The convolution: a program's signature mapped onto a machine's profile (Carrington et al. 2003, Equation 1).

    Memory time = sum over blocks of MemOps_i / MemRate_i

MemRate_i comes from the MAPS curves by where the block's references fall (simulated) and by their patterns (sampled): a
reference costs what it costs in the first level, and each line brought from a farther place adds that place's cost, both by
pattern; a dirty line that leaves a level adds the cost of its write-back. docs/theory.md says how lines are split among patterns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from convolver.convolution.block_times import HIT_RATE, BlockTimes
from convolver.convolution.falls import Array, Falls, falls
from convolver.convolution.lookup import MachineCosts, machine_costs
from convolver.convolution.memory import MemoryTime, memory_time
from convolver.convolution.rates import combine
from convolver.errors import CoverageError, UsageError
from convolver.signature.features import sampled_share

if TYPE_CHECKING:
    import polars as pl

    from convolver.machine.profile import MachineProfile
    from convolver.signature.signature import Signature
    from convolver.simulation.hit_rates import HitRates

OVERLAPS = {"norm": 2.7, "max": np.inf, "sum": 1.0}
"""Overlap rules by the exponent of the norm that joins a block's times: ``max``, everything overlaps perfectly; ``sum``, nothing
does; ``norm``, in between, with the exponent that a study of 56 points of 15 programs and probes found (docs/theory.md)."""

LOCATED = 0.6
"""Share of its lines from which on one place alone is called a block's data set location."""


def convolve(signature: Signature, hit_rates: HitRates, machine: MachineProfile, *, overlap: str = "norm") -> BlockTimes:
    """Return the time of every executed block on a machine. A pure function.

    ``overlap`` says how memory, floating-point and instruction time of a block combine (:data:`OVERLAPS`). Blocks without a
    sample get the memory rate of the sampled blocks of their function, else module, else program.

    Raises :class:`ProvenanceError` when the three do not belong together, :class:`CoverageError` when no reference was sampled,
    :class:`PredictionError` when the profile has no curves, :class:`UsageError` for an unknown overlap rule.
    """
    if overlap not in OVERLAPS:
        raise UsageError(f"'{overlap}' is no overlap rule; choose one of {', '.join(OVERLAPS)}.")
    where = falls(signature, hit_rates, machine)
    costs = machine_costs(machine)
    memops = signature.table["memops"].to_numpy().astype(float)
    covered = float(memops[where.sampled].sum())
    if memops.sum() and not covered:
        raise CoverageError("No reference of the program was sampled, so nothing is known of its memory; trace it more densely.")
    memory = memory_time(signature.table, where, costs, machine.hierarchy[0].line_bytes)
    rows = _rows(signature.table, where, costs, memory, machine, OVERLAPS[overlap])
    coverage = covered / memops.sum() if memops.sum() else 1.0
    return BlockTimes.make(
        rows,
        inputs={"signature": signature.id, "hit_rates": hit_rates.id, "machine": machine.id},
        machine=machine.name,
        projected=machine.projected,
        levels=[level.level for level in machine.hierarchy],
        overlap=overlap,
        coverage=coverage,
        sampled_share=sampled_share(signature.table),
        extrapolated_share=1 - coverage,
        assumptions=list(costs.assumptions),
        command=signature.header.get("command"),
    )


def floating_point_seconds(table: pl.DataFrame, costs: MachineCosts) -> Array:
    """Return the floating-point time of each block: operations times the cost of one at the width of the block's operands.

    The width is that of the block's mean reference, the best hint in the signature at whether its arithmetic is vectorised.
    """
    flops = table["flops"].to_numpy().astype(float)
    if not costs.flop_seconds:
        return np.zeros_like(flops)
    widths = np.array(sorted(costs.flop_seconds))
    mean = table["bytes"].to_numpy() / np.maximum(table["memops"].to_numpy(), 1)
    nearest = np.abs(np.log2(np.maximum(mean, 8))[:, None] - np.log2(widths)).argmin(axis=1)
    return flops * np.array([costs.flop_seconds[width] for width in widths])[nearest]


def locations(lines: Array, names: list[str]) -> list[str]:
    """Return the data set location of each block by where its lines are found: one place, or the two largest as ``A/B``."""
    order = np.argsort(-lines, axis=1, kind="stable")
    found = []
    for row, (first, second) in zip(lines, order[:, :2], strict=True):
        near, far = sorted((first, second))
        found.append(names[first] if row[first] >= LOCATED else f"{names[near]}/{names[far]}")
    return found


def _rows(
    table: pl.DataFrame,
    where: Falls,
    costs: MachineCosts,
    memory: MemoryTime,
    machine: MachineProfile,
    exponent: float,
) -> pl.DataFrame:
    import polars as pl

    levels = [level.level for level in machine.hierarchy]
    points = floating_point_seconds(table, costs)
    issue = table["instructions"].to_numpy() * costs.instruction_seconds
    memops = table["memops"].to_numpy().astype(float)
    empty = (memops == 0) | ~where.sampled
    places = np.array(locations(memory.lines, [*levels, "memory"]), dtype=object)
    places[empty] = ""
    columns: dict[str, Any] = {
        "machine": pl.repeat(machine.name, table.height, eager=True, dtype=pl.String),
        "data_set_location": pl.Series(places.tolist(), dtype=pl.String),
        "random_share": memory.random_share,
        "memory_rate": np.divide(memops, memory.seconds, out=np.zeros_like(memops), where=memory.seconds > 0),
        "memory_seconds": memory.seconds,
        "floating_point_seconds": points,
        "instruction_seconds": issue,
        "seconds": combine(np.stack([memory.seconds, points, issue]), exponent),
        "error_seconds": memory.errors,
        "sampled": where.sampled,
        "extrapolated": (memops > 0) & ~where.sampled,
    }
    for place, level in enumerate(levels):
        rates = pl.Series(where.hit_rates[:, place])
        columns[HIT_RATE + level] = pl.select(pl.when(~pl.Series(empty)).then(rates)).to_series()
    kept = ["block", "module", "offset", "function", "file", "line", "executions", "memops"]
    rows = table.select(kept).with_columns(**columns).filter(pl.col("executions") > 0)
    order = ["block", "machine", *kept[1:]]
    return rows.select(*order, pl.exclude(order)).sort("seconds", descending=True, maintain_order=True)

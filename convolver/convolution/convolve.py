"""The convolution: a program's signature mapped onto a machine's profile (Carrington et al. 2003, Equation 1).

    Memory time = sum over blocks of MemOps_i / MemRate_i

MemRate_i comes from the MAPS curves by where the block's references fall (simulated) and by their patterns (sampled): a
reference costs what it costs in the first level, and each line brought from a farther level adds that level's cost, both by
pattern; a dirty line that leaves a level adds the cost of its write-back. docs/theory.md says how lines are split among patterns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver.analyzing.core_causes import DEPENDENT, WIDTH, Causes, in_proportion
from convolver.analyzing.core_cycles import CoreCycles, cycle_seconds
from convolver.analyzing.falls import Array, Falls
from convolver.analyzing.program_analysis import Analysis, MachineAnalysis
from convolver.convolution.block_times import HIT_RATE, BlockTimes, drawn_fields, functions_of
from convolver.convolution.limit_shares import LIMIT, calibrated_limits, of_rates, ordered, simple_limits
from convolver.convolution.lookup import MachineCosts, machine_costs
from convolver.convolution.memory import carry_over, located, memory_seconds, memory_time
from convolver.convolution.rates import combine, joined, parts
from convolver.convolution.system_time import system_document
from convolver.convolution.uncertainty import Drawn, Known, draw
from convolver.convolution.work import NearSeconds, port_seconds, program_work
from convolver.errors import CoverageError, UsageError
from convolver.heavy import pl
from convolver.machine.catalog import MachineName, as_machine
from convolver.machine.cores import HOW, choose_core
from convolver.machine.maps import MEMORY
from convolver.machine.profile import MachineProfile
from convolver.machine.profile_check import projection_doubt
from convolver.machine.states import is_another
from convolver.signature.features import sampled_share


class CoreSeconds(NamedTuple):
    """Seconds per block along executed paths: ``near`` with all data in the first level, ``waiting`` with lines that come out of
    order as far away as they are (where that is not known: the same). ``errors``: relative standard error of each block's,
    between the windows that were walked (None: not known); ``error``: that of the whole program's. ``near_causes`` and
    ``waiting_causes``: seconds by cause, which add up to the two (None: not known)."""

    near: Array
    waiting: Array
    errors: Array | None = None
    error: float | None = None
    near_causes: Causes | None = None
    waiting_causes: Causes | None = None

    @classmethod
    def of_cycles(cls, core: CoreCycles, machine: MachineProfile) -> CoreSeconds:
        """Return the seconds on a machine, at its core's usual clock (:attr:`MachineProfile.usual_cycle`).

        What is waited for takes as long as on the machine that was analyzed, whatever the clock.
        """
        near = core.near * (cycle_seconds(machine) or core.cycle_seconds)
        waited = core.waiting * core.cycle_seconds - core.near * core.cycle_seconds
        clock = 1 / machine.usual_cycle
        near, waiting = near / clock, near / clock + waited
        causes = [
            in_proportion(*pair) if pair[1] else None for pair in ((near, core.near_causes), (waiting, core.waiting_causes))
        ]
        return cls(near, waiting, core.errors, core.error, *causes)


OVERLAPS = {"norm": 2.7, "max": np.inf, "sum": 1.0}
"""Overlap rules by the exponent of the norm that joins a block's times: ``max``, everything overlaps perfectly; ``sum``, nothing
does; ``norm``, in between, with the exponent that a study of 56 points of 15 programs and probes found (docs/theory.md)."""

DEFAULT_NOISE = 0.02
"""Relative spread of a profile that does not say how noisy it is."""
BISTABLE = 1.3
"""Factor by which a block's time must change between the last level as streams and as lines out of order find it to be so."""
LOCATED = 0.6
"""Share of its lines from which on one level alone is called a block's data set location."""


def check_choices(overlap: str, method: str) -> None:
    """Raise :class:`UsageError` for an unknown overlap rule or method."""
    if overlap not in OVERLAPS:
        raise UsageError(f"'{overlap}' is no overlap rule; choose one of {', '.join(OVERLAPS)}.")
    if method not in METHODS:
        raise UsageError(f"'{method}' is no method; choose one of {', '.join(METHODS)}.")


def common_method(machines: Iterable[MachineProfile], method: str = "calibrated") -> str:
    """Return the method that serves all machines: ``calibrated`` only where each has coefficients, since a ratio of two methods
    would hold the difference between them."""
    return "curves" if method == "calibrated" and any(one.calibration is None for one in machines) else method


def convolve(
    analysis: Analysis,
    machine: MachineName,
    *,
    overlap: str = "norm",
    method: str = "calibrated",
    waiting_seconds: float | None = None,
) -> BlockTimes:
    """Return the time of every executed block on a machine. A pure function of an analysis and a profile.

    The profile may have other speeds than the analyzed one, but not other caches: the time that is waited for lines stays.
    ``overlap`` says how the parts of a block's time combine (:data:`OVERLAPS`), ``method`` where they come from
    (:data:`METHODS`); for a machine without a calibration the curves stand in. Where the analysis has no core cycles, core time
    follows from counts and measured rates. Blocks without a sample get the memory rate of the sampled blocks of their function,
    else module, else program. ``waiting_seconds``: what the program was seen to wait on this machine, kept beside the times.

    Raises :class:`ProvenanceError` for a machine that was not analyzed, :class:`CoverageError` when no reference was sampled,
    :class:`PredictionError` when the profile has no curves, :class:`UsageError` for an unknown rule or method,
    and for something that is no analysis.
    """
    check_choices(overlap, method)
    if not isinstance(analysis, Analysis):
        raise UsageError(f"{type(analysis).__name__} is no analysis of a program; analyze() makes one.")
    machine = as_machine(machine)
    part, signature = analysis.of(machine), analysis.signature
    where, costs = part.falls, machine_costs(machine)
    memops = signature.table["memops"].to_numpy().astype(float)
    covered = float(memops[where.sampled].sum())
    if memops.sum() and not covered:
        raise CoverageError("No reference of the program was sampled, so nothing is known of its memory; trace it more densely.")
    used = common_method([machine], method)
    core = None if part.core is None else CoreSeconds.of_cycles(part.core, machine)
    times = _TIMES[used](signature.table, where, costs, machine, overlap, core)
    coverage = covered / memops.sum() if memops.sum() else 1.0
    return BlockTimes.make(
        _rows(signature.table, where, times, machine),
        inputs={"signature": signature.id, "hit_rates": analysis.inputs.get("hit_rates"), "machine": machine.id},
        machine=machine.name,
        projected=is_another(machine.name, machine.projected),
        levels=[level.level for level in machine.hierarchy],
        overlap=overlap,
        method=used,
        core="paths" if core is not None and used != "paper" else "rates",
        core_error=None if core is None or used == "paper" else core.error,
        coverage=coverage,
        sampled_share=sampled_share(signature.table),
        extrapolated_share=1 - coverage,
        **drawn_fields(times.drawn, times.seconds, signature.table),
        assumptions=[*costs.assumptions, *_absent(part, machine, used), *_projected(machine, used)],
        system=None if used == "paper" else system_document(signature.header.get("system"), machine),
        waiting_seconds=waiting_seconds,
        command=signature.header.get("command"),
    )


def paper_seconds(analysis: Analysis, machine: MachineProfile, overlap: str) -> float:
    """Return the sum of what :func:`convolve` makes of the paper's method, alone; raises what that does for the machine."""
    table, where = analysis.signature.table, analysis.of(machine).falls
    random_share = located(table, where, machine.hierarchy[0].line_bytes).random_share
    return float(_paper_seconds(table, where, machine_costs(machine), machine, overlap, random_share)[2].sum())


def _absent(part: MachineAnalysis, machine: MachineProfile, method: str) -> list[str]:
    """Return one sentence for each column that the method uses and the analysis does not have."""
    known, found = machine.calibration, []
    if part.core is None and method != "paper":
        found.append("no executed path is known, so core time follows from counts and measured rates")
    how = choose_core(machine.cpu)[1]
    if part.core is not None and method != "paper" and how not in HOW:
        found.append(how)
    if method == "calibrated" and known is not None:
        if known.page_entries and part.falls.pages is None:
            found.append("pages are taken as translated, since only an analysis of a trace with bursts tells of translations")
        if part.falls.scattered is None and (machine.scattered_system or machine.framed_system) is not None:
            found.append("lines out of order are taken to find caches as streams do, since only an analysis of a trace tells")
    return found


def _projected(machine: MachineProfile, method: str) -> list[str]:
    doubt = projection_doubt(machine) if method == "calibrated" else ""
    return [doubt.removesuffix(".")] if doubt else []


class Times(NamedTuple):
    """Seconds per block by part and in all, their error, and what else is said of a block's references."""

    memory: Array
    floating_point: Array
    instructions: Array
    seconds: Array
    errors: Array
    random_share: Array
    lines: Array
    limits: Causes
    drawn: Drawn | None = None
    bistable: NDArray[np.bool_] | None = None


def _from_curves(
    table: pl.DataFrame, where: Falls, costs: MachineCosts, machine: MachineProfile, overlap: str, core: CoreSeconds | None
) -> Times:
    line_bytes = machine.hierarchy[0].line_bytes
    memory = memory_time(table, where, costs, line_bytes, near=core is None)
    location = located(table, where, line_bytes)
    points = floating_point_seconds(table, costs)
    issue = instruction_seconds(table, costs) if core is None else core.near
    known = [memory.seconds, points, issue] if core is None else [memory.seconds, core.near]
    seconds = combine(np.stack(known), OVERLAPS[overlap])
    causes: list[Causes] = [{DEPENDENT: points}, {WIDTH: issue}]
    if core is not None:
        causes = [core.near_causes or {WIDTH: core.near}]
    limits = simple_limits(seconds, memory.by_level, _levels(machine), causes, OVERLAPS[overlap])
    return Times(memory.seconds, points, issue, seconds, memory.errors, *location, limits)


def _calibrated(
    table: pl.DataFrame, where: Falls, costs: MachineCosts, machine: MachineProfile, overlap: str, core: CoreSeconds | None
) -> Times:
    assert machine.calibration is not None
    rates = NearSeconds(port_seconds(table, costs), floating_point_seconds(table, costs), instruction_seconds(table, costs))
    near, waiting = (rates.seconds, None) if core is None else core[:2]
    exponents = (machine.calibration.near_exponent, machine.calibration.exponent)
    if overlap != "norm":
        exponents = (OVERLAPS[overlap],) * 2
    work = program_work(table, where, near)
    shares = parts(work, machine.calibration, waiting)
    whole = joined(shares, *exponents)
    as_streams = whole
    if where.scattered is not None and machine.scattered_system is not None:
        larger = program_work(table, replace(where, scattered=None), near)
        as_streams = joined(parts(larger, machine.calibration, waiting), *exponents)
    bistable = np.maximum(whole, as_streams) > BISTABLE * np.minimum(whole, as_streams)
    levels = [*(level.level for level in machine.hierarchy[1:]), MEMORY]
    in_other_state = np.where(bistable, as_streams / np.where(bistable, whole, 1.0), 1.0)
    known = _known(where, machine, core, in_other_state)
    drawn = draw(shares, exponents, machine.calibration, levels, known, functions_of(table))
    return Times(
        joined(np.vstack([rates.ports, shares[1:-1], np.zeros_like(whole)]), *exponents),
        rates.floating_point,
        rates.instructions if core is None else core.near,
        whole,
        drawn.widths,
        *located(table, where, machine.hierarchy[0].line_bytes),
        calibrated_limits(work, machine.calibration, _levels(machine), exponents, *_causes(rates, core)),
        drawn,
        bistable,
    )


def _levels(machine: MachineProfile) -> list[str]:
    return [level.level for level in machine.hierarchy]


def _causes(rates: NearSeconds, core: CoreSeconds | None) -> tuple[Causes, tuple[Array, Causes] | None]:
    """Return the causes of core time, and the time along paths that wait with its causes."""
    if core is None:
        return of_rates(rates), None
    near = core.near_causes or of_rates(rates)
    return near, (core.waiting, core.waiting_causes or near)


def _known(where: Falls, machine: MachineProfile, core: CoreSeconds | None, in_other_state: Array) -> Known:
    served = where.served[:, 1:]
    noise = machine.provenance.get("noise", {}).get("median_spread", DEFAULT_NOISE)
    table, how = choose_core(machine.cpu)
    return Known(
        where.errors / np.where(served > 0, served, 1.0),
        ~where.sampled,
        float(noise),
        core is not None,
        in_other_state,
        None if core is None else core.errors,
        table.name,
        how not in HOW,
        machine.clock_range,
    )


def _paper(
    table: pl.DataFrame, where: Falls, costs: MachineCosts, machine: MachineProfile, overlap: str, core: CoreSeconds | None
) -> Times:
    """The paper's rates, with floating-point work beside memory; nothing else counts there."""
    line_bytes = machine.hierarchy[0].line_bytes
    location = located(table, where, line_bytes)
    memory, points, whole = _paper_seconds(table, where, costs, machine, overlap, location.random_share)
    by_level = memory_time(table, where, costs, line_bytes).by_level
    limits = simple_limits(whole, by_level, _levels(machine), [{DEPENDENT: points}], OVERLAPS[overlap])
    none = np.zeros_like(points)
    return Times(memory, points, none, whole, none, *location, limits)


def _paper_seconds(
    table: pl.DataFrame, where: Falls, costs: MachineCosts, machine: MachineProfile, overlap: str, random_share: Array
) -> tuple[Array, Array, Array]:
    """Return each block's seconds of memory, of floating-point work, and of both."""
    memops = table["memops"].to_numpy().astype(float)
    seconds = memory_seconds(memops, random_share, where, machine)
    (memory,) = carry_over(table.select("module", "function"), memops, where.sampled, seconds)
    points = floating_point_seconds(table, costs)
    return memory, points, combine(np.stack([memory, points]), OVERLAPS[overlap])


_TIMES = {"calibrated": _calibrated, "curves": _from_curves, "paper": _paper}
METHODS = tuple(_TIMES)
"""Where a block's time comes from: the coefficients fitted on the machine's own probe kernels (``calibrated``), costs taken
apart from single curves (``curves``), or the data set location on the curves, as in the paper (``paper``)."""


def instruction_seconds(table: pl.DataFrame, costs: MachineCosts) -> Array:
    """Return the time of each block's instructions at the measured cost of a typical one."""
    return np.asarray(table["instructions"].to_numpy() * costs.instruction_seconds)


def floating_point_seconds(table: pl.DataFrame, costs: MachineCosts) -> Array:
    """Return the floating-point time of each block: operations times the cost of one at the width of the block's operands.

    The width is that of the block's mean reference, the best hint in the signature at whether its arithmetic is vectorized.
    """
    flops = table["flops"].to_numpy().astype(float)
    if not costs.flop_seconds:
        return np.zeros_like(flops)
    widths = np.array(sorted(costs.flop_seconds))
    mean = table["bytes"].to_numpy() / np.maximum(table["memops"].to_numpy(), 1)
    nearest = np.abs(np.log2(np.maximum(mean, 8))[:, None] - np.log2(widths)).argmin(axis=1)
    return flops * np.array([costs.flop_seconds[width] for width in widths])[nearest]


def locations(lines: Array, names: list[str]) -> list[str]:
    """Return the data set location of each block by where its lines are found: one level, or the two largest as ``A/B``."""
    order = np.argsort(-lines, axis=1, kind="stable")
    first, second = order[:, 0], order[:, 1]
    two = np.array([[f"{near}/{far}" for far in names] for near in names], dtype=object)
    alone = np.take_along_axis(lines, order[:, :1], axis=1)[:, 0] >= LOCATED
    found = np.where(alone, np.array(names, dtype=object)[first], two[np.minimum(first, second), np.maximum(first, second)])
    return list(found)


def _rows(table: pl.DataFrame, where: Falls, times: Times, machine: MachineProfile) -> pl.DataFrame:
    levels = [level.level for level in machine.hierarchy]
    memops = table["memops"].to_numpy().astype(float)
    empty = (memops == 0) | ~where.sampled
    located = np.array(locations(times.lines, [*levels, "memory"]), dtype=object)
    located[empty] = ""
    columns: dict[str, Any] = {
        "machine": pl.repeat(machine.name, table.height, eager=True, dtype=pl.String),
        "data_set_location": pl.Series(located.tolist(), dtype=pl.String),
        "random_share": times.random_share,
        "memory_rate": np.divide(memops, times.memory, out=np.zeros_like(memops), where=times.memory > 0),
        "memory_seconds": times.memory,
        "floating_point_seconds": times.floating_point,
        "instruction_seconds": times.instructions,
        "seconds": times.seconds,
        "error_seconds": times.errors,
        "sampling_seconds": pl.lit(None, pl.Float64) if times.drawn is None else times.drawn.sampling,
        "sampled": where.sampled,
        "extrapolated": (memops > 0) & ~where.sampled,
        "bistable": np.zeros(len(memops), dtype=bool) if times.bistable is None else times.bistable,
    }
    columns |= {LIMIT + name: times.limits[name] for name in ordered(levels, list(times.limits))}
    for number, level in enumerate(levels):
        rates = pl.Series(where.hit_rates[:, number])
        columns[HIT_RATE + level] = pl.select(pl.when(~pl.Series(empty)).then(rates)).to_series()
    kept = ["block", "module", "offset", "function", "file", "line", "executions", "memops"]
    rows = table.select(kept).with_columns(**columns).filter(pl.col("executions") > 0)
    order = ["block", "machine", *kept[1:]]
    return rows.select(*order, pl.exclude(order)).sort("seconds", descending=True, maintain_order=True)

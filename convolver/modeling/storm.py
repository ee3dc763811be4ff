"""Sweeps of replays over random latencies and bandwidths (the linear-models paper: STORM over Dimemas)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from convolver.errors import ModelError, UsageError
from convolver.modeling.table import Table
from convolver.mpi.network import Network, flat_configuration, what_if
from convolver.mpi.sweep import Range, SweepPlan, journal_of, replays
from convolver.progress import SILENT, Progress, step

_LATENCY = {False: "latency_seconds", True: "wire_latency_seconds"}
"""The parameter of a network that a latency is, on the sender's processor or in the wire."""


def total_cpu_seconds(trace: Any) -> float:
    """Return the total CPU time of events: the sum of all bursts of all ranks."""
    return float(trace.columns["seconds"].sum())


def locality_factors(total_cpu_seconds: Mapping[int, float]) -> dict[int, float]:
    """Return total CPU time over that of the smallest P, for each P: 1 where Amdahl's law holds, below where locality helps."""
    if not total_cpu_seconds or min(total_cpu_seconds.values()) <= 0:
        raise ModelError("Locality factors need the total CPU time, above 0, of at least one process count.")
    reference = total_cpu_seconds[min(total_cpu_seconds)]
    return {count: total_cpu_seconds[count] / reference for count in sorted(total_cpu_seconds)}


def ideal_seconds(trace: Any) -> float:
    """Return the seconds of events on a network without latency and of boundless bandwidth: their critical path."""
    from convolver.mpi.network_replay import Replayer

    ideal = what_if(Network(flat_configuration(trace.ranks)), latency_seconds=0.0, bandwidth_bytes_per_second=math.inf)
    return float(Replayer(trace).seconds(ideal, 1.0).max())


def critical_path_factors(ideal_seconds: Mapping[int, float]) -> dict[int, float]:
    """Return P times the seconds on an ideal network over the same of the smallest P, for each P.

    1 where the work is shared out evenly and no rank waits; above where ranks wait for others' work, as at the beginning of
    pipelines. It holds the locality factor and stands in its place in equation 2, where how long ranks wait does not follow P
    smoothly (blocks that do not divide the grid).
    """
    if not ideal_seconds or min(ideal_seconds.values()) <= 0:
        raise ModelError("Factors of the critical path need its seconds, above 0, of at least one process count.")
    least = min(ideal_seconds)
    return {count: count * ideal_seconds[count] / (least * ideal_seconds[least]) for count in sorted(ideal_seconds)}


def sweep_replays(
    traces: Mapping[int, str | Path],
    plan: SweepPlan,
    *,
    wire: bool = False,
    locality: Mapping[int, float] | None = None,
    output: str | Path | None = None,
    executor: Executor | None = None,
    jobs: int | None = None,
    progress: Progress = SILENT,
) -> Table:
    """Return simulated times: metric ``time`` over parameters ``P``, ``L`` (s), ``BW`` (B/s) and ``CPU`` (the burst speedup).

    ``traces`` are files by number of ranks; workers replay them on equal nodes of one task without limits of links or buses.
    ``wire``: latency passes in the network, as in SimGrid, not on the sender's processor, as in Dimemas. With ``locality`` the
    bursts of each P run faster by that factor, which removes the effect of locality: 0.5 makes bursts twice as long. With
    ``output`` the table is written there, and an interrupted sweep goes on from journals beside it, one a trace. Raises
    :class:`UsageError` for a plan without latency or bandwidth.
    """
    for name in ("latency_seconds", "bandwidth_bytes_per_second"):
        if name not in plan.ranges:
            raise UsageError(f"A sweep needs a range of {name}.")
    rows, journals = [], []
    with step(progress, "Sweeping", len(traces) * plan.points, unit="replays"):
        for count, trace in traces.items():
            used, network = (
                _plan_of_trace(plan, wire, None if locality is None else locality[count]),
                Network(flat_configuration(count)),
            )
            journals.append(journal_of(trace, network, used, f"{output}.{count}.journal" if output else None))
            replayed = replays(trace, network, used, journals[-1], executor=executor, jobs=jobs, progress=progress)
            for point in replayed.iter_rows(named=True):
                at = (point[_LATENCY[wire]], point["bandwidth_bytes_per_second"], point.get("cpu_ratio", 1.0))
                parameters = {f"param.{name}": value for name, value in zip(("L", "BW", "CPU"), at, strict=True)}
                seconds = {"metric": "time", "unit": "s", "value": point["predicted_seconds"], "source": "simulated"}
                rows.append({"param.P": float(count), **parameters, **seconds})
    table = Table.of_rows(rows)
    if output:
        table.save(output)
    for journal in journals:
        journal.remove()
    return table


def _plan_of_trace(plan: SweepPlan, wire: bool, factor: float | None) -> SweepPlan:
    """Return the plan with its latency where it passes and bursts that run faster by the factor."""
    ranges = dict(plan.ranges)
    ranges[_LATENCY[wire]] = ranges.pop("latency_seconds")
    if factor is not None:
        given = ranges.get("cpu_ratio", Range(1.0, 1.0))
        ranges["cpu_ratio"] = replace(given, low=given.low * factor, high=given.high * factor)
    return replace(plan, ranges=ranges)

"""Sweeps of a simulator over random latencies and bandwidths (the linear-models paper: STORM over Dimemas).

A simulator is anything that turns a trace and a platform into seconds; the replay is one, a SimGrid replay another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from convolver.errors import ModelError, UsageError
from convolver.modeling.table import Table
from convolver.mpi.sweep import Range, SweepPlan, journal_of, replays
from convolver.progress import SILENT, Progress

_LATENCY = {False: "latency_seconds", True: "wire_latency_seconds"}
"""The parameter of a network that a latency is, on the sender's processor or in the wire."""


@dataclass(frozen=True)
class Platform:
    """The three architectural parameters: latency, bandwidth, and how many times faster bursts run than in the trace."""

    latency_seconds: float
    bandwidth_bytes_per_second: float
    cpu_ratio: float = 1.0


class RunTimeSimulator(Protocol):
    """Returns the run time in seconds of a trace on a platform."""

    def __call__(self, trace: Any, platform: Platform, /) -> float: ...


class ReplaySimulator:
    """This package's replay as a simulator: equal nodes of one task, no limit of links or buses.

    Traces are :class:`convolver.mpi.events.Events`; each is packed once. ``latency`` says where it passes: ``start-up``, on the
    sender's processor as in Dimemas, so that messages sent one after the other queue for it; or ``wire``, in the network, as in
    SimGrid.
    """

    def __init__(self, latency: str = "start-up") -> None:
        if latency not in ("start-up", "wire"):
            raise ModelError(f"The latency '{latency}' is unknown; use start-up or wire.")
        self._wire = latency == "wire"
        self._packed: dict[int, tuple[Any, Any]] = {}

    def __call__(self, trace: Any, platform: Platform, /) -> float:
        """Return the seconds of the slowest rank."""
        from convolver.mpi.network import Network, flat_configuration, what_if
        from convolver.mpi.network_replay import Replayer

        if id(trace) not in self._packed:
            self._packed[id(trace)] = (trace, Replayer(trace))
        latency = platform.latency_seconds
        network = what_if(
            Network(flat_configuration(trace.ranks)),
            latency_seconds=None if self._wire else latency,
            wire_latency_seconds=latency if self._wire else None,
            bandwidth_bytes_per_second=platform.bandwidth_bytes_per_second,
        )
        return float(self._packed[id(trace)][1].seconds(network, platform.cpu_ratio).max())


def total_cpu_seconds(trace: Any) -> float:
    """Return the total CPU time of events: the sum of all bursts of all ranks."""
    return float(trace.columns["seconds"].sum())


def platforms_of(plan: SweepPlan) -> list[Platform]:
    """Return the platforms at the points of a sweep's plan, which has ranges of latency and bandwidth.

    Raises :class:`UsageError` where one of them is missing.
    """
    _check(plan)
    values = plan.draw()
    return [Platform(**{name: float(column[i]) for name, column in values.items()}) for i in range(plan.points)]


def _check(plan: SweepPlan) -> None:
    for name in ("latency_seconds", "bandwidth_bytes_per_second"):
        if name not in plan.ranges:
            raise UsageError(f"Platforms need a range of {name}.")


def locality_factors(total_cpu_seconds: Mapping[int, float]) -> dict[int, float]:
    """Return total CPU time over that of the smallest P, for each P: 1 where Amdahl's law holds, below where locality helps."""
    if not total_cpu_seconds or min(total_cpu_seconds.values()) <= 0:
        raise ModelError("Locality factors need the total CPU time, above 0, of at least one process count.")
    reference = total_cpu_seconds[min(total_cpu_seconds)]
    return {count: total_cpu_seconds[count] / reference for count in sorted(total_cpu_seconds)}


def ideal_seconds(trace: Any, simulator: RunTimeSimulator | None = None) -> float:
    """Return the seconds of a trace on a network without latency and of boundless bandwidth: its critical path."""
    return float((simulator or ReplaySimulator())(trace, Platform(0.0, math.inf)))


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


def sweep(
    traces: Mapping[int, Any],
    platforms: Sequence[Platform],
    simulator: RunTimeSimulator,
    *,
    locality: Mapping[int, float] | None = None,
    app: str = "",
    progress: Progress = SILENT,
) -> Table:
    """Return simulated times: metric ``time`` over parameters ``P``, ``L`` (s), ``BW`` (B/s) and ``CPU`` (the burst speedup).

    With ``locality`` the bursts of each P run faster by that factor's value, which removes the effect of locality: a factor of
    0.5 makes bursts twice as long.
    """
    rows = []
    progress.start("Sweeping", len(traces) * len(platforms), unit="replays")
    for count, trace in traces.items():
        ratio = 1.0 if locality is None else locality[count]
        for platform in platforms:
            used = replace(platform, cpu_ratio=platform.cpu_ratio * ratio)
            rows.append(_row(count, used, float(simulator(trace, used)), app))
            progress.advance(1)
    progress.finish()
    return Table.of_rows(rows)


def _row(count: int, platform: Platform, seconds: float, app: str) -> dict[str, Any]:
    point = {"P": count, "L": platform.latency_seconds, "BW": platform.bandwidth_bytes_per_second, "CPU": platform.cpu_ratio}
    named = {f"param.{name}": float(value) for name, value in point.items()}
    return {**named, "value": seconds, "metric": "time", "unit": "s", "app": app, "source": "simulated"}


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
    """Return the table of :func:`sweep` for files of traces by their number of ranks, replayed by workers.

    The replays are those of :func:`convolver.mpi.sweep.sweep` on equal nodes of one task; ``wire``, ``locality`` as of
    :class:`ReplaySimulator` and :func:`sweep`. With ``output`` the table is written there, and an interrupted sweep goes on from
    journals beside it, one a trace.
    """
    from convolver.mpi.network import Network, flat_configuration

    _check(plan)
    rows, journals = [], []
    progress.start("Sweeping", len(traces) * plan.points, unit="replays")
    for count, trace in traces.items():
        used, network = (
            _plan_of_trace(plan, wire, None if locality is None else locality[count]),
            Network(flat_configuration(count)),
        )
        journals.append(journal_of(trace, network, used, f"{output}.{count}.journal" if output else None))
        replayed = replays(trace, network, used, journals[-1], executor=executor, jobs=jobs, progress=progress)
        for point in replayed.iter_rows(named=True):
            at = Platform(point[_LATENCY[wire]], point["bandwidth_bytes_per_second"], point.get("cpu_ratio", 1.0))
            rows.append(_row(count, at, point["predicted_seconds"], ""))
    progress.finish()
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

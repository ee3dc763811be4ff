"""Sweeps of a simulator over random latencies and bandwidths (the linear-models paper: STORM over Dimemas).

A simulator is anything that turns a trace and a platform into seconds; the replay is one, a SimGrid replay another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from convolver.errors import ModelError, UsageError
from convolver.modeling.table import Table
from convolver.mpi.sweep import PARAMETERS, SweepPlan
from convolver.progress import SILENT, Progress


@dataclass(frozen=True)
class Platform:
    """The three architectural parameters: latency, bandwidth, and how many times faster bursts run than in the trace."""

    latency_seconds: float
    bandwidth_bytes_per_second: float
    cpu_ratio: float = 1.0


class Simulator(Protocol):
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
        from convolver.mpi.network import Network, flat_configuration
        from convolver.mpi.replay import Replayer

        if id(trace) not in self._packed:
            self._packed[id(trace)] = (trace, Replayer(trace))
        configuration = flat_configuration(
            trace.ranks,
            latency_seconds=0.0 if self._wire else platform.latency_seconds,
            bandwidth_bytes_per_second=platform.bandwidth_bytes_per_second,
        )
        network = Network(configuration, wire_latency_seconds=platform.latency_seconds if self._wire else 0.0)
        return float(self._packed[id(trace)][1].seconds(network, platform.cpu_ratio).max())


def total_cpu_seconds(trace: Any) -> float:
    """Return the total CPU time of events: the sum of all bursts of all ranks."""
    return float(trace.columns["seconds"].sum())


def platforms_of(plan: SweepPlan) -> list[Platform]:
    """Return the platforms at the points of a sweep's plan, which has ranges of latency and bandwidth.

    Raises :class:`UsageError` where one of them is missing.
    """
    missing = [name for name in PARAMETERS[:2] if name not in plan.ranges]
    if missing:
        raise UsageError(f"Platforms need a range of {missing[0]}.")
    values = plan.draw()
    return [Platform(**{name: float(column[i]) for name, column in values.items()}) for i in range(plan.points)]


def locality_factors(total_cpu_seconds: Mapping[int, float]) -> dict[int, float]:
    """Return total CPU time over that of the smallest P, for each P: 1 where Amdahl's law holds, below where locality helps."""
    if not total_cpu_seconds or min(total_cpu_seconds.values()) <= 0:
        raise ModelError("Locality factors need the total CPU time, above 0, of at least one process count.")
    reference = total_cpu_seconds[min(total_cpu_seconds)]
    return {count: total_cpu_seconds[count] / reference for count in sorted(total_cpu_seconds)}


def sweep(
    traces: Mapping[int, Any],
    platforms: Sequence[Platform],
    simulator: Simulator,
    *,
    locality: Mapping[int, float] | None = None,
    app: str = "",
    progress: Progress = SILENT,
) -> Table:
    """Return simulated times: metric ``time`` over parameters ``P``, ``L`` (s), ``BW`` (B/s) and ``CPU`` (the burst speed-up).

    With ``locality`` the bursts of each P run faster by that factor's value, which removes the effect of locality: a factor of
    0.5 makes bursts twice as long.
    """
    rows = []
    progress.start("Sweeping", len(traces) * len(platforms), unit="replays")
    for count, trace in traces.items():
        ratio = 1.0 if locality is None else locality[count]
        for platform in platforms:
            used = replace(platform, cpu_ratio=platform.cpu_ratio * ratio)
            point = {"P": count, "L": used.latency_seconds, "BW": used.bandwidth_bytes_per_second, "CPU": used.cpu_ratio}
            row = {f"param.{name}": float(value) for name, value in point.items()}
            rows.append({**row, "value": float(simulator(trace, used)), "metric": "time", "unit": "s"})
            progress.advance(1)
    progress.finish()
    return Table.of_rows([{**row, "app": app, "source": "simulated"} for row in rows])

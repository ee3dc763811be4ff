"""Sweeps of any simulator over platforms, in memory: what models are tested with, and what sweeps by workers must equal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from convolver.errors import ModelError
from convolver.modeling.table import Table
from convolver.mpi.sweep import SweepPlan
from convolver.progress import SILENT, Progress


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


def platforms_of(plan: SweepPlan) -> list[Platform]:
    """Return the platforms at the points of a sweep's plan, which has ranges of latency and bandwidth."""
    values = plan.draw()
    return [Platform(**{name: float(column[i]) for name, column in values.items()}) for i in range(plan.points)]


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

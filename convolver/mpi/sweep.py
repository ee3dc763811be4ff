"""Replays over ranges of latency, bandwidth and CPU ratio: points drawn by a seeded design, run by any executor, resumable."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from convolver.errors import UsageError
from convolver.fanout import Journal, run_missing
from convolver.heavy import pl
from convolver.mpi.network import Network, what_if
from convolver.progress import SILENT, Progress, step
from convolver.schema import TableArtifact, canonical, table_header

if TYPE_CHECKING:
    from convolver.mpi.network_replay import Replayer

SCHEMA = "convolver.network_sweep"
BATCH = 50
"""Replays of one task: enough to hide what sending it costs."""

PARAMETERS = ("latency_seconds", "wire_latency_seconds", "bandwidth_bytes_per_second", "cpu_ratio")
Scale = Literal["uniform", "log"]


@dataclass(frozen=True)
class Range:
    """An interval of a parameter, drawn uniformly or log-uniformly."""

    low: float
    high: float
    scale: Scale = "uniform"

    def at(self, position: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values at positions in 0..1."""
        if self.scale == "log":
            return np.asarray(np.exp(math.log(self.low) + position * (math.log(self.high) - math.log(self.low))))
        return self.low + position * (self.high - self.low)


def parse_range(text: str) -> Range:
    """Return the range in ``"1e-6:1e-4:log"``, ``"0.5:2"`` or ``"3"``; raises :class:`UsageError` for anything else."""
    fields = text.split(":")
    try:
        low = float(fields[0])
        high = float(fields[1]) if len(fields) > 1 else low
    except ValueError as error:
        raise UsageError(f"'{text}' is no range; write LOW:HIGH or LOW:HIGH:log.") from error
    scale = fields[2] if len(fields) == 3 else "uniform"
    if len(fields) > 3 or scale not in ("uniform", "log") or not 0 <= low <= high < math.inf or (scale == "log" and low == 0):
        raise UsageError(f"'{text}' is no range; write LOW:HIGH or LOW:HIGH:log with 0 <= LOW <= HIGH (0 < LOW for log).")
    return Range(low, high, "log" if scale == "log" else "uniform")


@dataclass(frozen=True)
class SweepPlan:
    """What to draw: ranges by parameter name, number of points, seed and design ("lhs": Latin hypercube, or "random")."""

    ranges: dict[str, Range]
    points: int
    seed: int = 0
    design: Literal["lhs", "random"] = "lhs"

    def __post_init__(self) -> None:
        unknown = set(self.ranges) - set(PARAMETERS)
        if unknown or self.points < 1:
            raise UsageError(f"A sweep needs at least one point and ranges of {', '.join(PARAMETERS)}.")

    def draw(self) -> dict[str, NDArray[np.float64]]:
        """Return the value of each parameter at each point; the same plan draws the same points everywhere."""
        generator = np.random.default_rng(self.seed)
        values = {}
        for name in PARAMETERS:
            if name not in self.ranges:
                continue
            position = generator.random(self.points)
            if self.design == "lhs":
                position = (generator.permutation(self.points) + position) / self.points
            values[name] = self.ranges[name].at(position)
        return values


def plan_of(given: Mapping[str, str | None], points: int, seed: int, design: str) -> SweepPlan:
    """Return the plan of a command line: the text of each parameter's range, None where it is not varied.

    Raises :class:`UsageError` for what is no range, no number of points or no design.
    """
    if design not in ("lhs", "random"):
        raise UsageError(f"The design '{design}' is unknown; use lhs or random.")
    ranges = {name: parse_range(text) for name, text in given.items() if text is not None}
    return SweepPlan(ranges, points, seed, "random" if design == "random" else "lhs")


class NetworkSweep(TableArtifact):
    """The artifact of a sweep: ``table`` has one row a point, with its parameters and the seconds of its replay."""

    schema = SCHEMA

    @classmethod
    def make(cls, table: pl.DataFrame, plan: SweepPlan, trace: Path) -> Self:
        """Return the artifact of the rows of a plan."""
        return cls(table, table_header(SCHEMA, table, {"events": trace.name}, {"sweep": asdict(plan)}))

    def summary(self) -> dict[str, Any]:
        """Return the number of points, the ranges that they were drawn from and the fastest and slowest replay."""
        seconds = self.table["predicted_seconds"]
        return {"points": self.table.height, **self.header["sweep"]["ranges"], "fastest": seconds.min(), "slowest": seconds.max()}


@lru_cache(maxsize=2)
def _replayer(trace: str, stamp: float) -> Replayer:
    from convolver.mpi.network_replay import Replayer
    from convolver.mpi.sources import load_events

    return Replayer(load_events(trace))


def run_batch(trace: str, stamp: float, network: Network, points: list[dict[str, float]]) -> list[dict[str, float]]:
    """Replay some points: what a worker does. The trace is loaded once a worker; ``stamp`` is its time of change."""
    replayer = _replayer(trace, stamp)
    rows = []
    for point in points:
        changed = what_if(
            network,
            latency_seconds=point.get("latency_seconds"),
            wire_latency_seconds=point.get("wire_latency_seconds"),
            bandwidth_bytes_per_second=point.get("bandwidth_bytes_per_second"),
        )
        ranks = replayer.run(changed, point.get("cpu_ratio", 1.0)).ranks
        seconds = ranks["seconds"].to_numpy()
        names = ("compute_seconds", "transfer_seconds", "wait_seconds")
        shares = {f"mean_{name}": float(ranks[name].to_numpy().mean()) for name in names}
        rows.append({"predicted_seconds": float(seconds.max()), **shares})
    return rows


def sweep(
    trace: str | Path,
    network: Network,
    plan: SweepPlan,
    *,
    output: str | Path | None = None,
    executor: Executor | None = None,
    jobs: int | None = None,
    progress: Progress = SILENT,
) -> pl.DataFrame:
    """Replay the trace at every point of the plan and return one row a point, in the plan's order.

    ``executor`` is anything with ``submit`` (``distributed.Client.get_executor()`` too); without one a process pool of ``jobs``
    workers is used, and rebuilt when a worker dies. With ``output`` the table is written as Parquet, and an interrupted sweep
    goes on from the journal beside it (``OUTPUT.journal``).
    """
    with step(progress, "Sweeping", plan.points, unit="replays"):
        journal = journal_of(trace, network, plan, f"{output}.journal" if output else None)
        table = replays(trace, network, plan, journal, executor=executor, jobs=jobs, progress=progress)
    if output:
        NetworkSweep.make(table, plan, Path(trace)).save(output)
    journal.remove()
    return table


def journal_of(trace: str | Path, network: Network, plan: SweepPlan, path: str | Path | None) -> Journal:
    """Return the journal of the replays of a trace; raises :class:`FormatError` when the file belongs to another sweep."""
    identity = hashlib.sha256(canonical([asdict(plan), *_identity(trace), repr(network)])).hexdigest()[:32]
    return Journal(Path(path) if path else None, identity)


def _identity(trace: str | Path) -> tuple[str, float]:
    """Return the path of a trace and its time of change."""
    path = Path(trace).resolve()
    return str(path), path.stat().st_mtime if path.exists() else 0.0


def replays(
    trace: str | Path,
    network: Network,
    plan: SweepPlan,
    journal: Journal,
    *,
    executor: Executor | None = None,
    jobs: int | None = None,
    progress: Progress = SILENT,
) -> pl.DataFrame:
    """Return one row a point of the plan; what the journal has already is not replayed again (see :func:`sweep`)."""
    values = plan.draw()
    points = [{name: float(column[i]) for name, column in values.items()} for i in range(plan.points)]
    batches = [points[at : at + BATCH] for at in range(0, len(points), BATCH)]
    tasks = {number: (*_identity(trace), network, batch) for number, batch in enumerate(batches)}
    run_missing(run_batch, tasks, journal, executor=executor, jobs=jobs, advance=lambda rows: progress.advance(len(rows)))
    rows = [row for number in tasks for row in journal.done[number]]
    return pl.DataFrame([{"point": i, **points[i], **row} for i, row in enumerate(rows)])

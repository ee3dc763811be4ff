"""What limits a parallel run: its critical path, its efficiencies and what a change of the machine would bring."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver.errors import UsageError
from convolver.heavy import pl
from convolver.mpi.events import EventKind, Events, Sync
from convolver.mpi.network import NEVER, Network, what_if
from convolver.mpi.network_replay import Ratio, Replayer
from convolver.mpi.timeline import STATES, Timeline

_EPSILON = 1e-12
WAITS = (3, 5, 6, 8)
TRANSFER = 4


@dataclass(frozen=True)
class CriticalPath:
    """The chain of activities that fixes the run time.

    ``steps``: rank, begin, end, activity (compute, startup, transfer, contention, collective, wait), in order of time; they cover
    the predicted time without gaps. ``shares`` sums the seconds by activity.
    """

    steps: pl.DataFrame
    predicted_seconds: float

    @property
    def shares(self) -> dict[str, float]:
        """Return the share of each activity in the predicted time."""
        summed = self.steps.group_by("activity").agg((pl.col("end") - pl.col("begin")).sum().alias("seconds"))
        total = self.predicted_seconds or 1.0
        return {row["activity"]: row["seconds"] / total for row in summed.sort("activity").to_dicts()}

    def by_rank(self) -> pl.DataFrame:
        """Return the seconds of each activity by rank."""
        return self._by("rank")

    def by_phase(self, bounds: NDArray[np.float64]) -> pl.DataFrame:
        """Return the seconds of each activity by phase; see :func:`phase_bounds`."""
        phase = np.searchsorted(bounds, self.steps["begin"].to_numpy(), side="right")
        return CriticalPath(self.steps.with_columns(pl.Series("phase", phase)), self.predicted_seconds)._by("phase")

    def _by(self, key: str) -> pl.DataFrame:
        seconds = (pl.col("end") - pl.col("begin")).sum().alias("seconds")
        return self.steps.group_by(key, "activity").agg(seconds).sort(key, "activity")


class _Walker:
    """Walks back from the last rank's end: through its own intervals, and over to the rank whose action ended a wait."""

    def __init__(self, timeline: Timeline) -> None:
        table = timeline.intervals
        names = ("rank", "begin", "end", "state", "message", "cause")
        self.rank, self.begin, self.end, self.state, self.message, self.cause = (table[n].to_numpy() for n in names)
        self.first = np.searchsorted(self.rank, np.arange(len(timeline.ranks) + 1))
        self.messages = {
            n: timeline.messages[n].to_numpy() for n in ("request", "physical_send", "source", "destination", "by_receiver")
        }
        self.steps: list[tuple[int, float, float, str]] = []

    def _interval(self, rank: int, time: float) -> int | None:
        low, high = self.first[rank], self.first[rank + 1]
        at = low + int(np.searchsorted(self.end[low:high], time - _EPSILON))
        return at if at < high and self.begin[at] < time - _EPSILON else None

    def _add(self, rank: int, begin: float, end: float, activity: str) -> None:
        if end > begin:
            self.steps.append((rank, begin, end, activity))

    def walk(self, rank: int, time: float) -> None:
        # Where messages take no time, ranks can let each other go at one instant: none is followed twice there.
        instant, followed = time, {rank}
        guard = 4 * len(self.rank) + 16
        while time > _EPSILON and guard:
            guard -= 1
            if time != instant:
                instant, followed = time, {rank}
            at = self._interval(rank, time)
            if at is None:
                low = self.first[rank]
                earlier = low + int(np.searchsorted(self.end[low : self.first[rank + 1]], time)) - 1
                begin = float(self.end[earlier]) if earlier >= low else 0.0
                self._add(rank, begin, time, "wait")
                time = begin
            elif self.state[at] == TRANSFER:
                rank, time = self._over_message(rank, time, int(self.message[at]))
            elif self.state[at] in WAITS and self.cause[at] >= 0 and int(self.cause[at]) not in followed:
                rank = int(self.cause[at])
                followed.add(rank)
            else:
                name = "wait" if self.state[at] in WAITS else STATES[int(self.state[at])]
                self._add(rank, float(self.begin[at]), time, name)
                time = float(self.begin[at])

    def _over_message(self, rank: int, time: float, message: int) -> tuple[int, float]:
        sent, asked = float(self.messages["physical_send"][message]), float(self.messages["request"][message])
        self._add(rank, sent, time, "transfer")
        self._add(rank, asked, sent, "contention")
        side = "destination" if self.messages["by_receiver"][message] else "source"
        return int(self.messages[side][message]), min(asked, sent)


def critical_path(timeline: Timeline) -> CriticalPath:
    """Return the critical path of a recorded timeline (made with ``record=True``)."""
    if timeline.intervals.is_empty() and timeline.predicted_seconds > 0:
        raise UsageError("The timeline holds no intervals; replay with recording to find the critical path.")
    walker = _Walker(timeline)
    seconds = timeline.ranks["seconds"].to_numpy()
    walker.walk(int(np.argmax(seconds)), timeline.predicted_seconds)
    schema = {"rank": pl.UInt32, "begin": pl.Float64, "end": pl.Float64, "activity": pl.String}
    steps = pl.DataFrame(walker.steps[::-1], schema=schema, orient="row")
    return CriticalPath(steps, timeline.predicted_seconds)


def phase_bounds(events: Events, timeline: Timeline) -> NDArray[np.float64]:
    """Return the times at which blocking collectives of all tasks end: the bounds between phases."""
    world = np.flatnonzero(np.diff(events.member_first) == events.ranks)
    part = slice(events.first[0], events.first[1])
    columns = {name: column[part] for name, column in events.columns.items()}
    records = np.flatnonzero(
        (columns["kind"] == EventKind.COLLECTIVE) & (columns["flags"] == Sync.BLOCKING) & np.isin(columns["comm"], world)
    )
    own = timeline.intervals.filter((pl.col("rank") == 0) & (pl.col("state") >= 6) & pl.col("record").is_in(records.tolist()))
    ends: NDArray[np.float64] = own.group_by("record").agg(pl.col("end").max())["end"].sort().to_numpy()
    return ends


def efficiency(replayer: Replayer, network: Network, ratio: Ratio = 1.0) -> dict[str, float]:
    """Return the parallel efficiency and its factors, each in 0..1 (Rosas, Gimenez, Labarta 2014; the POP metrics).

    load_balance = mean / longest compute time; serialization = longest compute time / time on an ideal network (no latency,
    infinite bandwidth, no contention); transfer = time on the ideal network / predicted time. Their product is the
    parallel efficiency: mean compute time / predicted time.
    """
    timeline = replayer.run(network, ratio)
    ideal = what_if(network, latency_seconds=0.0, bandwidth_bytes_per_second=float("inf"), contention=False)
    ideal = replace(ideal, wire_latency_seconds=0.0, gap_seconds=0.0, rendezvous_bytes=NEVER)
    compute = timeline.ranks["compute_seconds"].to_numpy()
    predicted, longest, on_ideal = timeline.predicted_seconds, float(compute.max()), float(replayer.seconds(ideal, ratio).max())

    def share(part: float, whole: float) -> float:
        return part / whole if whole > 0 else 1.0

    return {
        "predicted_seconds": predicted,
        "ideal_network_seconds": on_ideal,
        "parallel_efficiency": share(float(compute.mean()), predicted),
        "load_balance": share(float(compute.mean()), longest),
        "serialization": share(longest, on_ideal),
        "transfer": share(on_ideal, predicted),
    }


def _scaled(network: Network, latency: float = 1.0, bandwidth: float = 1.0) -> Network:
    config = network.configuration
    nodes = tuple(
        replace(
            group,
            latency_intra_seconds=group.latency_intra_seconds * latency,
            latency_inter_seconds=group.latency_inter_seconds * latency,
            bandwidth_intra_mib=group.bandwidth_intra_mib * bandwidth,
        )
        for group in config.nodes
    )
    return replace(
        network,
        configuration=replace(config, nodes=nodes, bandwidth_mib=config.bandwidth_mib * bandwidth),
        wire_latency_seconds=network.wire_latency_seconds * latency,
    )


def sensitivity(replayer: Replayer, network: Network, ratio: float = 1.0) -> list[dict[str, Any]]:
    """Return how the predicted time answers to each parameter: rows with change, seconds and speedup."""
    ideal = what_if(network, latency_seconds=0.0, bandwidth_bytes_per_second=float("inf"), contention=False)
    changes = [
        ("nothing", network, ratio),
        ("latency x 0.5", _scaled(network, latency=0.5), ratio),
        ("latency x 2", _scaled(network, latency=2.0), ratio),
        ("bandwidth x 0.5", _scaled(network, bandwidth=0.5), ratio),
        ("bandwidth x 2", _scaled(network, bandwidth=2.0), ratio),
        ("no contention", what_if(network, contention=False), ratio),
        ("ideal network", ideal, ratio),
        ("CPU x 2", network, 2 * ratio),
        ("CPU x 10", network, 10 * ratio),
    ]
    rows: list[dict[str, Any]] = []
    for change, changed, factor in changes:
        seconds = float(replayer.seconds(changed, factor).max())
        base = rows[0]["seconds"] if rows else seconds
        rows.append({"change": change, "seconds": seconds, "speedup": base / seconds if seconds > 0 else float("inf")})
    return rows

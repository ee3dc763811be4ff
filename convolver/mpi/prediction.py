"""The whole parallel prediction: CPU ratios per burst from the convolver, the communication from the replay, one document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver.analyzing.analyze import analyze
from convolver.artifact_kinds import KINDS
from convolver.convolution.block_times import BlockTimes
from convolver.convolution.convolve import common_method
from convolver.convolution.elapsed_replay import ThreadReplay, times_on
from convolver.errors import SchemaError, UsageError
from convolver.machine.profile import MachineProfile
from convolver.mpi.burst_ratios import CLUSTERS, BurstRatios, Times, burst_cpu_ratios
from convolver.mpi.cfg import Configuration
from convolver.mpi.events import EventKind, Events
from convolver.mpi.network import Network, what_if
from convolver.mpi.network_replay import Ratio, Replayer, as_network
from convolver.mpi.timeline import Timeline
from convolver.progress import SILENT, Progress
from convolver.schema import DocumentArtifact
from convolver.tracing.reader import Trace

SCHEMA = "convolver.run_prediction"
CLUSTER_EVENT = 90_000_001
"""Type of the events that mark the cluster of the following burst (value: cluster + 1) in an exported trace."""


@dataclass(frozen=True)
class RunPrediction:
    """A predicted parallel run. ``base_seconds`` is the replay on the base machine with ratio 1: the check of the method.

    ``low_seconds`` and ``high_seconds`` are replays with the ratio at the ends of its interval (high: slower network as well).
    ``base_error`` is (base_seconds - measured_seconds) / measured_seconds, None where the run was not measured. ``timeline`` is
    the replay of the run itself.
    """

    seconds: float
    low_seconds: float
    high_seconds: float
    base_seconds: float
    measured_seconds: float | None
    timeline: Timeline | None = None

    @property
    def base_error(self) -> float | None:
        """Return the signed relative error of the check on the base machine."""
        return None if not self.measured_seconds else (self.base_seconds - self.measured_seconds) / self.measured_seconds


def predict_run(
    events: Events,
    base: Network | Configuration | MachineProfile,
    target: Network | Configuration | MachineProfile,
    ratio: Ratio = 1.0,
    *,
    interval: tuple[float, float] | None = None,
    burst_ratio: NDArray[np.float64] | None = None,
    slower: Network | None = None,
) -> RunPrediction:
    """Predict the recorded run on ``target``: bursts divided by the CPU ratio (base time / target time), network of the target.

    ``interval`` are factors on the ratio at the ends of its uncertainty, for example (0.9, 1.1), ``slower`` is the target's
    network at its slowest, for the upper end. The measured seconds are what the recording noted. Errors as of
    :func:`convolver.mpi.network_replay.replay`.
    """
    replayer = Replayer(events)
    ranks = events.ranks
    there = as_network(target, ranks)

    def run(factor: float, network: Network | Configuration, record: bool = False) -> Timeline:
        return replayer.run(network, np.asarray(ratio, np.float64) * factor, burst_ratio=burst_ratio, record=record)

    low, high = interval or (1.0, 1.0)
    if not 0 < low <= high:
        raise UsageError(f"The ratio's interval {low} to {high} is not one; give factors such as (0.9, 1.1).")
    timeline = run(1.0, there, record=True)
    middle = timeline.predicted_seconds
    measured = events.notes.get("measured_seconds")
    # The recorder's own time is in the run, but neither in its bursts nor in its communication.
    own = float(events.notes.get("recorder_seconds", 0.0))
    return RunPrediction(
        middle,
        middle if high == 1.0 else run(high, there).predicted_seconds,
        middle if low == 1.0 and slower is None else run(low, slower or there).predicted_seconds,
        replayer.run(as_network(base, ranks)).predicted_seconds,
        float(measured) - own if measured is not None else None,
        timeline,
    )


class ParallelPrediction(DocumentArtifact):
    """A predicted parallel run: ``document`` is the artifact; ``timeline`` and ``ratios`` are None on one read from a file."""

    schema = SCHEMA

    def __init__(self, document: Mapping[str, Any], timeline: Timeline | None = None, ratios: BurstRatios | None = None) -> None:
        """Take a complete document; :func:`predict_parallel` makes one."""
        super().__init__(document)
        self.timeline, self.ratios = timeline, ratios
        try:
            self.seconds = float(document["seconds"])
        except (KeyError, TypeError, ValueError) as error:
            raise SchemaError(f"A prediction of a run misses a field or has one of a wrong type: {error}.") from error


def block_times(base: MachineProfile, target: MachineProfile, overlap: str = "norm", cores: int | None = None) -> Times:
    """Return the function that simulates and convolves one rank's trace for both machines, and replays its threads on so many
    ``cores``: one a thread where that is not said."""

    def times(trace: Trace) -> tuple[BlockTimes, BlockTimes]:
        machines = (base, target)
        analysis, threads, method = analyze(trace, machines), ThreadReplay.of(trace), common_method(machines)
        many = cores or (threads.threads if threads else None)
        one, two = (times_on(analysis, each, threads, many, overlap=overlap, method=method) for each in machines)
        return one, two

    return times


def slowest(network: Network, measured: Mapping[str, Any]) -> Network:
    """Return the network slowed down by what its own samples spread: the median over the fastest repeat, over all sizes."""
    samples = [values for values in dict(measured.get("samples_seconds", {})).values() if values and min(values) > 0]
    if not samples:
        return network
    factor = float(np.median([np.median(values) / min(values) for values in samples]))
    node = network.configuration.nodes[0]
    rate = network.configuration.bandwidth_mib * (1 << 20)
    slow = what_if(network, latency_seconds=node.latency_inter_seconds * factor, bandwidth_bytes_per_second=rate / factor)
    costs = network.costs.scaled(factor, factor) if network.costs else None
    return replace(slow, costs=costs, wire_latency_seconds=network.wire_latency_seconds * factor)


def predict_parallel(
    folder: str | Path,
    *,
    base: MachineProfile,
    target: MachineProfile,
    base_network: Network | None = None,
    target_network: Network | None = None,
    clusters: int = CLUSTERS,
    overlap: str = "norm",
    cores: int | None = None,
    progress: Progress = SILENT,
) -> ParallelPrediction:
    """Predict a recorded and traced run (``convolver mpi trace --signature``) on ``target``, and on ``base`` as a check.

    Networks come from the profiles unless they are given. Bursts of ranks with several threads are elapsed times, on ``cores`` of
    each rank (default: one a thread). The interval holds the errors of the block times and the spread of the
    network's samples. Raises what :func:`convolver.mpi.burst_ratios.burst_cpu_ratios` and
    :func:`convolver.mpi.network_replay.replay` raise.
    """
    ratios = burst_cpu_ratios(folder, block_times(base, target, overlap, cores), clusters=clusters, progress=progress)
    ranks = ratios.events.ranks
    there = target_network or as_network(target, ranks)
    found = predict_run(
        ratios.events,
        base_network or as_network(base, ranks),
        there,
        interval=(1 / (1 + ratios.error), 1 + ratios.error),
        burst_ratio=ratios.burst_ratio,
        slower=slowest(there, target.network or {}),
    )
    return ParallelPrediction(_document(ratios, found, base, target), found.timeline, ratios)


def _document(ratios: BurstRatios, found: RunPrediction, base: MachineProfile, target: MachineProfile) -> dict[str, Any]:
    bursts = ratios.events.columns["kind"] == EventKind.BURST
    seconds = ratios.events.columns["seconds"]
    covered = float(seconds[ratios.cluster >= 0].sum())
    recorded = float(seconds[bursts].sum())
    scaled = float((seconds[bursts] / ratios.burst_ratio[bursts]).sum())
    predicted = sum(row["base_seconds"] for row in ratios.ranks)
    return {
        "schema": SCHEMA,
        "version": KINDS[SCHEMA].version,
        "inputs": {"base": base.id, "target": target.id},
        "recording": ratios.events.name,
        "base": base.name,
        "target": target.name,
        "seconds": found.seconds,
        "interval_seconds": [found.low_seconds, found.high_seconds],
        "base_seconds": found.base_seconds,
        "measured_seconds": found.measured_seconds,
        "base_error": found.base_error,
        "speedup": found.base_seconds / found.seconds if found.seconds else None,
        "cpu_ratio": recorded / scaled if scaled else None,
        "burst_seconds": recorded,
        "predicted_burst_seconds": predicted,
        "attributed_share": covered / recorded if recorded else 0.0,
        "ratio_error": ratios.error,
        "replay": found.timeline.summary() if found.timeline else None,
        "ranks": ratios.ranks,
        "clusters": ratios.clusters,
        "modules": ratios.modules,
    }


def with_cluster_events(ratios: BurstRatios) -> tuple[Events, tuple[tuple[int, int, float], ...]]:
    """Return the events with each burst's cluster marked, and the modules that give it its ratio: for Dimemas and Paraver."""
    events, cluster = ratios.events, ratios.cluster
    marked = cluster >= 0
    repeats = np.where(marked, 3, 1)
    source = np.repeat(np.arange(events.records), repeats)
    ends = np.cumsum(repeats)
    columns: dict[str, NDArray[Any]] = {name: column[source] for name, column in events.columns.items()}
    before, after = ends[marked] - 3, ends[marked] - 1
    for at, value in ((before, cluster[marked] + 1), (after, np.zeros(int(marked.sum()), np.int64))):
        for name in columns:
            columns[name][at] = 0
        columns["kind"][at] = EventKind.EVENT
        columns["bytes"][at] = CLUSTER_EVENT
        columns["extra"][at] = value
    first = np.concatenate([[0], ends])[events.first]
    modules = tuple((CLUSTER_EVENT, row["cluster"] + 1, row["ratio"]) for row in ratios.clusters if row["ratio"])
    return replace(events, first=first.astype(np.int64), columns=columns), modules

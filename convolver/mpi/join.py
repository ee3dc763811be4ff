"""The join of the CPU ratio with the replay: ratios per burst from block mixes, run predictions checked on the base machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convolver.errors import UsageError
from convolver.machine.profile import MachineProfile
from convolver.mpi.cfg import Configuration
from convolver.mpi.events import Events
from convolver.mpi.network import Network
from convolver.mpi.network_replay import Ratio, Replayer, as_network
from convolver.mpi.timeline import Timeline


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


def cluster_bursts(mixes: NDArray[np.float64], clusters: int) -> NDArray[np.int64]:
    """Group bursts that execute blocks in the same proportions; return a label for each.

    ``mixes`` (bursts x blocks) counts the executions of each block in each burst; only proportions matter. K-means on the
    normalized rows, with a fixed seed; there are never more labels than distinct rows.
    """
    from scipy.cluster.vq import kmeans2

    if mixes.ndim != 2 or clusters < 1 or not np.all(mixes >= 0):
        raise UsageError("Burst mixes are a table of counts, bursts by blocks, and at least one cluster is needed.")
    total = mixes.sum(axis=1, keepdims=True)
    shares = np.divide(mixes, total, out=np.zeros_like(mixes, dtype=float), where=total > 0)
    distinct, inverse = np.unique(np.round(shares, 12), axis=0, return_inverse=True)
    if len(distinct) <= clusters:
        return np.asarray(inverse.reshape(-1), np.int64)
    _, labels = kmeans2(shares, clusters, minit="++", seed=0)
    return np.asarray(labels, np.int64)

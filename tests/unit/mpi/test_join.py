"""The join of CPU ratios with the replay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from convolver.errors import UsageError
from convolver.mpi.burst_ratios import cluster_bursts
from convolver.mpi.events import EventsBuilder
from convolver.mpi.network import flat_configuration
from convolver.mpi.prediction import predict_run


def recorded():
    builder = EventsBuilder(2)
    for rank in range(2):
        builder.burst(rank, 1.0).send(rank, 1 - rank, 10**6, flags=2).receive(rank, 1 - rank, 10**6).burst(rank, 2.0)
    return replace(builder.build(), notes={"measured_seconds": 3.2})


BASE = flat_configuration(2, bandwidth_bytes_per_second=1e7)
TARGET = flat_configuration(2, bandwidth_bytes_per_second=1e6)


def test_a_run_is_predicted_with_its_interval_and_checked_on_the_base_machine():
    found = predict_run(recorded(), BASE, TARGET, 2.0, interval=(0.8, 1.25))
    assert found.base_seconds == pytest.approx(3.1)
    assert found.base_error == pytest.approx(-0.1 / 3.2)
    assert found.seconds == pytest.approx(3.0 / 2 + 1.0)
    assert (found.low_seconds, found.high_seconds) == pytest.approx((3.0 / 2.5 + 1.0, 3.0 / 1.6 + 1.0))


def test_bursts_with_the_same_mix_share_a_ratio():
    mixes = np.array([[10, 0], [0, 3], [200, 0], [0, 7.0]])
    labels = cluster_bursts(mixes, 2)
    assert labels[0] == labels[2] != labels[1] == labels[3]


def test_more_mixes_than_clusters_are_grouped_by_likeness():
    generator = np.random.default_rng(0)
    near = np.vstack([generator.dirichlet([100, 1, 1], 20), generator.dirichlet([1, 1, 100], 20)])
    labels = cluster_bursts(near, 2)
    assert len(set(labels[:20])) == len(set(labels[20:])) == 1
    assert labels[0] != labels[-1]


def test_an_interval_the_wrong_way_round_is_refused():
    with pytest.raises(UsageError, match="interval"):
        predict_run(recorded(), BASE, TARGET, interval=(2.0, 1.0))

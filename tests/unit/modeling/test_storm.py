"""The replay as a simulator of sweeps: where latency passes."""

import pytest

from convolver.errors import ModelError
from convolver.modeling.storm import Platform, ReplaySimulator
from convolver.mpi.events import EventsBuilder

PLATFORM = Platform(latency_seconds=1e-3, bandwidth_bytes_per_second=1e6)


def two_messages():
    builder = EventsBuilder(2)
    builder.burst(0, 0.1).send(0, 1, 1000).send(0, 1, 1000)
    return builder.burst(1, 0.1).receive(1, 0, 1000).receive(1, 0, 1000).build()


def test_latencies_of_one_sender_queue_on_its_processor_but_not_in_the_wire():
    assert ReplaySimulator()(two_messages(), PLATFORM) == pytest.approx(0.1 + 2e-3 + 1e-3)
    assert ReplaySimulator("wire")(two_messages(), PLATFORM) == pytest.approx(0.1 + 1e-3 + 1e-3)


def test_other_places_are_refused():
    with pytest.raises(ModelError, match="start-up or wire"):
        ReplaySimulator("sky")

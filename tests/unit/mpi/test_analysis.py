"""Critical path, efficiencies, sensitivity: known answers and laws."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convolver.errors import UsageError
from convolver.mpi.analysis import critical_path, efficiency, phase_bounds, sensitivity
from convolver.mpi.events import RENDEZVOUS, EventsBuilder, Op
from convolver.mpi.network import MIB, NEVER, Network, flat_configuration, what_if
from convolver.mpi.network_replay import Replayer, replay
from tests.mpi_strategies import configurations, traces


def network(ranks, **changes):
    return Network(flat_configuration(ranks, **{"latency_seconds": 1e-5, "bandwidth_bytes_per_second": 100 * MIB, **changes}))


def test_the_path_of_one_late_message_goes_through_its_sender():
    events = EventsBuilder(2).burst(0, 1.0).send(0, 1, 1 << 20).burst(1, 0.1).receive(1, 0, 1 << 20).burst(1, 0.5).build()
    path = critical_path(replay(events, network(2)))
    assert path.steps["rank"].to_list() == [0, 0, 1, 1]
    assert path.steps["activity"].to_list() == ["compute", "startup", "transfer", "compute"]
    assert path.shares["compute"] * path.predicted_seconds == pytest.approx(1.5)


def test_the_path_of_a_late_receiver_of_a_rendezvous_goes_through_the_receiver():
    builder = EventsBuilder(2).burst(0, 0.1).send(0, 1, 1 << 20, flags=RENDEZVOUS).burst(0, 3.0)
    path = critical_path(replay(builder.burst(1, 1.0).receive(1, 0, 1 << 20).build(), network(2)))
    assert path.steps["rank"].to_list() == [1, 1, 0]
    assert path.steps["activity"].to_list() == ["compute", "startup", "compute"]


def test_the_path_of_a_collective_goes_through_the_last_to_arrive():
    builder = EventsBuilder(3)
    for rank, seconds in enumerate((0.1, 2.0, 0.3)):
        builder.burst(rank, seconds).collective(rank, Op.BARRIER).burst(rank, 1.0 - seconds / 4)
    events = builder.build()
    timeline = replay(events, network(3))
    path = critical_path(timeline)
    assert path.steps["rank"].to_list() == [1, 0, 0]
    assert path.steps["activity"].to_list() == ["compute", "collective", "compute"]
    bounds = phase_bounds(events, timeline)
    assert bounds == pytest.approx([2.0 + 4e-5])
    phases = path.by_phase(bounds)
    assert phases.filter(activity="compute")["seconds"].to_list() == pytest.approx([2.0, 0.975])


def test_a_transfer_that_waits_for_a_link_shows_contention():
    builder = EventsBuilder(3)
    for to in (1, 2):
        builder.send(0, to, 1 << 20).receive(to, 0, 1 << 20)
    path = critical_path(replay(builder.build(), network(3, links=1)))
    assert path.steps["activity"].to_list() == ["startup", "startup", "contention", "transfer"]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_the_path_covers_the_predicted_time_without_gaps(data):
    events = data.draw(traces())
    config = data.draw(configurations(events.ranks))
    path = critical_path(replay(events, Network(config, rendezvous_bytes=NEVER)))
    steps = path.steps
    assert (steps["end"] - steps["begin"]).sum() == pytest.approx(path.predicted_seconds, abs=1e-10)
    assert steps["begin"].to_list()[1:] == pytest.approx(steps["end"].to_list()[:-1], abs=1e-10)
    assert sum(path.shares.values()) == pytest.approx(1.0)


@settings(max_examples=40, deadline=None)
@given(traces())
def test_efficiencies_multiply_to_the_parallel_efficiency(events):
    found = efficiency(Replayer(events), Network(network(events.ranks).configuration, rendezvous_bytes=NEVER))
    product = found["load_balance"] * found["serialization"] * found["transfer"]
    assert product == pytest.approx(found["parallel_efficiency"])
    assert all(0 <= found[name] <= 1 + 1e-9 for name in ("load_balance", "serialization", "transfer"))


def test_sensitivity_tells_computation_from_latency():
    computing = EventsBuilder(2).burst(0, 1.0).burst(1, 1.0).build()
    rows = {row["change"]: row["speedup"] for row in sensitivity(Replayer(computing), network(2))}
    assert rows["CPU x 2"] == pytest.approx(2.0)
    assert rows["latency x 2"] == rows["ideal network"] == 1.0
    builder = EventsBuilder(2)
    for _ in range(10):
        builder.send(0, 1, 0).receive(1, 0, 0)
    rows = {row["change"]: row["speedup"] for row in sensitivity(Replayer(builder.build()), network(2))}
    assert rows["latency x 2"] == pytest.approx(0.5)
    assert rows["CPU x 10"] == 1.0


def test_loggp_charges_overheads_wire_gap_and_bytes():
    builder = EventsBuilder(2)
    for _ in range(2):
        builder.send(0, 1, 1000).receive(1, 0, 1000)
    with_overheads = what_if(network(2, links=1), latency_seconds=1e-6, bandwidth_bytes_per_second=1e9)
    changed = replace(with_overheads, wire_latency_seconds=10e-6, gap_seconds=5e-6)
    # Two sends at 1 and 2 us; the second leaves after the gap, at 6 us, travels 1 us and 10 us on the wire.
    ends = replay(builder.build(), changed).ranks["seconds"].to_list()
    assert ends == pytest.approx([2e-6, 17e-6])


def test_a_timeline_without_intervals_has_no_path():
    events = EventsBuilder(1).burst(0, 1.0).build()
    with pytest.raises(UsageError, match="no intervals"):
        critical_path(replay(events, network(1), record=False))

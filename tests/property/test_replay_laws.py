"""The replay core against the slow model, and the laws that hold on every trace."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convolver.errors import ReplayError
from convolver.mpi.cfg import Configuration, Nodes
from convolver.mpi.events import EventKind, Events, EventsBuilder
from convolver.mpi.network import MIB, NEVER, Network, flat_configuration
from convolver.mpi.network_replay import Replayer, replay
from tests.mpi_strategies import configurations, traces
from tests.oracle import replay_oracle as oracle


@settings(max_examples=400, deadline=None)
@given(st.data(), st.sampled_from([None, 0, 4096]))
def test_the_core_agrees_with_the_slow_model(data, rendezvous):
    events = data.draw(traces())
    config = data.draw(configurations(events.ranks))
    network = Network(config) if rendezvous is None else Network(config, rendezvous_bytes=rendezvous)
    slow = oracle.Simulator(events, config, network.placement(events.ranks), rendezvous)
    expected = slow.run()
    if None in expected:
        with pytest.raises(ReplayError, match="Deadlock"):
            replay(events, network)
        return
    found = Replayer(events).run(network)
    assert found.ranks["seconds"].to_list() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert found.ranks["bytes_received"].sum() == slow.received


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_shares_of_a_rank_add_up_and_bytes_are_conserved(data):
    events = data.draw(traces())
    config = data.draw(configurations(events.ranks))
    found = replay(events, Network(config, rendezvous_bytes=NEVER))
    ranks = found.ranks
    shares = ranks["compute_seconds"] + ranks["transfer_seconds"] + ranks["wait_seconds"]
    assert shares.to_list() == pytest.approx(ranks["seconds"].to_list(), abs=1e-12)
    assert ranks["bytes_sent"].sum() == ranks["bytes_received"].sum() == found.messages["bytes"].sum()
    spans = found.intervals.select(span=found.intervals["end"] - found.intervals["begin"])["span"].sum()
    assert spans == pytest.approx(ranks["seconds"].sum(), abs=1e-11)


@settings(max_examples=60, deadline=None)
@given(traces())
def test_ratio_2_on_an_ideal_network_halves_the_time_exactly(events):
    network = Network(flat_configuration(events.ranks), rendezvous_bytes=NEVER)
    replayer = Replayer(events)
    assert (replayer.seconds(network, 2.0) * 2 == replayer.seconds(network, 1.0)).all()


@settings(max_examples=60, deadline=None)
@given(traces(), st.floats(1e5, 1e10), st.floats(1.0, 100.0))
def test_more_bandwidth_is_never_slower_without_contention(events, rate, factor):
    replayer = Replayer(events)

    def seconds(bandwidth: float) -> np.ndarray:
        config = flat_configuration(events.ranks, latency_seconds=1e-6, bandwidth_bytes_per_second=bandwidth)
        return replayer.seconds(Network(config, rendezvous_bytes=NEVER))

    assert (seconds(rate * factor) <= seconds(rate) * (1 + 1e-12)).all()


def _relabelled(events: Events, order: list[int]) -> Events:
    """Rank r of the result is rank order[r] of the events."""
    new = np.empty(events.ranks, np.int32)
    new[order] = np.arange(events.ranks)
    parts = [np.arange(events.first[r], events.first[r + 1]) for r in order]
    columns = {name: column[np.concatenate(parts)] for name, column in events.columns.items()}
    named = np.isin(columns["kind"], [EventKind.SEND, EventKind.RECV, EventKind.IRECV, EventKind.WAIT])
    reduce = (columns["kind"] == EventKind.COLLECTIVE) & (columns["op"] == 10)
    partner = columns["partner"]
    columns["partner"] = np.where(named | reduce, new[np.minimum(partner, events.ranks - 1)], partner).astype(np.int32)
    members = np.concatenate([np.sort(new[m]) for m in events.communicators().values()])
    first = np.cumsum([0, *(len(part) for part in parts)])
    return replace(events, first=first, columns=columns, members=members)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_times_do_not_depend_on_the_ranks_names_on_a_flat_network(data):
    events = data.draw(traces())
    order = data.draw(st.permutations(range(events.ranks)))
    config = flat_configuration(events.ranks, latency_seconds=2e-6, bandwidth_bytes_per_second=1e8)
    network = Network(config, rendezvous_bytes=NEVER)
    before = Replayer(events).seconds(network)
    after = Replayer(_relabelled(events, order)).seconds(network)
    assert after == pytest.approx(before[order], rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_replay_is_deterministic(data):
    events = data.draw(traces())
    config = data.draw(configurations(events.ranks))
    network = Network(config, rendezvous_bytes=NEVER)
    one, two = replay(events, network), replay(events, network)
    assert one.id == two.id


def _machine(nodes: int, model: int = 3) -> Configuration:
    group = Nodes(nodes, 1, 1.0, 1e-6, 1000.0, 0, 1, 1, 10e-6, 1, 1)
    return Configuration((group,), bandwidth_mib=100.0, collective_model=model, mapping="1 TASKS_PER_NODE")


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 33), st.integers(1, 3), st.integers(0, 1 << 33))
def test_a_collective_costs_what_the_formula_says(ranks, model, size):
    builder = EventsBuilder(ranks)
    for rank in range(ranks):
        builder.burst(rank, 1e-3).collective(rank, 11, sent=size, received=size)
    rounds = {1: 1, 2: ranks - 1, 3: math.ceil(math.log2(ranks))}[model]
    inter, intra = 2 * (10e-6 + size / (100 * MIB)) * rounds, 2 * (1e-6 + size / (1000 * MIB)) * (model == 1)
    assert replay(builder.build(), _machine(ranks, model)).predicted_seconds == pytest.approx(1e-3 + inter + intra, abs=2e-9)

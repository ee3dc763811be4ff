"""Collective algorithms: every message sent is received, and the costs are those of the literature."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convolver.errors import UsageError
from convolver.mpi.algorithms import ALGORITHMS, expand
from convolver.mpi.events import EventKind, EventsBuilder, Op, Sync
from convolver.mpi.network import NEVER, Network, flat_configuration
from convolver.mpi.network_replay import replay
from tests.mpi_strategies import traces

LATENCY, RATE = 1e-6, 1e8


@given(st.sampled_from(sorted(ALGORITHMS)), st.integers(1, 40), st.data())
def test_every_message_of_a_schedule_has_its_receive(name, members, data):
    root, size = data.draw(st.integers(0, members - 1)), data.draw(st.integers(0, 10000))
    sent, received = Counter(), Counter()
    for i in range(members):
        for to, out, source, into in ALGORITHMS[name](i, members, root, size):
            if to is not None:
                assert 0 <= to < members
                sent[i, to, out] += 1
            if source is not None:
                received[source, i, into] += 1
    assert sent == received


@pytest.mark.parametrize("name", ["binomial-bcast", "binomial-scatter"])
@pytest.mark.parametrize("members", [1, 2, 3, 7, 8, 13])
def test_a_tree_reaches_every_member_once(name, members):
    reached = [sum(s[2] is not None for s in ALGORITHMS[name](i, members, 2 % members, 64)) for i in range(members)]
    assert reached == [int(i != 2 % members) for i in range(members)]


def collective_seconds(op, name, ranks, size):
    builder = EventsBuilder(ranks)
    for rank in range(ranks):
        builder.collective(rank, op, sent=size, received=size, root=int(rank == 0 and op == Op.BCAST))
    network = Network(flat_configuration(ranks, latency_seconds=LATENCY, bandwidth_bytes_per_second=RATE), rendezvous_bytes=NEVER)
    return replay(expand(builder.build(), {op: name}), network).predicted_seconds


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_costs_are_those_of_the_literature(ranks):
    size, rounds = 1 << 20, int(math.log2(ranks))
    beta = size / RATE
    cases = {
        (Op.ALLREDUCE, "ring"): 2 * (ranks - 1) * (LATENCY + beta / ranks),
        (Op.ALLREDUCE, "recursive-doubling"): rounds * (LATENCY + beta),
        (Op.ALLREDUCE, "rabenseifner"): 2 * rounds * LATENCY + 2 * beta * (ranks - 1) / ranks,
        (Op.BCAST, "binomial-bcast"): rounds * (LATENCY + beta),
        (Op.ALLTOALL, "pairwise"): (ranks - 1) * (LATENCY + beta / ranks),
        (Op.BARRIER, "dissemination"): rounds * 2 * LATENCY,
    }
    for (op, name), expected in cases.items():
        found = collective_seconds(op, name, ranks, 0 if op == Op.BARRIER else size)
        assert found == pytest.approx(expected, rel=1e-9), name


@settings(max_examples=60, deadline=None)
@given(traces())
def test_expanded_traces_replay_without_deadlock_and_lose_no_bytes(events):
    network = Network(flat_configuration(events.ranks, latency_seconds=LATENCY), rendezvous_bytes=NEVER)
    expanded = expand(events)
    blocking = (expanded.columns["kind"] == EventKind.COLLECTIVE) & (expanded.columns["flags"] == Sync.BLOCKING)
    assert not blocking.any()
    ranks = replay(expanded, network).ranks
    assert ranks["bytes_sent"].sum() == ranks["bytes_received"].sum()


def test_an_unknown_algorithm_is_refused():
    with pytest.raises(UsageError, match="bogus"):
        expand(EventsBuilder(2).build(), {Op.BCAST: "bogus"})

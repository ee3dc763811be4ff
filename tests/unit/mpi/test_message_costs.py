"""Measured costs of messages in the replay: known answers, laws, and what a profile's network section says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import UsageError
from convolver.mpi.events import IMMEDIATE, EventKind, EventsBuilder
from convolver.mpi.network import NEVER, MessageCosts, Network, flat_configuration, network_from_profile, what_if
from convolver.mpi.network_replay import replay
from convolver.mpi.pingpong import fit_network

COSTS = MessageCosts((0.0, 1000.0), (1e-6, 3e-6), (2e-6, 4e-6), (1e-6, 5e-6), 5e-7)


def network(rendezvous=NEVER, waits=True, costs=COSTS):
    return Network(flat_configuration(2, tasks_per_node=2), rendezvous_bytes=rendezvous, costs=costs, sends_wait=waits)


def seconds(builder, net):
    return replay(builder.build(), net).ranks["seconds"].to_list()


def message(sender=0.0, receiver=0.0, size=1000):
    return EventsBuilder(2).burst(0, sender).send(0, 1, size).burst(1, receiver).receive(1, 0, size)


def test_a_waiting_receiver_ends_after_all_three_parts():
    assert seconds(message(sender=1e-3), network()) == pytest.approx([1e-3 + 3e-6, 1e-3 + 12e-6])
    assert seconds(message(sender=1e-3, size=500), network()) == pytest.approx([1e-3 + 2e-6, 1e-3 + 8e-6])
    assert seconds(message(sender=1e-3, size=2000), network()) == pytest.approx([1e-3 + 5e-6, 1e-3 + 5e-6 + 6e-6 + 9e-6])


def test_a_late_receiver_pays_only_its_own_part():
    assert seconds(message(receiver=1e-3), network()) == pytest.approx([3e-6, 1e-3 + 5e-6])


def test_a_blocking_rendezvous_send_ends_when_its_receiver_has_copied():
    late = message(receiver=1e-3)
    assert seconds(late, network(rendezvous=1000)) == pytest.approx([1e-3 + 9e-6] * 2)
    assert seconds(late, network(rendezvous=1000, waits=False)) == pytest.approx([1e-3, 1e-3 + 9e-6])
    assert seconds(message(sender=1e-3), network(rendezvous=1000)) == pytest.approx([1e-3 + 12e-6] * 2)


def immediate(receiver=0.0, kind=EventKind.RECV):
    builder = EventsBuilder(2).send(0, 1, 1000, flags=IMMEDIATE).wait_send(0, 1, 1000)
    if kind == EventKind.WAIT:
        builder.receive(1, 0, 1000, kind=EventKind.IRECV)
    return builder.burst(1, receiver).receive(1, 0, 1000, kind=kind)


def test_the_wait_for_a_rendezvous_send_ends_when_its_receiver_has_copied():
    assert seconds(immediate(receiver=1e-3), network(rendezvous=1000)) == pytest.approx([1e-3 + 9e-6] * 2)
    assert seconds(immediate(), network(rendezvous=1000)) == pytest.approx([12e-6] * 2)
    assert seconds(immediate(receiver=1e-3), network(rendezvous=1001)) == pytest.approx([3e-6, 1e-3 + 5e-6])
    assert seconds(immediate(receiver=1e-3), network(rendezvous=1000, waits=False))[0] == pytest.approx(3e-6)


def test_a_rank_that_computes_copies_nothing():
    late = [1e-3 + 5.5e-6] * 2
    assert seconds(immediate(receiver=1e-3, kind=EventKind.WAIT), network(rendezvous=1000)) == pytest.approx(late)
    posted = EventsBuilder(2).send(0, 1, 1000).receive(1, 0, 1000, kind=EventKind.IRECV).burst(1, 1e-3)
    assert seconds(posted.receive(1, 0, 1000, kind=EventKind.WAIT), network(rendezvous=1000)) == pytest.approx(late)


def test_a_rank_that_waits_for_another_message_copies_at_once():
    builder = EventsBuilder(3).send(0, 1, 1000, flags=IMMEDIATE).wait_send(0, 1, 1000).burst(2, 1e-3).send(2, 1, 0)
    for source, size in ((0, 1000), (2, 0)):
        builder.receive(1, source, size, kind=EventKind.IRECV)
    builder.receive(1, 2, 0, kind=EventKind.WAIT).receive(1, 0, 1000, kind=EventKind.WAIT)
    three = Network(flat_configuration(3, tasks_per_node=3), rendezvous_bytes=1000, costs=COSTS, sends_wait=True)
    assert seconds(builder, three)[0] == pytest.approx(12e-6)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3000), st.floats(0, 1e-4)), min_size=1, max_size=20),
    st.integers(0, 3000),
    st.integers(1, 4),
    st.floats(0, 1e-5),
)
def test_exchanges_end_on_shared_processors_and_every_byte_arrives(messages, limit, cpus, handover):
    """Posted receives, immediate sends, computation, then all waits: no order of arrivals may leave a rank waiting."""
    builder = EventsBuilder(4)
    messages = [(a, b, size, burst) for a, b, size, burst in messages if a != b]
    for number, (a, b, size, _) in enumerate(messages):
        builder.receive(b, a, size, tag=number, kind=EventKind.IRECV)
    for number, (a, b, size, burst) in enumerate(messages):
        builder.send(a, b, size, tag=number, flags=IMMEDIATE).burst(a, burst)
    for number, (a, b, size, _) in enumerate(messages):
        builder.wait_send(a, b, size, tag=number).receive(b, a, size, tag=number, kind=EventKind.WAIT)
    shared = Network(
        flat_configuration(4, tasks_per_node=4, cpus=cpus),
        rendezvous_bytes=limit,
        costs=COSTS,
        sends_wait=True,
        share_cpus=True,
        handover_seconds=handover,
    )
    found = replay(builder.build(), shared)
    assert found.ranks["bytes_received"].sum() == sum(size for _, _, size, _ in messages)
    assert found.ranks["compute_seconds"].sum() == pytest.approx(sum(burst for *_, burst in messages))
    parts = found.ranks["compute_seconds"] + found.ranks["transfer_seconds"] + found.ranks["wait_seconds"]
    assert parts.to_list() == pytest.approx(found.ranks["seconds"].to_list())
    own = replay(builder.build(), replace(shared, sends_wait=False, share_cpus=False))
    assert found.predicted_seconds >= own.predicted_seconds - 1e-12


def test_posting_and_waiting_are_paid_and_copies_of_one_rank_follow_each_other():
    builder = EventsBuilder(2)
    for _ in range(2):
        builder.receive(1, 0, 1000, kind=EventKind.IRECV)
    builder.burst(1, 1e-3)
    for _ in range(2):
        builder.send(0, 1, 1000, flags=IMMEDIATE).receive(1, 0, 1000, kind=EventKind.WAIT)
    assert seconds(builder, network()) == pytest.approx([6e-6, 2 * 5e-7 + 1e-3 + 10e-6])


def test_exchanges_with_posted_receives_do_not_deadlock():
    builder = EventsBuilder(2)
    for rank in range(2):
        builder.receive(rank, 1 - rank, 1000, kind=EventKind.IRECV).send(rank, 1 - rank, 1000).receive(
            rank, 1 - rank, 1000, kind=EventKind.WAIT
        )
    assert max(seconds(builder, network(rendezvous=0))) < 1e-3


@given(
    st.lists(st.tuples(st.floats(0, 1e-3), st.integers(0, 5000), st.booleans()), min_size=1, max_size=12), st.integers(0, 4000)
)
def test_dearer_messages_never_make_a_ping_pong_faster(steps, limit):
    builder = EventsBuilder(2)
    for step, (burst, size, forward) in enumerate(steps):
        a, b = (0, 1) if forward else (1, 0)
        builder.burst(step % 2, burst).send(a, b, size).receive(b, a, size)
    cheap, dear = (replay(builder.build(), network(limit, costs=COSTS.scaled(f, f))).predicted_seconds for f in (1.0, 2.0))
    assert cheap <= dear * (1 + 1e-12)


def test_what_if_scales_the_costs():
    slow = what_if(network(), latency_seconds=8e-6, bandwidth_bytes_per_second=1000 / 16e-6).costs
    assert sum(v[0] for v in (slow.send, slow.transfer, slow.receive)) == pytest.approx(8e-6)
    assert sum(v[1] for v in (slow.send, slow.transfer, slow.receive)) == pytest.approx(8e-6 + 16e-6)
    free = what_if(network(), latency_seconds=0, bandwidth_bytes_per_second=float("inf"))
    assert seconds(message(sender=1e-3), free) == pytest.approx([1e-3, 1e-3])


def lines(disturbed=()):
    found = [{"kind": "hosts", "same": True}]
    for size in (0, 64, 1024, 4096, 65536, 131072):
        one_way = 1e-6 + size / 1e9
        parts = {"pingpong": one_way, "overhead": 2e-7, "post": 1e-7, "receive": 3e-7 + size / 2e9}
        found += [{"kind": kind, "bytes": size, "seconds": value * slow} for kind, value in parts.items() for slow in (1.0, 1.5)]
        late = 2e-3 if size >= 4096 or size in disturbed else 1e-6
        found += [{"kind": "late", "bytes": size, "seconds": late}] * 2
    return found


def test_a_ping_pongs_costs_add_up_to_its_one_way_times():
    measured = fit_network(lines(disturbed=(64,)))
    assert measured["eager_limit_bytes"] == 4096
    network = network_from_profile(measured, 2)
    assert network.costs is not None
    assert network.sends_wait
    whole = np.sum([network.costs.send, network.costs.transfer, network.costs.receive], axis=0)
    assert whole == pytest.approx([1e-6 + size / 1e9 for size in network.costs.sizes])
    builder = EventsBuilder(2).send(0, 1, 1024).receive(1, 0, 1024)
    assert max(seconds(builder, network)) == pytest.approx(1e-6 + 1024 / 1e9)
    assert network_from_profile(measured, 4, tasks_per_node=2).costs is None


def test_costs_that_are_no_curves_are_refused():
    measured = fit_network(lines())
    for field, value in (
        ("bytes", [0, 64, 32]),
        ("send_seconds", [-1.0] * 6),
        ("receive_seconds", "fast"),
        ("post_seconds", None),
    ):
        with pytest.raises(UsageError, match="measure it again"):
            network_from_profile({**measured, "costs": {**measured["costs"], field: value}}, 2)


def test_the_network_without_costs_is_dimemas_as_before():
    bare = replace(network(), costs=None, sends_wait=False)
    assert seconds(message(sender=1e-3), bare) == pytest.approx([1e-3, 1e-3])


def test_tasks_of_a_node_take_turns_on_its_processors():
    builder = EventsBuilder(4)
    for rank in range(4):
        builder.burst(rank, 1.0).burst(rank, 0.5)
    shared = Network(flat_configuration(4, tasks_per_node=4, cpus=2), share_cpus=True)
    timeline = replay(builder.build(), shared)
    assert timeline.predicted_seconds == 3.0
    assert timeline.ranks["compute_seconds"].to_list() == [1.5] * 4
    assert (timeline.ranks["compute_seconds"] + timeline.ranks["wait_seconds"]).to_list() == timeline.ranks["seconds"].to_list()
    own = Network(flat_configuration(4, tasks_per_node=4, cpus=4), share_cpus=True)
    assert replay(builder.build(), own).predicted_seconds == 1.5


def test_handing_a_processor_over_takes_a_while_and_messages_need_one_too():
    one = Network(flat_configuration(2, tasks_per_node=2, cpus=1), share_cpus=True, handover_seconds=0.25)
    builder = EventsBuilder(2).burst(0, 1.0).send(0, 1, 8).receive(0, 1, 8).burst(0, 1.0)
    builder.burst(1, 2.0).receive(1, 0, 8).send(1, 0, 8)
    # Rank 0 computes and waits; rank 1 computes, has its message and ends; rank 0 goes on: two handovers.
    assert replay(builder.build(), one).ranks["seconds"].to_list() == [4.5, 3.25]
    costs = MessageCosts((0.0, 1000.0), (0.5,) * 2, (0.0,) * 2, (0.25,) * 2)
    slow = replace(one, costs=costs)
    assert replay(builder.build(), slow).ranks["seconds"].to_list() == [6.0, 4.5]
    own = replace(one, configuration=flat_configuration(2, tasks_per_node=2, cpus=2))
    assert replay(builder.build(), own).ranks["seconds"].to_list() == [3.0, 2.0]


@given(st.lists(st.lists(st.floats(1e-6, 1.0), max_size=5), min_size=1, max_size=5), st.integers(1, 5))
def test_a_processor_is_never_idle_while_a_burst_of_its_tasks_waits(bursts, cpus):
    builder = EventsBuilder(len(bursts))
    for rank, row in enumerate(bursts):
        for seconds_of in row:
            builder.burst(rank, seconds_of)
    shared = Network(flat_configuration(len(bursts), tasks_per_node=len(bursts), cpus=cpus), share_cpus=True)
    found = replay(builder.build(), shared).predicted_seconds
    work = [sum(map(sum, bursts[cpu::cpus])) for cpu in range(cpus)]
    assert found == pytest.approx(max(work))

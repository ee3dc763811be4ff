"""Known answers of the replay (seconds, to 2 ns) and its complaints."""

from __future__ import annotations

import numpy as np
import pytest

from convolver.errors import FormatError, ReplayError, UsageError
from convolver.mpi.cfg import Configuration, Nodes
from convolver.mpi.events import IMMEDIATE, RENDEZVOUS, EventKind, EventsBuilder, Op, Sync
from convolver.mpi.network import NEVER, Network, flat_configuration, what_if
from convolver.mpi.network_replay import Replayer, replay

NANOSECONDS = 2e-9


def machine(nodes=4, model=3, **changes) -> Configuration:
    fields = {
        "count": nodes,
        "latency_intra_seconds": 1e-6,
        "bandwidth_intra_mib": 1000.0,
        "in_intra": 1,
        "out_intra": 1,
        "latency_inter_seconds": 10e-6,
        "in_inter": 1,
        "out_inter": 1,
    }
    nodes_kind = Nodes(**{**fields, **{k: v for k, v in changes.items() if k in Nodes.__annotations__}})
    rest = {k: v for k, v in changes.items() if k not in Nodes.__annotations__}
    return Configuration(
        (nodes_kind,), **{"bandwidth_mib": 100.0, "collective_model": model, "mapping": "1 TASKS_PER_NODE", **rest}
    )


def pair(flags=0, late=0.0):
    builder = EventsBuilder(2)
    builder.burst(0, 1e-3).send(0, 1, 1 << 20, flags=flags).burst(0, 2e-3)
    return builder.burst(1, 0.5e-3 + late).receive(1, 0, 1 << 20).burst(1, 1e-3).build()


def seconds(events, network) -> float:
    return replay(events, network).predicted_seconds


@pytest.mark.parametrize(
    ("flags", "late", "expected"),
    [(0, 0, 0.012010000), (RENDEZVOUS, 0, 0.012010000), (0, 0.05, 0.051510000), (RENDEZVOUS, 0.05, 0.061510000)],
)
def test_one_message(flags, late, expected):
    assert seconds(pair(flags, late), machine()) == pytest.approx(expected, abs=NANOSECONDS)


@pytest.mark.parametrize(("model", "expected"), [(1, 0.001022000), (2, 0.001140000), (3, 0.001060000)])
def test_a_barrier_of_8_ranks(model, expected):
    builder = EventsBuilder(8)
    for rank in range(8):
        builder.burst(rank, 1e-3).collective(rank, Op.BARRIER)
    assert seconds(builder.build(), machine(8, model)) == pytest.approx(expected, abs=NANOSECONDS)


def test_two_messages_share_one_link_one_after_the_other():
    builder = EventsBuilder(3)
    for to in (1, 2):
        builder.send(0, to, 1 << 20).receive(to, 0, 1 << 20)
    # Startups at 10 us and 20 us; the second transfer begins when the first ends.
    assert seconds(builder.build(), machine()) == pytest.approx(0.02001, abs=NANOSECONDS)
    assert seconds(builder.build(), machine(out_inter=2, in_inter=2)) == pytest.approx(0.01002, abs=NANOSECONDS)


def test_one_bus_serialises_independent_pairs():
    builder = EventsBuilder(4)
    for source in (0, 2):
        builder.send(source, source + 1, 1 << 20).receive(source + 1, source, 1 << 20)
    assert seconds(builder.build(), machine(buses=1)) == pytest.approx(0.02001, abs=NANOSECONDS)
    assert seconds(builder.build(), machine(buses=2)) == pytest.approx(0.01001, abs=NANOSECONDS)


def test_half_duplex_links_serialise_an_exchange():
    builder = EventsBuilder(2)
    for rank in (0, 1):
        builder.receive(rank, 1 - rank, 1 << 20, kind=EventKind.IRECV).send(rank, 1 - rank, 1 << 20)
        builder.receive(rank, 1 - rank, 1 << 20, kind=EventKind.WAIT)
    assert seconds(builder.build(), machine(in_inter=0)) == pytest.approx(0.02001, abs=NANOSECONDS)
    assert seconds(builder.build(), machine()) == pytest.approx(0.01001, abs=NANOSECONDS)


def test_an_immediate_rendezvous_lets_the_sender_go_on():
    waits = replay(pair(RENDEZVOUS, 0.05), machine()).ranks["seconds"][0]
    goes_on = replay(pair(RENDEZVOUS | IMMEDIATE, 0.05), machine()).ranks["seconds"][0]
    assert waits == pytest.approx(0.05251, abs=NANOSECONDS)
    assert goes_on == pytest.approx(0.00301, abs=NANOSECONDS)


def test_an_eager_limit_replaces_the_bit_of_the_trace():
    late = pair(0, 0.05)
    assert seconds(late, Network(machine(), rendezvous_bytes=1 << 20)) == pytest.approx(0.06151, abs=NANOSECONDS)
    assert seconds(late, Network(machine(), rendezvous_bytes=(1 << 20) + 1)) == pytest.approx(0.05151, abs=NANOSECONDS)
    assert seconds(pair(RENDEZVOUS, 0.05), Network(machine(), rendezvous_bytes=NEVER)) == pytest.approx(0.05151, abs=NANOSECONDS)


def test_messages_within_a_node_use_its_own_latency_and_bandwidth():
    network = machine(mapping="2 TASKS_PER_NODE")
    assert seconds(pair(), network) == pytest.approx(1e-3 + 1e-6 + 1e-3 + 1e-3, abs=NANOSECONDS)


def test_sizes_beyond_32_bits_count_in_full():
    builder = EventsBuilder(2)
    size = 5 << 30
    for rank in (0, 1):
        builder.collective(rank, Op.BCAST, sent=size, received=size, root=int(rank == 0))
    assert seconds(builder.build(), machine()) == pytest.approx(2 * (10e-6 + 5 * 1024 / 100), rel=1e-12)


def test_a_reduce_lets_each_rank_go_on_at_its_own_arrival():
    builder = EventsBuilder(3)
    for rank, delay in enumerate((0.0, 0.0, 0.1)):
        builder.burst(rank, delay).collective(rank, Op.REDUCE, sent=1 << 20, received=1 << 20, root=0, sync=Sync.ROOT)
    ends = replay(builder.build(), machine()).ranks["seconds"].to_list()
    assert ends == pytest.approx([0.11001, 0.01001, 0.11001], abs=NANOSECONDS)


def test_a_nonblocking_collective_overlaps_computation():
    builder = EventsBuilder(2)
    for rank in (0, 1):
        builder.collective(rank, Op.ALLREDUCE, sent=1 << 20, received=1 << 20, sync=Sync.NONBLOCKING).burst(rank, 0.5)
        builder.collective(rank, Op.ALLREDUCE, sync=Sync.WAIT)
    assert seconds(builder.build(), machine()) == pytest.approx(0.5 + 20e-6, abs=NANOSECONDS)


def test_a_collective_waits_for_the_buses_and_takes_all_of_them():
    builder = EventsBuilder(4, {2: [2, 3]})
    builder.send(0, 1, 1 << 20).receive(1, 0, 1 << 20)
    for rank in (2, 3):
        builder.burst(rank, 1e-3).collective(rank, Op.BARRIER, comm=2)
    alone = machine(buses=2)
    assert replay(builder.build(), alone).ranks["seconds"].to_list()[2] == pytest.approx(0.01001 + 20e-6, abs=NANOSECONDS)


def test_modules_nest_and_fixed_durations_are_divided_by_the_node_ratio():
    builder = EventsBuilder(1)
    builder.event(0, 5, 1).burst(0, 1.0).event(0, 6, 9).burst(0, 1.0).event(0, 5, 2).burst(0, 1.0)
    builder.event(0, 5, 0).burst(0, 1.0).event(0, 6, 0).burst(0, 1.0).event(0, 5, 0).burst(0, 1.0)
    config = machine(1, ratio=2.0, modules=((5, 1, 4.0), (5, 2, -0.5), (6, 9, 0.0)))
    expected = [0.125, 0.0, 0.25, 0.0, 0.125, 0.5]
    found = replay(builder.build(), config)
    assert found.predicted_seconds == pytest.approx(sum(expected), abs=1e-15)


def test_ratios_of_ranks_and_bursts_multiply():
    events = EventsBuilder(2).burst(0, 1.0).burst(0, 1.0).burst(1, 1.0).build()
    network = flat_configuration(2, ratio=2.0)
    found = replay(events, network, np.array([1.0, 4.0]), burst_ratio=np.array([1.0, 2.0, 0.5]))
    assert found.ranks["seconds"].to_list() == [0.75, 0.25]


def test_wire_latency_delays_the_arrival_and_gap_holds_the_links():
    assert seconds(pair(), Network(machine(), wire_latency_seconds=1e-3)) == pytest.approx(0.01301, abs=NANOSECONDS)
    builder = EventsBuilder(3)
    for to in (1, 2):
        builder.send(0, to, 0).receive(to, 0, 0)
    assert seconds(builder.build(), Network(machine(), gap_seconds=1.0)) == pytest.approx(1.00001, abs=NANOSECONDS)


def test_what_if_without_latency_and_bandwidth_leaves_the_computation():
    network = what_if(Network(machine()), latency_seconds=0.0, bandwidth_bytes_per_second=float("inf"), contention=False)
    assert seconds(pair(), network) == pytest.approx(0.003, abs=NANOSECONDS)


def test_quirks_ignore_collectives_on_communicator_0_and_let_any_collective_satisfy_a_wait():
    builder = EventsBuilder(2, {0: [0, 1]})
    for rank in (0, 1):
        builder.collective(rank, Op.BARRIER, comm=0)
    assert seconds(builder.build(), Network(machine(), quirks=True)) == 0
    assert seconds(builder.build(), machine()) == pytest.approx(20e-6)
    builder = EventsBuilder(2, {2: [0, 1]})
    for rank in (0, 1):
        for comm, size in ((1, 100 << 20), (2, 0)):
            builder.collective(rank, Op.BCAST, sent=size, comm=comm, sync=Sync.NONBLOCKING)
        builder.collective(rank, Op.BCAST, comm=1, sync=Sync.WAIT).burst(rank, 1.0).collective(
            rank, Op.BCAST, comm=2, sync=Sync.WAIT
        )
    exact, quirky = (seconds(builder.build(), Network(machine(), quirks=q)) for q in (False, True))
    assert exact == pytest.approx(2.0, abs=1e-3)
    assert quirky == pytest.approx(1.0, abs=1e-3)


def test_a_cycle_of_blocking_sends_is_named():
    builder = EventsBuilder(3)
    for rank in range(3):
        builder.burst(rank, 1.0).send(rank, (rank + 1) % 3, 10, tag=4, flags=RENDEZVOUS)
        builder.receive(rank, (rank - 1) % 3, 10, tag=4)
    with pytest.raises(ReplayError) as caught:
        replay(builder.build(), machine())
    assert "3 of 3 ranks" in str(caught.value)
    assert "rank 0 at record 1 (send to 1 (tag 4)), waits for rank 1" in str(caught.value)
    assert str(caught.value).count("rank 0") == 2


def test_a_message_that_nobody_sends_is_named():
    events = EventsBuilder(2).receive(1, 0, 8, tag=3).build()
    with pytest.raises(ReplayError, match=r"rank 1 at record 0 \(recv from 0 \(tag 3\)\), waits for rank 0, which has finished"):
        replay(events, machine())


def test_a_collective_that_one_member_never_reaches_is_named():
    events = EventsBuilder(3).collective(0, Op.BARRIER).collective(1, Op.BARRIER).build()
    with pytest.raises(ReplayError, match=r"Barrier on communicator 1.*waits for rank 2, which has finished"):
        replay(events, machine())


def test_contradictory_traces_are_refused():
    mismatch = EventsBuilder(2).collective(0, Op.BARRIER).collective(1, Op.BCAST).build()
    foreign = EventsBuilder(3, {2: [1, 2]}).collective(0, Op.BARRIER, comm=2).build()
    unposted = EventsBuilder(2).collective(0, Op.BARRIER, sync=Sync.WAIT).build()
    nobody = EventsBuilder(2).send(0, 2, 1).build()
    for events, reason in [
        (mismatch, "another operation"),
        (foreign, "does not belong"),
        (unposted, "never started"),
        (nobody, "does not exist"),
    ]:
        with pytest.raises(FormatError, match=reason):
            Replayer(events)


def test_a_machine_that_is_too_small_is_refused():
    with pytest.raises(ReplayError, match="do not fit"):
        replay(EventsBuilder(5).build(), machine(4))


def test_ratios_that_do_not_fit_are_refused():
    with pytest.raises(UsageError, match="3 CPU ratios for 2 ranks"):
        replay(pair(), machine(), np.ones(3))
    with pytest.raises(UsageError, match="negative"):
        replay(pair(), machine(), -1.0)

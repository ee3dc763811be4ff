"""The executable signature, measurable points and traces of real ranks for P3S, on programs whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from convolver.errors import ModelError, UsageError
from convolver.modeling.p3s.executable_signature import phase_times, signature
from convolver.modeling.p3s.points import measured_rates
from convolver.modeling.p3s.rules import Rule
from convolver.modeling.p3s.slt import build
from convolver.mpi.events import IMMEDIATE, MARK_EVENT, EventKind, EventsBuilder, Op
from convolver.mpi.network import flat_configuration
from convolver.mpi.network_replay import Replayer
from convolver.mpi.play import LARGEST, Marks, marks_of, packed
from convolver.mpi.sources import load_operations
from convolver.mpi.time_independent import MARK, Operation, from_events, to_events

STEPS = 30


def program(count, steps=STEPS, work=1e6):
    """A setup, steps with a shift on a q x q torus and a sum, and an end; work shrinks with the processes."""
    trace = []
    for rank in range(count):
        to, source = (Rule("torus", "square", 0, way)(rank, count) for way in (1, -1))
        operations = [Operation("bcast", bytes=40, work=3 * work / count)]
        for _ in range(steps):
            operations += [
                Operation("isend", to, 4000, 0, work / count),
                Operation("recv", source, 4000, 0, 0.0),
                Operation("allreduce", bytes=8, work=2 * work / count),
            ]
        trace.append([*operations, Operation("barrier", work=5 * work / count)])
    return trace


@pytest.fixture(scope="module")
def scalable():
    return build({count: program(count) for count in (4, 9, 16)})


def network(count):
    return flat_configuration(count, latency_seconds=5e-6, bandwidth_bytes_per_second=1e9)


def test_phases_of_a_short_replay_add_up_to_the_time_of_the_whole_run(scalable):
    whole = Replayer(to_events(scalable.at(25), seconds_per_work=1e-9)).seconds(network(25)).max()
    events = signature(scalable, 25, seconds_per_work=1e-9)
    timeline = Replayer(events).run(network(25), record=True)
    rows, predicted = phase_times(events.notes["phases"], marks_of(timeline, events))
    assert timeline.predicted_seconds < 0.3 * whole
    assert predicted == pytest.approx(whole, rel=1e-3)
    assert [(row.turn, row.weight) for row in rows] == [("", 1), ("first", 1), ("middle", STEPS - 2), ("last", 1), ("", 1)]


def test_a_signature_says_what_it_cannot_do(scalable):
    with pytest.raises(ModelError, match="keep three at least"):
        signature(scalable, 25, turns=2)
    with pytest.raises(ModelError, match="--reduce"):
        phase_times([], Marks(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(4)))


def test_the_slowest_rank_counts_with_its_own_phases():
    phases = [{"phase": n, "operations": "send", "turn": "", "weight": w} for n, w in ((0, 1), (1, 10))]
    marks = Marks(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([0.0, 1.0, 0.0, 0.5]), np.array([1.2, 1.0]))
    rows, predicted = phase_times(phases, marks)
    assert predicted == pytest.approx(0.5 + 10 * 0.5)
    assert [row.seconds for row in rows] == pytest.approx([0.5, 0.5])


def test_points_give_each_operation_its_own_rate(scalable):
    counted = program(9, work=2e5)
    slow = [[Operation(o.name, o.partner, o.bytes, 0, o.work * (4 if o.name == "allreduce" else 2)) for o in r] for r in counted]
    rates = measured_rates(scalable.root, [(counted, slow)])
    seconds = {o.name: o.work for o in scalable.at(36, rates)[0]}
    assert seconds["allreduce"] == pytest.approx(4e-9 * 2e6 / 36)
    assert seconds["isend"] == pytest.approx(2e-9 * 1e6 / 36)


def test_between_two_points_the_rate_goes_with_the_logarithm_of_the_instructions(scalable):
    def timed(trace, factor):
        return [[Operation(o.name, o.partner, o.bytes, 0, o.work * factor) for o in rank] for rank in trace]

    small, large = program(9, work=1e5), program(9, work=1e7)
    rates = measured_rates(scalable.root, [(large, timed(large, 3)), (small, timed(small, 1))])
    made = scalable.at(9, rates)[0]
    assert next(o.work for o in made if o.name == "isend") == pytest.approx(2e-9 * 1e6 / 9)


def test_points_of_other_programs_are_refused(scalable):
    counted = program(9)
    with pytest.raises(ModelError, match="keep its steps"):
        measured_rates(scalable.root, [(program(9, steps=5), program(9, steps=5))])
    with pytest.raises(ModelError, match="record the same run twice"):
        measured_rates(scalable.root, [(counted, program(9, steps=5))])
    idle = [[Operation(o.name, o.partner, o.bytes) for o in rank] for rank in counted]
    with pytest.raises(ModelError, match="no work"):
        measured_rates(scalable.root, [(idle, idle)])


def test_events_of_real_ranks_become_the_operations_that_simulated_ones_have(tmp_path):
    builder = EventsBuilder(2)
    for rank in range(2):
        builder.burst(rank, 1e-6).send(rank, 1 - rank, 80, tag=3, flags=IMMEDIATE)
        builder.receive(rank, 1 - rank, 80, tag=3, kind=EventKind.IRECV).receive(rank, 1 - rank, 80, tag=3, kind=EventKind.WAIT)
        builder.burst(rank, 2e-6).wait_send(rank, 1 - rank, 80, tag=3).burst(rank, 3e-6)
        builder.collective(rank, Op.ALLREDUCE, sent=16, received=16).burst(rank, 9e-6)
    builder.build().save(tmp_path / "t.parquet")
    first = load_operations(tmp_path / "t.parquet")[0]
    assert [(o.name, o.partner, o.bytes, round(o.work)) for o in first] == [
        ("isend", 1, 80, 1000),
        ("irecv", 1, 80, 0),
        ("wait", 1, 0, 0),
        ("allreduce", -1, 16, 5000),
    ]


def test_collectives_of_some_ranks_are_refused():
    builder = EventsBuilder(3, {7: [0, 1], 8: [2]}).collective(2, Op.BARRIER, comm=8)
    assert from_events(builder.build()) == [[], [], []]
    builder.collective(0, Op.BARRIER, comm=7)
    with pytest.raises(ModelError, match="some tasks only"):
        from_events(builder.build())


def test_what_the_player_reads_has_one_root_and_one_size_a_collective():
    builder = EventsBuilder(3)
    for rank in range(3):
        builder.collective(rank, Op.BCAST, sent=24 * (rank == 2), received=24 * (rank != 2), root=int(rank == 2))
        builder.collective(rank, Op.ALLTOALL, sent=30, received=30)
        builder.event(rank, MARK_EVENT, 5).event(rank, 1, 1)
    content = packed(builder.build())
    from convolver.mpi.play import RECORD

    records = np.frombuffer(content, RECORD, 12, len(content) - 12 * RECORD.itemsize)
    assert records["partner"][records["op"] == Op.BCAST][::4].tolist()[:1] == [2]
    assert set(records["bytes"][(records["kind"] == EventKind.COLLECTIVE) & (records["op"] == Op.ALLTOALL)].tolist()) == {10}
    assert records["bytes"][records["kind"] == EventKind.EVENT].tolist() == [5, 5, 5]
    huge = EventsBuilder(2).send(0, 1, LARGEST + 1).receive(1, 0, LARGEST + 1).build()
    with pytest.raises(UsageError, match="2 GiB"):
        packed(huge)


def test_marks_survive_the_way_into_events():
    events = to_events([[Operation(MARK, 4), Operation("barrier")]], seconds_per_work=1.0)
    mark = events.columns["kind"] == EventKind.EVENT
    assert events.columns["extra"][mark].tolist() == [4]

"""Real ranks: their instructions counted the same every time, and traces performed by them in the time that they say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings

import pytest

from convolver.errors import NoiseWarning, ReplayError, ToolNotFoundError, UsageError
from convolver.mpi.events import IMMEDIATE, MARK_EVENT, EventKind, EventsBuilder, Op
from convolver.mpi.play import play
from convolver.mpi.sources import load_events
from convolver.mpi.time_independent import WORK_PER_SECOND
from convolver.mpi.traced import count


def ring(ranks, rounds=3):
    builder = EventsBuilder(ranks, {5: [0, 1]})
    for rank in range(ranks):
        for step in range(rounds):
            builder.event(rank, MARK_EVENT, step)
            builder.burst(rank, 0.01)
            builder.send(rank, (rank + 1) % ranks, 1000, tag=step, flags=IMMEDIATE)
            builder.receive(rank, (rank - 1) % ranks, 1000, tag=step, kind=EventKind.IRECV)
            builder.receive(rank, (rank - 1) % ranks, 1000, tag=step, kind=EventKind.WAIT)
            builder.collective(rank, Op.ALLREDUCE, sent=8, received=8)
            builder.collective(rank, Op.BCAST, sent=8 * (rank == 1), received=8 * (rank != 1), root=int(rank == 1))
            if rank < 2:
                builder.collective(rank, Op.ALLTOALL, sent=64, received=64, comm=5)
    return builder.build()


def test_a_trace_is_performed_mark_by_mark(library):
    launcher, mpicc, _ = library
    marks = play(ring(3), [*launcher, "-np", "3"], mpicc=mpicc)
    assert len(marks.ends) == 3
    for rank in range(3):
        mine = marks.rank == rank
        assert marks.value[mine].tolist() == [0, 1, 2]
        assert sorted(marks.seconds[mine]) == marks.seconds[mine].tolist()
    # Processor time is at most the time that passes, on a machine as busy as it likes.
    assert marks.total_seconds > 0.9 * 0.03


def bound_to_one(launcher, ranks):
    """Ranks that may all run on one processor only, whatever the machine has."""
    cpu = min(os.sched_getaffinity(0))
    words = [*launcher, *(["--bind-to", "none"] if "--oversubscribe" in launcher else []), "-np", str(ranks)]
    return [*words, "taskset", "-c", str(cpu)]


@pytest.mark.skipif(shutil.which("taskset") is None, reason="needs taskset")
def test_ranks_that_share_a_processor_are_said(library):
    launcher, mpicc, _ = library
    with pytest.warns(NoiseWarning, match="3 ranks shared 1 processor of a host"):
        marks = play(ring(3), bound_to_one(launcher, 3), mpicc=mpicc)
    assert marks.host == (3, 1)
    assert marks.oversubscribed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        marks = play(EventsBuilder(1).burst(0, 0.01).build(), bound_to_one(launcher, 1), mpicc=mpicc)
    assert marks.host == (1, 1)
    assert not marks.oversubscribed


@pytest.mark.skipif(shutil.which("taskset") is None, reason="needs taskset")
def test_the_command_says_who_shared_and_succeeds(library, tmp_path):
    launcher, mpicc, _ = library
    ring(2).save(tmp_path / "r.parquet")
    words = [sys.executable, "-m", "convolver", "mpi", "play", "r.parquet", "--mpicc", mpicc, "--json", "--"]
    command = [*words, *bound_to_one(launcher, 2)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("2 ranks shared 1 processor of a host") == 1
    document = json.loads(done.stdout)
    assert document["oversubscribed"] is True
    assert document["host"] == {"ranks": 2, "processors": 1}


def test_what_cannot_be_performed_is_said_before_the_ranks_start(library):
    launcher, mpicc, _ = library
    with pytest.raises(UsageError, match="start as many"):
        play(ring(3), [*launcher, "-np", "2"], mpicc=mpicc)
    stuck = EventsBuilder(2).receive(0, 1, 8).receive(1, 0, 8).build()
    with pytest.raises(ReplayError, match="Deadlock"):
        play(stuck, [*launcher, "-np", "2"], mpicc=mpicc)
    with pytest.raises(ToolNotFoundError, match="not installed"):
        play(ring(2), ["no-such-launcher"])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_instructions_of_real_ranks_repeat(library, tmp_path):
    launcher, mpicc, program = library
    found = []
    for name in ("a.parquet", "b.parquet"):
        assert count([*launcher, "-np", "2", str(program), "3"], tmp_path / name, mpicc=mpicc) == 0
        found.append(load_events(tmp_path / name))
    assert found[0].notes["clock"] == "instructions"
    calls = [events.table.filter(events.table["kind"] != EventKind.BURST) for events in found]
    assert calls[0].equals(calls[1])
    work = [float(events.columns["seconds"].sum()) * WORK_PER_SECOND for events in found]
    assert work[0] > 1e6
    assert work[0] == pytest.approx(work[1], rel=1e-3)


def test_counts_name_their_format(tmp_path):
    with pytest.raises(UsageError, match=r"\*\.parquet"):
        count(["mpirun", "-np", "2", "true"], tmp_path / "t.txt")
    with pytest.raises(UsageError, match=r"\*\.txt"):
        count(["smpirun", "true"], tmp_path / "t.parquet")
    words = [sys.executable, "-m", "convolver", "mpi", "play", "absent.parquet", "--config", "n.cfg", "--", "mpirun"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 3
    assert "cannot be read" in done.stderr

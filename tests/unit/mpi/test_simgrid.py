"""SimGrid traces and platforms."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from convolver.errors import FormatError, UsageError
from convolver.mpi.events import IMMEDIATE, EventKind, EventsBuilder, Op, Sync
from convolver.mpi.network import Network, flat_configuration
from convolver.mpi.network_replay import Replayer
from convolver.mpi.play import RECORD, packed
from convolver.mpi.sources import load_events
from convolver.mpi.time_independent import Operation, format_platform, from_events, read_ti, to_events, write_ti


def test_a_trace_has_one_file_a_rank_with_one_action_a_record(tmp_path):
    builder = EventsBuilder(2)
    builder.burst(0, 0.5).send(0, 1, 64, tag=3, flags=IMMEDIATE)
    builder.receive(1, 0, 64, tag=3, kind=EventKind.IRECV).receive(1, 0, 64, tag=3, kind=EventKind.WAIT)
    for rank in range(2):
        builder.collective(rank, Op.ALLREDUCE, sent=8, received=8).collective(rank, Op.ALLTOALL, sent=20, received=20)
        builder.collective(rank, Op.REDUCE, sent=8, root=1, sync=Sync.ROOT)
    listing = write_ti(builder.build(), tmp_path / "ti")
    assert listing.read_text() == "rank-0.ti\nrank-1.ti\n"
    collectives = ["allreduce 8 0", "alltoall 10 10", "reduce 8 0 1", "finalize"]
    assert (tmp_path / "ti/rank-0.ti").read_text().splitlines() == [
        f"0 {action}" for action in ["init", "compute 500000000.000", "isend 1 3 64", *collectives]
    ]
    assert (tmp_path / "ti/rank-1.ti").read_text().splitlines() == [
        f"1 {action}" for action in ["init", "irecv 0 3 64", "wait 0 1 3", *collectives]
    ]


def test_what_the_format_does_not_know_is_refused(tmp_path):
    part = EventsBuilder(3, {2: [0, 1]}).collective(0, Op.BARRIER, comm=2).build()
    later = EventsBuilder(1).collective(0, Op.BARRIER, sync=Sync.NONBLOCKING).build()
    for events in (part, later):
        with pytest.raises(UsageError, match="blocking collectives of all tasks"):
            write_ti(events, tmp_path / "ti")


def test_a_platform_is_a_cluster_of_the_nodes():
    network = Network(flat_configuration(4, latency_seconds=1e-5, bandwidth_bytes_per_second=1e9, tasks_per_node=2, ratio=2.0))
    text = format_platform(network, 4)
    cluster = ElementTree.fromstring(text.split("\n", 2)[2]).find("cluster")
    assert cluster.attrib["radical"] == "0-1"
    assert (cluster.attrib["speed"], cluster.attrib["core"]) == ("2000000000f", "2")
    assert (cluster.attrib["bw"], cluster.attrib["lat"]) == ("1000000000Bps", "1e-05s")


def test_the_command_line_exports_and_imports(tmp_path, convolver):
    from convolver.mpi.cfg import write_cfg
    from convolver.mpi.sources import load_events

    events = EventsBuilder(2).burst(0, 0.5).send(0, 1, 64).receive(1, 0, 64).build()
    events.save(tmp_path / "e.parquet")
    write_cfg(flat_configuration(2, latency_seconds=1e-5, bandwidth_bytes_per_second=1e9), tmp_path / "net.cfg")
    words = ["mpi", "convert", str(tmp_path / "e.parquet"), str(tmp_path / "e.simgrid"), "--config", str(tmp_path / "net.cfg")]
    done = convolver(*words)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "e.simgrid").iterdir()} == {"rank-0.ti", "rank-1.ti", "trace.txt", "platform.xml"}
    assert convolver(*words).returncode != 0
    assert convolver("mpi", "convert", tmp_path / "e.parquet", tmp_path / "e.dim").returncode == 0
    done = convolver("mpi", "convert", tmp_path / "e.dim", tmp_path / "again.parquet")
    assert done.returncode == 0, done.stderr
    again = load_events(tmp_path / "again.parquet")
    assert again.columns["bytes"].sum() == events.columns["bytes"].sum() == 128


def test_an_exported_trace_is_read_again_with_the_same_time(tmp_path):
    builder = EventsBuilder(3)
    for rank in range(3):
        builder.burst(rank, 0.25 * (rank + 1)).collective(rank, Op.ALLREDUCE, sent=800, received=800)
        builder.receive(rank, (rank - 1) % 3, 5000, tag=7, kind=EventKind.IRECV)
        builder.send(rank, (rank + 1) % 3, 5000, tag=7).burst(rank, 1e-3)
        builder.receive(rank, (rank - 1) % 3, 5000, tag=7, kind=EventKind.WAIT).collective(rank, Op.BARRIER)
    events = builder.build()
    again = load_events(write_ti(events, tmp_path / "ti"))
    network = Network(flat_configuration(3, latency_seconds=1e-4, bandwidth_bytes_per_second=1e7))
    seconds = [Replayer(one).seconds(network) for one in (events, again)]
    assert again.ranks == 3
    assert seconds[1] == pytest.approx(seconds[0], rel=1e-9)
    assert seconds[0].max() > 0.75


ROOTED = {
    Op.BCAST: lambda root: (64 * root, 64 * (not root)),
    Op.REDUCE: lambda root: (64, 64 * root),
    Op.GATHER: lambda root: (64, 192 * root),
    Op.SCATTER: lambda root: (192 * root, 64),
    Op.ALLGATHER: lambda root: (64, 192),
    Op.ALLTOALL: lambda root: (192, 192),
}
"""Bytes that a rank of three gives and gets, as the interposer records them of parts of 64 bytes (csrc/mpi/collectives.c)."""


@pytest.mark.parametrize("op", ROOTED)
def test_collectives_keep_what_each_rank_gives_and_gets(op, tmp_path):
    builder = EventsBuilder(3)
    for rank in range(3):
        sent, received = ROOTED[op](rank == 0)
        builder.burst(rank, 1e-3).collective(rank, op, sent=sent, received=received, root=int(rank == 0 and op != Op.REDUCE))
    events = builder.build()
    again = load_events(write_ti(events, tmp_path / "ti"))
    for name in ("op", "bytes", "extra", "partner"):
        assert again.columns[name].tolist() == events.columns[name].tolist()
    # two networks tell the bytes of both fans
    for bandwidth in (1e6, 1e9):
        network = Network(flat_configuration(3, latency_seconds=1e-6, bandwidth_bytes_per_second=bandwidth))
        ends = [Replayer(one).seconds(network) for one in (events, again)]
        assert ends[1] == pytest.approx(ends[0], rel=1e-9)
    # the trace of a scaled structure has the same
    scaled = to_events(from_events(events), seconds_per_work=1e-9)
    for name in ("bytes", "extra", "partner"):
        assert scaled.columns[name].tolist() == events.columns[name].tolist()


def test_a_gather_is_performed_with_one_ranks_part():
    trace = [[Operation("gather", bytes=192 if rank == 0 else 64)] for rank in range(3)]
    records = np.frombuffer(packed(to_events(trace, seconds_per_work=1e-9))[-3 * RECORD.itemsize :], RECORD)
    assert records["bytes"].tolist() == [64, 64, 64]


def test_sizes_count_elements_of_the_type_that_an_action_names_and_bytes_without_one(tmp_path):
    lines = ["0 init", "0 send 0 1 10 0", "0 send 0 1 10", "0 bcast 4 0 1", "0 bcast 4 0", "0 allreduce 5 0 0", "0 allreduce 5 0"]
    (tmp_path / "rank-0.ti").write_text("\n".join(lines) + "\n")
    (tmp_path / "t.txt").write_text("rank-0.ti\n")
    assert [operation.bytes for operation in read_ti(tmp_path / "t.txt")[0]] == [80, 10, 16, 4, 40, 5]


def test_a_list_of_files_that_are_not_there_is_refused(tmp_path):
    (tmp_path / "t.txt").write_text("rank-0.ti\n")
    with pytest.raises(FormatError, match=r"t\.txt names rank-0\.ti, which is no file"):
        load_events(tmp_path / "t.txt")

"""OTF2 archives written with the otf2 package itself; skipped where that optional package is not installed."""

from __future__ import annotations

import pytest

from convolver.errors import FormatError
from convolver.mpi.events import EventKind, Op, Sync
from convolver.mpi.network import flat_configuration
from convolver.mpi.network_replay import replay
from convolver.mpi.otf2 import read_otf2

otf2 = pytest.importorskip("otf2", reason="needs the otf2 package")


def archive(folder):
    with otf2.writer.open(str(folder), timer_resolution=10**6) as trace:
        definitions = trace.definitions
        node = definitions.system_tree_node("host")
        locations = []
        for rank in range(2):
            group = definitions.location_group(f"rank {rank}", system_tree_parent=node)
            locations.append(definitions.location(f"thread {rank}", group=group))
        mpi = otf2.Paradigm.MPI
        definitions.group("all", group_type=otf2.GroupType.COMM_LOCATIONS, paradigm=mpi, members=locations)
        members = definitions.group("world", group_type=otf2.GroupType.COMM_GROUP, paradigm=mpi, members=[0, 1])
        comm = definitions.comm("world", group=members)
        call = definitions.region("MPI_call", paradigm=mpi)
        for rank, location in enumerate(locations):
            writer = trace.event_writer_from_location(location)
            writer.enter(0, call)
            writer.leave(100, call)
            writer.enter(1100, call)
            if rank == 0:
                writer.mpi_isend(1110, receiver=1, communicator=comm, msg_tag=4, msg_length=64, request_id=8)
            else:
                writer.mpi_irecv_request(1110, request_id=7)
            writer.non_blocking_collective_request(1120, request_id=9)
            writer.leave(1200, call)
            writer.enter(3200, call)
            if rank == 1:
                writer.mpi_irecv(3210, sender=0, communicator=comm, msg_tag=4, msg_length=64, request_id=7)
            else:
                writer.mpi_isend_complete(3210, request_id=8)
            fields = {"communicator": comm, "root": 0, "size_sent": 8, "size_received": 8}
            done = {**fields, "collective_op": otf2.CollectiveOp.BARRIER, "size_sent": 0, "size_received": 0}
            writer.non_blocking_collective_complete(3215, request_id=9, **done)
            writer.mpi_collective_begin(3220)
            writer.mpi_collective_end(3230, collective_op=otf2.CollectiveOp.ALLREDUCE, **fields)
            writer.leave(3300, call)
    return folder / "traces.otf2"


def test_an_archive_becomes_bursts_messages_and_collectives(tmp_path):
    events = read_otf2(archive(tmp_path / "a"))
    kinds = [EventKind(kind).name for kind in events.columns["kind"]]
    ends = ["COLLECTIVE", "COLLECTIVE"]
    assert kinds == [
        "BURST",
        "SEND",
        "COLLECTIVE",
        "BURST",
        "SEND_WAIT",
        *ends,
        "BURST",
        "IRECV",
        "COLLECTIVE",
        "BURST",
        "WAIT",
        *ends,
    ]
    assert events.columns["seconds"].tolist() == pytest.approx([1e-3, 0, 0, 2e-3, 0, 0, 0] * 2)
    assert events.columns["op"][[2, 5, 6]].tolist() == [Op.BARRIER, Op.BARRIER, Op.ALLREDUCE]
    assert events.columns["flags"][[2, 5, 6]].tolist() == [Sync.NONBLOCKING, Sync.WAIT, Sync.BLOCKING]
    assert events.columns["partner"][[1, 4, 8, 11]].tolist() == [1, 1, 0, 0]
    assert replay(events, flat_configuration(2)).predicted_seconds == pytest.approx(3e-3)


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / "x.otf2").write_text("no archive")
    with pytest.raises(FormatError, match="OTF2"):
        read_otf2(tmp_path / "x.otf2")

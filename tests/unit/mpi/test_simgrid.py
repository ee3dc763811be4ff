"""SimGrid traces and platforms."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from convolver.errors import UsageError
from convolver.mpi.events import IMMEDIATE, EventsBuilder, Kind, Op, Sync
from convolver.mpi.network import Network, flat_configuration
from convolver.mpi.simgrid import format_platform, write_ti


def test_a_trace_has_one_file_a_rank_with_one_action_a_record(tmp_path):
    builder = EventsBuilder(2)
    builder.burst(0, 0.5).send(0, 1, 64, tag=3, flags=IMMEDIATE)
    builder.receive(1, 0, 64, tag=3, kind=Kind.IRECV).receive(1, 0, 64, tag=3, kind=Kind.WAIT)
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


def test_the_command_line_exports_and_imports(tmp_path):
    from typer.testing import CliRunner

    from convolver.cli.app import app
    from convolver.mpi.cfg_writer import write_cfg
    from convolver.mpi.sources import load_events

    events = EventsBuilder(2).burst(0, 0.5).send(0, 1, 64).receive(1, 0, 64).build()
    events.save(tmp_path / "e.parquet")
    write_cfg(flat_configuration(2, latency_seconds=1e-5, bandwidth_bytes_per_second=1e9), tmp_path / "net.cfg")
    words = ["mpi", "export", str(tmp_path / "e.parquet"), "-o", str(tmp_path / "sg"), "--config", str(tmp_path / "net.cfg")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "sg").iterdir()} == {"rank-0.ti", "rank-1.ti", "trace.txt", "platform.xml"}
    assert CliRunner().invoke(app, words).exit_code != 0
    assert CliRunner().invoke(app, ["mpi", "export", str(tmp_path / "e.parquet"), "-o", str(tmp_path / "e.dim")]).exit_code == 0
    done = CliRunner().invoke(app, ["mpi", "import", str(tmp_path / "e.dim"), "-o", str(tmp_path / "again.parquet")])
    assert done.exit_code == 0, done.output
    again = load_events(tmp_path / "again.parquet")
    assert again.columns["bytes"].sum() == events.columns["bytes"].sum() == 128

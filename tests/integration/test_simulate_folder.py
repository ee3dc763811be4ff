"""``convolver simulate DIR``: traces of ranks on machines, by processes and by dask, interrupted and gone on with."""

import json
import os
import signal
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path

import polars as pl
import pytest

from convolver._native.trace_decoder import Decoder
from convolver.artifacts import describe
from convolver.fanout import dask_executor
from convolver.machine.hierarchy import Level
from convolver.simulation.many import simulate_many, simulate_one, traces_in
from convolver.simulation.one_pass import simulate
from convolver.tracing.reader import Trace
from convolver.tracing.writer import TraceWriter
from tests.wire_streams import Segment, Site, Stream


def _machine(name: str, first_bytes: int) -> dict:
    levels = (("L1", first_bytes, 2), ("L2", 1 << 16, 8))
    return {"name": name, "hierarchy": [{"level": level, "size_bytes": size, "ways": ways} for level, size, ways in levels]}


MACHINES = [_machine("a", 1024), _machine("b", 4096)]
ONE_L1 = [
    {"name": name, "hierarchy": [MACHINES[0]["hierarchy"][0], {"level": "L2", "size_bytes": size, "ways": 4}]}
    for name, size in (("c", 8192), ("d", 16384))
]


def write_trace(path: Path, visits: int, stride: int) -> None:
    stream = Stream()
    stream.module("/usr/bin/some")
    stream.segment(Segment(0x400000, [4, 3], [Site(flags=1), Site(displacement=4096, instruction=1)], words=1))
    stream.segment(Segment(0x500000, [4], [Site()], words=1))
    stream.control(1, 1)
    for visit in range(visits):
        stream.visit(visit % 7 == 3, [0x10000 + visit * stride])
    decoder = Decoder()
    decoder.record()
    decoder.feed(stream.bytes())
    writer = TraceWriter(path, {"command": ["x"], "sampling": {"mode": "full"}})
    writer.put_recorded(decoder.take())
    writer.put_counts(b"".join(count.to_bytes(8, "little") for count in (visits, visits)))
    writer.finish({"complete": True})


@pytest.fixture
def folder(tmp_path):
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    for rank in range(6):
        write_trace(ranks / f"app.{rank}.cvt", 20_000 + 1000 * rank, 8 * (rank + 1))
    return ranks


def expected(folder):
    parts = []
    for path in traces_in(folder):
        table = simulate(Trace.load(path), MACHINES).table
        parts.append(table.select(pl.lit(path.name.removesuffix(".cvt")).alias("trace"), pl.all()))
    return pl.concat(parts)


@pytest.mark.parametrize("machines", [MACHINES, MACHINES[:1], ONE_L1], ids=["machines", "sets", "one L1"])
@pytest.mark.parametrize("jobs", [2, 4])
def test_threads_beside_the_decoder_count_like_one(folder, jobs, machines):
    trace = traces_in(folder)[3]
    assert simulate(Trace.load(trace), machines, jobs=jobs).table.equals(simulate(Trace.load(trace), machines).table)


def test_machines_whose_sets_cannot_be_shared_out_run_on_one_thread(folder):
    odd = [[Level(level="L1", size_bytes=3 * 2 * 64, ways=2)]]
    trace = traces_in(folder)[0]
    assert simulate(Trace.load(trace), odd, jobs=2).table.equals(simulate(Trace.load(trace), odd).table)


def test_a_pool_of_processes_writes_one_dataset(folder, tmp_path):
    output = tmp_path / "out.parquet"
    table = simulate_many(traces_in(folder), MACHINES, output, jobs=2)
    assert table.equals(expected(folder))
    assert pl.read_parquet(output).equals(table)
    assert describe(output)["traces"][2] == {
        "trace": "app.2",
        "references": simulate(Trace.load(traces_in(folder)[2]), MACHINES).references,
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet", "ranks"]


class Breaking:
    """Runs tasks at once, and breaks off after some."""

    def __init__(self, after: int) -> None:
        self.left, self.ran = after, []

    def submit(self, function, *arguments):
        future = Future()
        self.left -= 1
        if self.left < 0:
            future.set_exception(KeyboardInterrupt())
        else:
            self.ran.append(arguments[0])
            future.set_result(function(*arguments))
        return future


def test_an_interrupted_run_goes_on_and_doubles_nothing(folder, tmp_path):
    output, first, second = tmp_path / "out.parquet", Breaking(3), Breaking(99)
    with pytest.raises(KeyboardInterrupt):
        simulate_many(traces_in(folder), MACHINES, output, executor=first)
    assert not output.exists()
    journal = tmp_path / "out.parquet.journal"
    kept = len(journal.read_text().splitlines()) - 1
    journal.write_text(journal.read_text() + '{"batch": 5, "ro')  # killed while it wrote a line
    table = simulate_many(traces_in(folder), MACHINES, output, executor=second)
    assert len(second.ran) == 6 - kept
    assert table.equals(expected(folder))


@pytest.mark.slow
def test_a_dask_cluster_that_loses_a_worker_gives_the_same_dataset(folder, tmp_path):
    distributed = pytest.importorskip("distributed", reason="needs dask.distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        killer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
        killer.start()
        with dask_executor(cluster.scheduler_address) as executor:
            table = simulate_many(traces_in(folder), MACHINES, tmp_path / "out.parquet", executor=executor)
        killer.join()
    assert table.equals(expected(folder))


def test_the_command_line_takes_a_folder(folder, tmp_path, convolver):
    (tmp_path / "m.json").write_text(json.dumps({"schema": "convolver.machine", "version": 1, **MACHINES[0]}))
    words = ["simulate", str(folder), "-m", str(tmp_path / "m.json"), "--jobs", "1", "--json", "-o", str(tmp_path / "o.parquet")]
    done = convolver(*words)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout[done.stdout.index("[") : done.stdout.rindex("]") + 1])
    assert [row["level"] for row in rows] == ["L1", "L2"]
    assert rows[0]["accesses"] == expected(folder).filter(pl.col("level") == "L1", pl.col("machine") == "a")["accesses"].sum()
    words[1] = str(tmp_path)
    assert convolver(*words, "--force").returncode == 2


def test_a_worker_returns_the_bytes_of_hit_rates_and_leaves_no_file(folder, tmp_path, monkeypatch):
    from convolver.simulation.targets import targets

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    content = simulate_one(str(traces_in(folder)[0]), 0, targets(MACHINES))
    assert content[:4] == b"PAR1"

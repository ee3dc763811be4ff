"""Sweeps: the design, the results, resumption, dying workers, and dask.distributed where it is installed."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from convolver import fanout
from convolver.artifacts import describe
from convolver.errors import FormatError, UsageError
from convolver.mpi import sweep as module
from convolver.mpi.dim import write_dim
from convolver.mpi.events import EventsBuilder
from convolver.mpi.network import Network, flat_configuration, what_if
from convolver.mpi.network_replay import Replayer
from convolver.mpi.sweep import NetworkSweep, Range, SweepPlan, parse_range, sweep

RANGES = {
    "latency_seconds": Range(1e-6, 1e-3, "log"),
    "bandwidth_bytes_per_second": Range(1e7, 1e9),
    "cpu_ratio": Range(0.5, 2.0),
}


@pytest.fixture
def trace(tmp_path):
    builder = EventsBuilder(2)
    for _ in range(20):
        builder.burst(0, 1e-3).send(0, 1, 10000).receive(0, 1, 10000).burst(1, 1e-3).send(1, 0, 10000).receive(1, 0, 10000)
    write_dim(builder.build(), tmp_path / "app.dim")
    return tmp_path / "app.dim", Network(flat_configuration(2, links=1)), Replayer(builder.build())


def expected(network, replayer, plan):
    values = plan.draw()
    columns = zip(values["latency_seconds"], values["bandwidth_bytes_per_second"], values["cpu_ratio"], strict=True)
    return [replayer.seconds(what_if(network, latency_seconds=a, bandwidth_bytes_per_second=b), r).max() for a, b, r in columns]


def test_a_latin_hypercube_has_one_point_in_each_stratum_and_is_reproducible():
    plan = SweepPlan(RANGES, 40, seed=3)
    values, again = plan.draw(), SweepPlan(RANGES, 40, seed=3).draw()
    position = (np.log(values["latency_seconds"]) - np.log(1e-6)) / (np.log(1e-3) - np.log(1e-6))
    assert sorted((position * 40).astype(int)) == list(range(40))
    assert sorted(((values["cpu_ratio"] - 0.5) / 1.5 * 40).astype(int)) == list(range(40))
    assert all(np.array_equal(values[name], again[name]) for name in values)
    assert not np.array_equal(values["cpu_ratio"], SweepPlan(RANGES, 40, seed=4).draw()["cpu_ratio"])


def test_every_point_is_the_replay_of_its_parameters_in_order(trace, tmp_path):
    path, network, replayer = trace
    plan = SweepPlan(RANGES, 120)
    with ThreadPoolExecutor(1) as executor:
        table = sweep(path, network, plan, output=tmp_path / "s.parquet", executor=executor)
    assert table["point"].to_list() == list(range(120))
    assert table["predicted_seconds"].to_list() == pytest.approx(expected(network, replayer, plan), rel=1e-14)
    loaded = NetworkSweep.load(tmp_path / "s.parquet")
    assert loaded.table.equals(table)
    assert loaded.header["sweep"]["points"] == 120
    assert describe(tmp_path / "s.parquet")["slowest"] == table["predicted_seconds"].max()
    assert not (tmp_path / "s.parquet.journal").exists()


def test_an_interrupted_sweep_goes_on_where_it_stopped(trace, tmp_path, monkeypatch):
    path, network, replayer = trace
    plan, calls, real = SweepPlan(RANGES, 200), [], module.run_batch

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "run_batch", interrupted)
    with ThreadPoolExecutor(1) as executor, pytest.raises(KeyboardInterrupt):
        sweep(path, network, plan, output=tmp_path / "s.parquet", executor=executor)
    journal = tmp_path / "s.parquet.journal"
    finished = len(journal.read_text().splitlines()) - 1
    assert 1 <= finished <= 3
    with open(journal, "a") as file:
        file.write('{"batch": 3, "ro')
    calls.extend([()] * 10)
    before = len(calls)
    with ThreadPoolExecutor(1) as executor:
        table = sweep(path, network, plan, output=tmp_path / "s.parquet", executor=executor)
    assert len(calls) - before == 4 - finished
    assert table["predicted_seconds"].to_list() == pytest.approx(expected(network, replayer, plan), rel=1e-14)


def test_a_journal_of_another_sweep_is_refused(trace, tmp_path):
    path, network, _ = trace
    (tmp_path / "s.parquet.journal").write_text('{"plan": "other"}\n')
    with pytest.raises(FormatError, match="another sweep"):
        sweep(path, network, SweepPlan(RANGES, 5), output=tmp_path / "s.parquet")


def test_a_sweep_whose_worker_dies_loses_and_doubles_nothing(trace, monkeypatch):
    path, network, replayer = trace
    plan, made = SweepPlan(RANGES, 150), []

    class Victim(fanout.Worker):
        def ask(self, function, arguments):
            super().ask(function, arguments)
            if not made:
                self._process.kill()
            made.append(self)

    monkeypatch.setattr(fanout, "Worker", Victim)
    table = sweep(path, network, plan)
    assert len(made) == 4
    assert table["point"].to_list() == list(range(150))
    assert table["predicted_seconds"].to_list() == pytest.approx(expected(network, replayer, plan), rel=1e-14)


@pytest.mark.slow
def test_dask_workers_give_the_same_table_when_one_is_killed(trace):
    distributed = pytest.importorskip("distributed", reason="needs dask.distributed")
    path, network, replayer = trace
    plan = SweepPlan(RANGES, 1000)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        killer = threading.Timer(0.1, os.kill, (victim, signal.SIGKILL))
        killer.start()
        with fanout.dask_executor(cluster.scheduler_address) as executor:
            table = sweep(path, network, plan, executor=executor)
        killer.join()
    assert table["point"].to_list() == list(range(1000))
    assert table["predicted_seconds"].to_list() == pytest.approx(expected(network, replayer, plan), rel=1e-14)


def test_ranges_are_parsed_or_refused():
    assert parse_range("1e-6:1e-4:log") == Range(1e-6, 1e-4, "log")
    assert parse_range("3") == Range(3.0, 3.0)
    for text in ("x", "2:1", "0:1:log", "1:2:cubic", "-1:2", "1:inf", "1:2:log:3"):
        with pytest.raises(UsageError, match="no range"):
            parse_range(text)
    with pytest.raises(UsageError, match="at least one point"):
        SweepPlan({}, 0)

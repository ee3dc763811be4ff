"""The replay as a simulator of sweeps: where latency passes, in memory and by workers."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from convolver.errors import ModelError, UsageError
from convolver.modeling.storm import critical_path_factors, ideal_seconds, locality_factors, sweep_replays, total_cpu_seconds
from convolver.mpi.dim import write_dim
from convolver.mpi.events import EventsBuilder
from convolver.mpi.sweep import Range, SweepPlan
from tests.in_memory_sweep import Platform, ReplaySimulator, platforms_of, sweep

PLATFORM = Platform(latency_seconds=1e-3, bandwidth_bytes_per_second=1e6)


def two_messages():
    builder = EventsBuilder(2)
    builder.burst(0, 0.1).send(0, 1, 1000).send(0, 1, 1000)
    return builder.burst(1, 0.1).receive(1, 0, 1000).receive(1, 0, 1000).build()


def test_latencies_of_one_sender_queue_on_its_processor_but_not_in_the_wire():
    assert ReplaySimulator()(two_messages(), PLATFORM) == pytest.approx(0.1 + 2e-3 + 1e-3)
    assert ReplaySimulator("wire")(two_messages(), PLATFORM) == pytest.approx(0.1 + 1e-3 + 1e-3)


def test_other_places_are_refused():
    with pytest.raises(ModelError, match="start-up or wire"):
        ReplaySimulator("sky")


PLAN = SweepPlan({"latency_seconds": Range(1e-4, 1e-2), "bandwidth_bytes_per_second": Range(1e5, 1e7, "log")}, 60, 5)


@pytest.mark.parametrize("wire", [False, True])
@pytest.mark.parametrize("locality", [None, {2: 0.5}])
def test_workers_replay_files_as_the_simulator_replays_events(tmp_path, wire, locality):
    write_dim(two_messages(), tmp_path / "two.dim")
    with ThreadPoolExecutor(2) as executor:
        table = sweep_replays({2: tmp_path / "two.dim"}, PLAN, wire=wire, locality=locality, executor=executor)
    simulator = ReplaySimulator("wire" if wire else "start-up")
    expected = sweep({2: two_messages()}, platforms_of(PLAN), simulator, locality=locality)
    for name in ("param.P", "param.L", "param.BW", "param.CPU", "value"):
        assert table.table[name].to_list() == pytest.approx(expected.table[name].to_list())


def test_a_sweep_without_a_range_of_bandwidth_is_refused():
    with pytest.raises(UsageError, match="bandwidth"):
        sweep_replays({}, SweepPlan({"latency_seconds": Range(1e-4, 1e-2)}, 5))


def test_an_interrupted_sweep_of_traces_keeps_what_it_has(tmp_path, monkeypatch):
    write_dim(two_messages(), tmp_path / "two.dim")
    output = tmp_path / "s.parquet"

    class Broken:
        def submit(self, function, *arguments):
            raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(KeyboardInterrupt):
            sweep_replays({2: tmp_path / "two.dim", 3: tmp_path / "none.dim"}, PLAN, output=output, executor=_Once(executor, 2))
        assert len((tmp_path / "s.parquet.2.journal").read_text().splitlines()) == 3
        done = sweep_replays({2: tmp_path / "two.dim"}, PLAN, output=output, executor=Broken())
    assert done.table.height == 60
    assert not (tmp_path / "s.parquet.2.journal").exists()


class _Once:
    """An executor that is interrupted after some tasks."""

    def __init__(self, executor, tasks):
        self.executor, self.left = executor, tasks

    def submit(self, *call):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.executor.submit(*call)


def pipeline(count, work=1.0):
    """Ranks that begin when the rank before has done its share: the critical path is all of the work, on any number of ranks."""
    builder = EventsBuilder(count)
    for rank in range(count):
        if rank:
            builder.receive(rank, rank - 1, 8)
        builder.burst(rank, work / count)
        if rank + 1 < count:
            builder.send(rank, rank + 1, 8)
    return builder.build()


def test_factors_of_the_critical_path_hold_the_waiting_that_locality_factors_do_not():
    traces = {count: pipeline(count) for count in (2, 4, 8)}
    assert locality_factors({n: total_cpu_seconds(t) for n, t in traces.items()}) == pytest.approx({2: 1, 4: 1, 8: 1})
    seconds = {n: ideal_seconds(t) for n, t in traces.items()}
    assert seconds == pytest.approx({2: 1, 4: 1, 8: 1})
    assert critical_path_factors(seconds) == pytest.approx({2: 1, 4: 2, 8: 4})


def test_factors_of_the_critical_path_are_locality_factors_where_no_rank_waits():
    traces = {count: EventsBuilder(count) for count in (2, 4)}
    for count, builder in traces.items():
        for rank in range(count):
            builder.burst(rank, {2: 1.0, 4: 0.6}[count])
    built = {count: builder.build() for count, builder in traces.items()}
    factors = critical_path_factors({count: ideal_seconds(trace) for count, trace in built.items()})
    assert factors == pytest.approx(locality_factors({count: total_cpu_seconds(trace) for count, trace in built.items()}))
    assert factors[4] == pytest.approx(1.2)


def test_a_critical_path_of_no_seconds_is_refused():
    with pytest.raises(ModelError, match="above 0"):
        critical_path_factors({4: 0.0})

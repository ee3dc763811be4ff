"""Programs with threads: what the trace says of them, and elapsed times that are arithmetic: an instruction is a nanosecond."""

from __future__ import annotations

import heapq
import json
import os
import re
import shutil
import subprocess
import sys
import time

import msgspec
import numpy as np
import polars as pl
import pytest

from convolver._native.thread_replay import COSTS, PackedThreads
from convolver._native.trace_decoder import Decoder
from convolver.analyzing.analyze import analyze
from convolver.analyzing.known_lines import known_lines
from convolver.cli.predict import CHECK_FAILED
from convolver.convolution import elapsed_replay
from convolver.convolution.block_times import BlockTimes
from convolver.convolution.convolve import convolve
from convolver.convolution.elapsed_replay import ThreadReplay
from convolver.errors import UsageError
from convolver.machine.catalog import find_machine
from convolver.machine.kernel_costs import KernelCost
from convolver.machine.profile import Neighbour
from convolver.mpi.timeline import STATES, Timeline
from convolver.pipeline import predict
from convolver.tracing import thread_log
from convolver.tracing.class_executions import ClassExecutions
from convolver.tracing.format import ADDRESSES
from convolver.tracing.native_engine import engine_program, refusal
from convolver.tracing.reader import Trace, read_chunks
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace
from convolver.tracing.unmixed_classes import unmixed
from tests.integration.tool_runs import PROGRAMS, requires_tool

pytestmark = requires_tool
THREAD_EXIT, UNLOCKED = 2, 6
FREE = {**dict.fromkeys(COSTS, 0.0), "spin": 1.0}


@pytest.fixture(scope="module")
def teams(tmp_path_factory):
    to = tmp_path_factory.mktemp("teams") / "teams"
    subprocess.run(["gcc", "-O2", "-fopenmp", "-Wl,-z,now", "-o", to, PROGRAMS / "teams.c"], check=True)
    return to


@pytest.fixture(params=["valgrind", "native"])
def engine(request):
    return request.param


@pytest.fixture
def traced(teams, tmp_path, monkeypatch, engine):
    def run(what, rounds, threads, program=teams):
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        words = [str(program), what, str(rounds), str(threads)]
        return trace(words, output=tmp_path / "teams.cvt", sampling=SamplingPlan(mode="counts", engine=engine))

    return run


def replayed(log, cores):
    nothing = np.zeros(max(log.classes) + 1)
    found = PackedThreads(log.records).run(
        np.full(len(nothing), 1e-9), nothing, nothing, cores=cores, capacity=np.zeros(0), costs=FREE
    )
    assert found.totals["forced"] == 0
    return found.totals["work"] / found.totals["elapsed"]


def triangle(threads, parts=256):
    share = parts // threads
    return sum(range(1, parts + 1)) / sum(range(parts - share + 1, parts + 1))


def dealt(threads, parts=256):
    """Each part goes to the thread that is free first."""
    free = [0] * threads
    for part in range(1, parts + 1):
        heapq.heapreplace(free, free[0] + part)
    return sum(range(1, parts + 1)) / max(free)


def fanned(threads, readers=64):
    """A writer, readers, a writer."""
    return (readers + 2) / (readers / threads + 2)


def saturated(threads, rounds=40):
    """Half of each thread's work is under the lock, which is free for the first half alone, and at the end of the last thread."""
    return 2 * threads * rounds / (threads * rounds + 1)


def serial(threads):
    return (1 / 4 + 3 / 4) / (1 / 4 + 3 / 4 / threads)


def joined(threads):
    """Four leaves, two halves, their sum. Who waits for tasks of its own does no others: of four threads, three do the leaves."""
    return (1 + 3 * 4) / (1 + (2 if threads == 4 else 1) + 2 + 4)


@pytest.mark.parametrize(
    ("engine", "threads"),
    [
        ("valgrind", 4),
        ("native", 4),
        ("native", 64),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("valgrind", 16), ("native", 16), ("valgrind", 64))),
    ],
    indirect=["engine"],
)
@pytest.mark.parametrize(
    ("what", "rounds", "speedup"),
    [
        ("triangle", 12, triangle),
        ("dynamic", 12, dealt),
        ("tasks", 12, dealt),
        ("task-loop", 12, int),
        ("at-once", 60, int),
        ("tree", 60, joined),
        ("chain", 1, lambda _: 1),
        ("two-chains", 2, lambda _: 2),
        ("wavefront", 20, lambda _: 16 / 7),
        ("readers", 6, fanned),
        ("waits", 20, lambda _: 10 / 5),
        ("serial", 60, serial),
        ("unequal", 6, lambda n: (n + 1) / 2),
        ("locked", 40, saturated),
        ("in-turn", 10, lambda _: 1),
        ("test-locked", 40, saturated),
        ("nest-locked", 40, saturated),
        ("cancellable", 12, triangle),
        ("copied", 40, lambda n: (n + 1) / 2),
        ("reduced", 12, int),
        ("sections", 12, lambda n: dealt(n, 4)),
        ("read", 40, int),
        ("first-writes", 40, lambda n: n / 2),  # readers are done together, the writer before or after
        ("read-write", 20, lambda n: 2 * n / (n + 1)),
    ],
)
def test_speedups_are_the_arithmetic_ones(traced, what, rounds, speedup, threads):
    if threads == 64 and what in ("triangle", "dynamic", "tasks", "cancellable", "reduced"):
        rounds = 40  # work beside which making 64 threads is little
    log = traced(what, rounds, threads).thread_log
    assert log.threads in (threads, threads + 1)
    found = replayed(log, threads)
    assert found == pytest.approx(speedup(threads), rel=0.02)
    assert replayed(log, 1) == pytest.approx(1, rel=0.001)


def test_two_threads_share_four_sections_in_turn(traced):
    assert replayed(traced("sections", 12, 2).thread_log, 2) == pytest.approx(dealt(2, 4), rel=0.02)


@pytest.mark.parametrize("threads", [4, pytest.param(16, marks=pytest.mark.slow)])
def test_regions_within_regions_have_teams_of_their_own(traced, threads):
    log = traced("nested", 12, threads).thread_log
    assert replayed(log, threads) == pytest.approx(3 / 4 * threads, rel=0.02)
    assert replayed(log, 1) == pytest.approx(1, rel=0.001)


SHARED_MUTEX = """
#include <mutex>
#include <shared_mutex>
#include <thread>
static std::shared_mutex guard;
static volatile long turns;
static void use(bool writes)
{
    for (int round = 0; round < 40; round++) {
        std::shared_lock<std::shared_mutex> reader(guard, std::defer_lock);
        std::unique_lock<std::shared_mutex> writer(guard, std::defer_lock);
        writes ? writer.lock() : reader.lock();
        for (volatile long i = 0; i < 20000; i++)
            ;
    }
}
int main(int count, char **)
{
    std::thread other(use, count > 1);
    use(false);
    other.join();
}
"""


@pytest.mark.parametrize(("words", "speedup"), [((), 2), (("writes",), 1)], ids=["two readers", "writer and reader"])
def test_a_shared_mutex_is_for_one_writer_or_many_readers(tmp_path, engine, words, speedup):
    (tmp_path / "shared.cpp").write_text(SHARED_MUTEX)
    subprocess.run(["g++", "-std=c++17", "-O1", "-pthread", "-o", tmp_path / "shared", tmp_path / "shared.cpp"], check=True)
    found = trace(
        [str(tmp_path / "shared"), *words], output=tmp_path / "t.cvt", sampling=SamplingPlan(mode="counts", engine=engine)
    )
    assert replayed(found.thread_log, 2) == pytest.approx(speedup, rel=0.02)


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang and its OpenMP: apt install clang libomp-dev")
@pytest.mark.parametrize("threads", [4, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("what", "rounds", "speedup"),
    [
        ("triangle", 24, triangle),
        ("dynamic", 24, dealt),
        ("tasks", 24, dealt),
        ("task-loop", 24, int),
        ("at-once", 240, int),
        ("tree", 240, lambda _: 13 / 8),  # who waits for tasks does what these have made, too
        ("chain", 1, lambda _: 1),
        ("two-chains", 8, lambda _: 2),
        ("wavefront", 40, lambda _: 16 / 7),
        ("readers", 12, fanned),
        ("waits", 40, lambda _: 10 / 5),
        ("test-locked", 40, saturated),
        ("nest-locked", 40, saturated),
        ("cancellable", 24, triangle),
        ("copied", 480, lambda n: (n + 1) / 2),
        ("reduced", 24, lambda n: n if n <= 4 else triangle(n)),  # a barrier from five threads on
        ("sections", 24, lambda n: dealt(n, 4)),
    ],
)
def test_speedups_with_the_runtime_of_llvm_are_arithmetic(traced, tmp_path, what, rounds, speedup, threads):
    program = tmp_path / "teams"
    if subprocess.run(["clang", "-O2", "-fopenmp", "-o", program, PROGRAMS / "teams.c"], check=False).returncode:
        pytest.skip("needs the OpenMP of clang: apt install libomp-dev")
    log = traced(what, rounds, threads, program).thread_log
    assert replayed(log, threads) == pytest.approx(speedup(threads), rel=0.02)
    assert replayed(log, 1) == pytest.approx(1, rel=0.001)


def test_classes_of_work_hold_every_count(traced):
    one = traced("unequal", 20, 4)
    counter, _, counts = one.thread_log.counts()
    assert np.array_equal(np.bincount(counter, counts)[: len(one.counters)], one.counters.astype(float))
    assert one.thread_log.instructions().sum() == pytest.approx(one.signature.totals["instructions"], rel=0.1)


GUARDED = """
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long apart[2][16], shared;
__attribute__((noinline)) static void alone(volatile long *own) { for (int k = 0; k < 50; k++) *own += k; }
__attribute__((noinline)) static void guarded(void) { for (int k = 0; k < 150; k++) shared += k; }
static void *work(void *own)
{
    for (int i = 0; i < 20000; i++) {
        alone(own);
        pthread_mutex_lock(&lock);
        guarded();
        pthread_mutex_unlock(&lock);
    }
    return 0;
}
int main(void)
{
    pthread_t other;
    pthread_create(&other, 0, work, (void *)apart[1]);
    work((void *)apart[0]);
    return pthread_join(other, 0);
}
"""


def test_what_a_lock_guards_is_told_from_what_surrounds_it(tmp_path, engine):
    """Though the intervals are too short to compare all counters at each of their events."""
    (tmp_path / "guarded.c").write_text(GUARDED)
    subprocess.run(["gcc", "-O1", "-pthread", "-o", tmp_path / "guarded", tmp_path / "guarded.c"], check=True)
    plan = SamplingPlan(mode="counts", engine=engine)
    found = trace([str(tmp_path / "guarded")], output=tmp_path / "guarded.cvt", sampling=plan)
    log = unmixed(found.thread_log)
    executions = ClassExecutions.of(found, log)
    held = np.flatnonzero(np.bincount(log.records["work_class"], np.where(log.records["kind"] == UNLOCKED, 1, -1)) > 0)
    share = {}
    for function in ("alone", "guarded"):
        blocks = found.signature.table.filter(pl.col("function") == function)["block"].to_numpy().astype(np.int64)
        _, classes, executed = executions.of_blocks(blocks)
        share[function] = executed[np.isin(classes, held)].sum() / executed.sum()
    assert share["guarded"] > 0.9
    assert share["alone"] < 0.1


@pytest.mark.parametrize("what", ["triangle", "copied"])
def test_waiting_is_no_work_whatever_the_policy(traced, monkeypatch, what):
    def work(policy):
        monkeypatch.setenv("OMP_WAIT_POLICY", policy)
        return int(traced(what, 10, 4).thread_log.records["instructions"].sum())

    assert work("active") == pytest.approx(work("passive"), rel=1e-5)


def test_a_full_log_takes_no_more_and_gives_no_elapsed_time(teams, traced, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    counters = tmp_path / "counters"
    options = [f"--counters={counters}", "--thread-events=300"]
    subprocess.run([engine_program(), *options, "--", teams, "locked", "200", "4"], check=True, stdout=subprocess.DEVNULL)
    log = thread_log.ThreadLog.parse(b"".join(thread_log.log_pieces(counters)), "it")
    assert 300 <= len(log.records) <= 300 + 8  # and the rest of each thread
    one = traced("locked", 20, 4)
    assert not one.thread_log.full
    monkeypatch.setattr(thread_log, "MOST_RECORDS", 100)
    assert ThreadReplay.of(one) is None
    with pytest.raises(UsageError, match="trace a shorter run"):
        ThreadReplay(one)


def test_a_lock_has_the_name_of_its_variable(traced):
    log = traced("locked", 20, 4).thread_log
    assert "total_lock" in log.objects.values()


def test_code_without_symbols_is_named_by_its_file(traced, teams, tmp_path):
    bare = tmp_path / "bare"
    subprocess.run(["strip", "-o", bare, teams], check=True)
    log = traced("locked", 20, 4, bare).thread_log
    assert "?" not in log.places.values()
    assert any(name.startswith("bare+0x") for name in log.places.values())


def test_one_thread_leaves_no_log(traced):
    assert traced("serial", 1, 1).thread_log is None


def test_threads_of_a_program_print_what_they_print(teams, tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "4"}
    native = subprocess.run([teams, "unequal", "3", "4"], capture_output=True, env=environment, check=True)
    command = [sys.executable, "-m", "convolver", "trace", "-o", tmp_path / "t.cvt", "--", teams, "unequal", "3", "4"]
    again = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert native.stdout in again.stdout


def test_static_programs_are_followed_too(traced, tmp_path):
    binary = tmp_path / "static"
    subprocess.run(["gcc", "-O2", "-static", "-o", binary, PROGRAMS / "teams.c"], check=True)
    log = traced("unequal", 4, 4, binary).thread_log
    assert replayed(log, 4) == pytest.approx(2.5, rel=0.02)


def test_a_prediction_says_how_long_threads_take(teams, tmp_path, convolver, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    words = ("-b", "cloud-epyc-genoa", "-t", "cloud-server", "--measure", "1", "--cores", "4", "--scaling", "1,2,4", "--json")
    done = convolver("predict", *words, "--", teams, "triangle", "10", cwd=tmp_path)
    document = json.loads(done.stdout)
    for side in (document["base"], document["target"]):
        low, high = side["elapsed_interval_seconds"]
        assert low < side["elapsed_seconds"] < high
        assert side["elapsed"]["processor_seconds"] == pytest.approx(side["seconds"], rel=0.001)
        assert side["speedup"] == pytest.approx(triangle(4), rel=0.1)
        assert side["elapsed"]["lost_seconds"]["imbalance"] > 0
        assert [row["cores"] for row in side["scaling"]] == [1, 2, 4]
        assert side["scaling"][0]["seconds"] == pytest.approx(side["seconds"], rel=0.05)
    assert document["base"]["measured_elapsed_seconds"] > 0
    assert document["target"]["measured_elapsed_seconds"] is None


def test_the_check_of_threads_compares_elapsed_times(teams, tmp_path, convolver, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    cpus = len(os.sched_getaffinity(0))
    words = ("predict", "-b", "cloud-epyc-genoa", "--measure", "1", "--force", "--top", "0", "--strict")
    program = ("--", teams, "triangle", "10")

    def predicted(cores, *more):
        done = convolver(*words, "--cores", cores, *more, *program, cwd=tmp_path)
        assert done.returncode in (0, CHECK_FAILED), done.stderr
        return done

    done = predicted(cpus, "--scaling", f"{cpus},{cpus + 3}", "--json")
    document = json.loads(done.stdout)
    base, check = document["base"], document["check"]
    found, (own, other) = base["elapsed"], base["scaling"]
    measured = base["measured_elapsed_seconds"]
    low, high = base["elapsed_interval_seconds"]
    assert found["measured_seconds"] == own["measured_seconds"] == measured
    assert found["error"] == pytest.approx(base["elapsed_seconds"] / measured - 1)
    assert found["within_interval"] == check["passed"] == (done.returncode == 0) == (low <= measured <= high)
    assert ": elapsed time predicted" in check["sentence"]
    assert " CPU time: predicted" in check["sentence"]
    if cpus < 4:
        assert other["measured_seconds"] is None
        assert "Elapsed time is not checked" in predicted(cpus + 2).stdout
    table = next(line for line in predicted(cpus).stdout.split("Elapsed times")[1].splitlines() if line.startswith("cloud"))
    assert "%" in table


SCALED = ("-b", "cloud-epyc-genoa", "--measure", "0", "--scaling", "1,3,6", "--json")


@pytest.mark.parametrize(
    ("words", "speedups"),
    [(("unequal", "200", "{threads}"), (1.0, 2.0, 3.5)), (("triangle", "10"), [triangle(one) for one in (1, 3, 6)])],
    ids=["in words", "in environment"],
)
def test_scaling_runs_a_command_with_each_number_of_threads(teams, tmp_path, convolver, monkeypatch, words, speedups):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    document = json.loads(convolver("predict", *SCALED, "--", teams, *words, cwd=tmp_path).stdout)
    rows = document["base"]["scaling"]
    assert [row["cores"] for row in rows] == [1, 3, 6]
    assert [row["speedup"] for row in rows] == pytest.approx(speedups, rel=0.1)
    assert rows[0]["limit"] == "nothing: all cores are busy"
    assert set(document["artifacts"]) >= {"trace", "trace at 1 thread", "trace at 6 threads"}


def test_scaling_says_when_threads_are_not_to_be_asked_for(tmp_path, convolver):
    (tmp_path / "counting.c").write_text(COUNTING)
    subprocess.run(["gcc", "-O2", "-DSPACE=120", "-o", "counting", "counting.c", "-lpthread"], cwd=tmp_path, check=True)
    done = convolver("predict", *SCALED, "--", tmp_path / "counting", cwd=tmp_path)
    assert [row["threads"] for row in json.loads(done.stdout)["base"]["scaling"]] == [3, 3, 3]
    assert "The program runs as many threads whatever it is asked for" in done.stderr


def test_all_of_a_cloud_machine_ends_where_none_is_larger(teams, tmp_path, convolver, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "12")
    few, more = "cloud-xeon-platinum-8375c-290", "cloud-epyc-9b45"
    convolver("trace", "-o", "t.cvt", "--", teams, "triangle", "10", cwd=tmp_path)
    document = json.loads(convolver("predict", "t.cvt", "-b", few, "-t", more, "--scaling", "all", "--json", cwd=tmp_path).stdout)
    cores = {side["machine"]: [row["cores"] for row in side["scaling"]] for side in (document["base"], document["target"])}
    assert cores == {few: [1, 2, 4, 8], more: [1, 2, 4, 8, 16, 24]}  # 8 CPUs at most; 192, of which 12 threads need 24
    assert document["base"]["elapsed"]["cores"] == 8
    assert document["target"]["elapsed"]["cores"] == 12
    assert "8 CPUs for the program, those of the largest machine known" in " ".join(document["base"]["elapsed"]["assumptions"])
    sentence = f"{few}: the largest machine known with its CPU has 8 CPUs, not 64."
    assert f"Assumed for {sentence}" in convolver("predict", "t.cvt", "-b", few, "--cores", "64", cwd=tmp_path).stdout
    chosen = convolver("choose", "t.cvt", "-m", f"{few},{more}", "--cores", "64", cwd=tmp_path)
    assert [line for line in chosen.stderr.splitlines() if "largest machine" in line] == [f"Note: {sentence}"]


def test_scaling_has_nothing_to_say_of_one_thread(tmp_path, convolver):
    done = convolver("predict", *SCALED, "--", "/bin/true", cwd=tmp_path)
    assert json.loads(done.stdout)["base"].get("scaling") is None
    assert "--scaling has nothing to say: the program had one thread." in done.stderr


PARTS = """
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long sum;
static int rounds;
static void *work(void *which)
{
    for (int i = 0; i < rounds; i++) {
        for (volatile int k = 0; k < 500; k++);
        pthread_mutex_lock(&lock);
        sum++;
        pthread_mutex_unlock(&lock);
    }
    return which;
}
__attribute__((noinline)) void solve(void)
{
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], 0, work, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], 0);
}
int main(int count, char **arguments)
{
    rounds = count > 1 ? 100000000 : 2000;
    if (write(1, "x", 1) == 1)
        solve();
    return arguments[0] == 0;
}
"""


@pytest.mark.parametrize(("engine", "part"), [("valgrind", "--start-at"), ("native", "--start-at"), ("native", "--attach")])
def test_elapsed_times_of_a_part_are_said_to_be_unknown(tmp_path, convolver, engine, part):
    if engine == "native" and refusal() is not None:
        pytest.skip(f"the native engine cannot run here: {refusal()}")
    (tmp_path / "parts.c").write_text(PARTS)
    subprocess.run(["gcc", "-O1", "-o", "parts", "parts.c", "-lpthread"], cwd=tmp_path, check=True)
    if part == "--attach":
        with subprocess.Popen([tmp_path / "parts", "long"], stdout=subprocess.PIPE) as running:
            assert running.stdout is not None
            running.stdout.read(1)
            while len(os.listdir(f"/proc/{running.pid}/task")) < 4:
                time.sleep(0.01)
            convolver("trace", "--attach", running.pid, "--for", "1s", "-o", "t.cvt", cwd=tmp_path)
            running.kill()
    else:
        convolver("trace", "--engine", engine, part, "solve", "-o", "t.cvt", "--", "./parts", cwd=tmp_path)
    machines = "-b", "cloud-epyc-milan", "-t", "cloud-epyc-genoa"
    done = convolver("predict", "t.cvt", *machines, "--scaling", "1,2", "--json", cwd=tmp_path)
    said = " ".join(done.stderr.split())
    assert re.search(r"Elapsed times are not known: the trace does not say what its [2-4] threads wait for", said)
    assert "had one thread" not in said
    base = json.loads(done.stdout)["base"]
    assert "elapsed" not in base
    assert base.get("scaling") is None


@pytest.fixture(scope="module")
def stair(teams, tmp_path_factory):
    """A trace with samples of threads that do one, two, three and four parts of the work."""
    path = tmp_path_factory.mktemp("stair") / "stair.cvt"
    trace([str(teams), "unequal", "200", "4"], output=path)
    return path


@pytest.mark.slow
def test_what_if_and_choose_rank_by_elapsed_time(stair, convolver):
    machines = ("cloud-epyc-genoa", "cloud-server")
    answers = json.loads(convolver("what-if", stair, "-b", machines[0], "--cores", "2", "--json").stdout)
    known = {one["change"]: one for one in answers}
    assert known["as it is"]["processor_seconds"] == pytest.approx(10 / 5.5 * known["as it is"]["seconds"], rel=0.05)
    assert known["4 cores"]["seconds"] < 0.85 * known["as it is"]["seconds"]  # the longest of four has four tenths of the work
    assert known["4 cores"]["verdict"] == "faster"
    assert known["4 cores"]["processor_seconds"] == pytest.approx(known["as it is"]["processor_seconds"])
    ranked = json.loads(convolver("choose", stair, "-m", ",".join(machines), "--cores", "4", "--json").stdout)
    for one in ranked:
        assert one["processor_seconds"] == pytest.approx(2.5 * one["seconds"], rel=0.1)
        assert one["interval"][0] < one["seconds"] < one["interval"][1]
    assert "threads on 4 cores" in convolver("choose", stair, "-m", ",".join(machines), "--cores", "4").stdout


def test_few_replays_give_nearly_the_interval_of_many(stair, monkeypatch):
    program, machine = Trace.load(stair), find_machine("cloud-epyc-genoa")
    times = convolve(analyze(program, [machine]), machine)

    def interval(replays):
        monkeypatch.setattr(elapsed_replay, "MOST_REPLAYS", replays)
        monkeypatch.setattr(elapsed_replay, "LEAST_REPLAYS", replays)
        found = ThreadReplay(program).on(machine, times, cores=3)
        return found.draws, found.interval

    least = elapsed_replay.LEAST_REPLAYS
    many, wide = interval(len(times.draws))
    few, near = interval(least)
    assert np.corrcoef(many, few)[0, 1] > 0.9  # each draw keeps its own processor time
    assert near == pytest.approx(wide, rel=0.1)


BUSY = """
#include <pthread.h>
static void *busy(void *nothing)
{
    long a = 0, b = 0, c = 0, d = 0, e = 0, f = 0;
    for (long i = 0; i < 5000000; i++)
        __asm__ volatile("inc %0; inc %1; inc %2; inc %3; inc %4; inc %5" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    return nothing;
}
int main(void)
{
    pthread_t other;
    pthread_create(&other, 0, busy, 0);
    busy(0);
    pthread_join(other, 0);
}
"""


def test_threads_that_fill_a_core_share_it_and_those_that_wait_do_not(stair, tmp_path):
    (tmp_path / "busy.c").write_text(BUSY)
    subprocess.run(["gcc", "-O1", "-pthread", "-o", tmp_path / "busy", tmp_path / "busy.c"], check=True)
    trace([str(tmp_path / "busy")], output=tmp_path / "busy.cvt")
    machine = find_machine("cloud-epyc-genoa")
    pair = msgspec.structs.replace(machine, neighbours=(Neighbour(cpu=1, slowdown=1.6),))

    def slowdown(path):
        found = Trace.load(path)
        times, threads = convolve(analyze(found, [machine]), machine), ThreadReplay(found)
        apart, together = (threads.on(one, times, cores=2) for one in (machine, pair))
        assert apart.lost["threads that share a core"] == 0
        assert threads.on(pair, times, cores=1).seconds == pytest.approx(threads.on(machine, times, cores=1).seconds)
        return together.seconds / apart.seconds

    assert 1.8 < slowdown(tmp_path / "busy.cvt") <= 2.05
    assert slowdown(stair) == pytest.approx(1, rel=0.02)  # chains of results


WALKS = """
#include <pthread.h>
enum { LINES = 327680 };
static struct { void *next; long rest[7]; } cells[2][LINES] __attribute__((aligned(4096)));
static void *walk(void *own)
{
    void **at = own;
    for (long i = 0; i < 40L * LINES; i++)
        at = *at;
    return at;
}
int main(void)
{
    pthread_t threads[2];
    for (int n = 0; n < 2; n++)
        for (long i = 0; i < LINES; i++)
            cells[n][i].next = &cells[n][(i + 1021) % LINES];
    for (int n = 0; n < 2; n++)
        pthread_create(&threads[n], 0, walk, cells[n]);
    for (int n = 0; n < 2; n++)
        pthread_join(threads[n], 0);
}
"""


def test_sets_that_overflow_one_last_level_fit_in_two(tmp_path):
    """Each of two threads walks 20 MiB; the last level has 22 MiB, and eight cores share one."""
    (tmp_path / "walks.c").write_text(WALKS)
    subprocess.run(["gcc", "-O1", "-pthread", "-o", tmp_path / "walks", tmp_path / "walks.c"], check=True)
    trace([str(tmp_path / "walks")], output=tmp_path / "walks.cvt")
    found = Trace.load(tmp_path / "walks.cvt")
    machine = msgspec.structs.replace(find_machine("cloud-epyc-milan"), residency=None)  # nobody else uses it
    assert 20 << 20 < machine.hierarchy[-1].size_bytes < 40 << 20
    times, threads = convolve(analyze(found, [machine]), machine), ThreadReplay(found)
    together = threads.on(machine, times, cores=16, pinning="compact")
    apart = threads.on(machine, times, cores=16, pinning="scatter")
    assert together.seconds > 1.5 * apart.seconds
    assert together.processor_seconds == pytest.approx(times.seconds, rel=0.1)
    assert threads.on(machine, times, cores=8).seconds == pytest.approx(together.seconds, rel=0.01)
    assert threads.on(machine, times, cores=16).seconds == pytest.approx(apart.seconds)
    assert apart.limit == "fewer threads than cores"  # the first thread only waits for the two others
    assert sum(apart.lost.values()) == pytest.approx(16 * apart.seconds - apart.processor_seconds, rel=0.01)
    for one in (together, apart):
        assert one.interval[0] < one.seconds < one.interval[1]
    assert any("spread over 2 complexes of 8 CPUs" in note for note in apart.assumptions)


TURNS = """
#include <omp.h>
enum { LINES = 5120 };
static struct { void *next; long rest[7]; } cells[4][LINES] __attribute__((aligned(4096)));
static int order[LINES];
int main(void)
{
    for (unsigned i = 0, j, state = 1; i < LINES; i++) {
        j = (state = state * 1664525 + 1013904223) / 8 % (i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < LINES; i++)
            cells[n][order[i]].next = &cells[n][order[(i + 1) % LINES]];
    for (int turn = 0; turn < 200; turn++)
#pragma omp parallel num_threads(4)
    {
        void **at = (void **)cells[omp_get_thread_num()];
        for (long i = 0; i < LINES; i++)
            at = *at;
        __asm__ volatile("" : : "r"(at));
    }
}
"""


def test_threads_in_turn_on_a_core_share_its_private_caches(tmp_path):
    """Each of four walks 320 KiB between barriers; a second level has 512 KiB."""
    (tmp_path / "turns.c").write_text(TURNS)
    subprocess.run(["gcc", "-O1", "-fopenmp", "-o", tmp_path / "turns", tmp_path / "turns.c"], check=True)
    trace([str(tmp_path / "turns")], output=tmp_path / "turns.cvt", sampling=SamplingPlan(engine="valgrind"))
    found, machine = Trace.load(tmp_path / "turns.cvt"), find_machine("cloud-epyc-milan")
    times, threads = convolve(analyze(found, [machine]), machine), ThreadReplay(found)
    two, four = (threads.on(machine, times, cores=cores).processor_seconds for cores in (2, 4))
    assert two > 1.7 * four


HANDED = """
#include <omp.h>
#include <stdlib.h>
static volatile long cells[8 * LINES] __attribute__((aligned(4096)));
int main(int count, char **words)
{
    const int rounds = atoi(words[1]), other = count > 2;
#pragma omp parallel num_threads(2)
    for (int round = 0; round < rounds; round++) {
        const int me = omp_get_thread_num();
        for (long i = 0; me == 0 && i < 8 * LINES; i += 8)
            cells[i] = round;
#pragma omp barrier
        for (long i = 0; me == other && i < 8 * LINES; i += 8)
            cells[i];
#pragma omp barrier
    }
}
"""
GIVEN, TAKEN = 1e-6, 3e-6


@pytest.fixture(scope="module")
def handing(tmp_path_factory):
    """Return a function that traces two threads, of which one stores to lines and the same or the other one loads them then."""
    folder = tmp_path_factory.mktemp("handed")
    (folder / "handed.c").write_text(HANDED)

    def traced(lines, rounds, *words, engine="valgrind"):
        program, to = folder / f"handed-{lines}", folder / f"{lines}-{rounds}-{len(words)}-{engine}.cvt"
        if not program.exists():
            subprocess.run(["gcc", "-O1", "-fopenmp", f"-DLINES={lines}", "-o", program, folder / "handed.c"], check=True)
        if not to.exists():
            trace([str(program), str(rounds), *words], output=to, sampling=SamplingPlan(engine=engine))
        return Trace.load(to)

    return traced


def handed(found, cores=2):
    """Return seconds lost to lines from other threads, on a machine on which they cost much."""
    profile = find_machine("cloud-epyc-milan")
    costs = {"given": GIVEN, "taken": TAKEN, "handover": 1e-6}
    kernel = tuple(KernelCost(name=f"thread.{name}", seconds=one, low=one, high=one) for name, one in costs.items())
    machine = msgspec.structs.replace(profile, kernel=kernel)
    one = ThreadReplay(found).on(machine, convolve(analyze(found, [machine]), machine), cores=cores)
    assert one.interval[0] <= one.seconds <= one.interval[1]
    assert any("hand over at barriers" in note for note in one.assumptions) == (found.header["sampling"]["engine"] == "native")
    return one.lost["lines from other threads"]


def test_lines_handed_over_at_barriers_cost_what_was_probed(handing):
    """In each round but the first the one takes 2048 lines, which the other was given in the round before."""
    lines, rounds = 2048, 100
    expected = lines * ((rounds - 1) * TAKEN + rounds * GIVEN)
    assert handed(handing(lines, rounds, "other")) == pytest.approx(expected, rel=0.05)


def test_lines_of_threads_come_from_the_one_pass(handing, tmp_path, monkeypatch):
    monkeypatch.setenv("CONVOLVER_CACHE", str(tmp_path))
    found, decoded, decode = handing(2048, 100, "other"), [], Decoder.replay
    monkeypatch.setattr(Decoder, "replay", lambda self, data: [decoded.append(len(data)), decode(self, data)])
    recorded = [len(chunk.content(str(found.path))) for chunk in read_chunks(found.path) if chunk.kind == ADDRESSES]
    cold = predict(found, base="cloud-epyc-milan", target="cloud-epyc-turin")
    assert decoded == recorded
    assert sum(decoded) > 0
    lost = cold.document["base"]["elapsed"]["lost_seconds"]["lines from other threads"]
    assert lost > 0
    again = predict(Trace.load(found.path), base="cloud-epyc-milan", target="cloud-epyc-turin")
    assert decoded == recorded
    assert again.document == cold.document
    (lines,) = tmp_path.rglob("*.lines.msgpack")
    lines.unlink()
    assert predict(Trace.load(found.path), base="cloud-epyc-milan", target="cloud-epyc-turin").document == cold.document
    assert decoded == 2 * recorded


def test_natively_lines_handed_over_are_said_to_be_unknown(handing):
    assert handed(handing(2048, 100, "other", engine="native")) == 0


def test_a_thread_that_loads_its_own_lines_gets_none(handing):
    assert handed(handing(2048, 100)) == pytest.approx(0, abs=0.01 * 2048 * 100 * GIVEN)


def test_lines_beyond_private_caches_come_from_the_last_level(handing):
    """Of 16384 lines a core's second level holds the half that its thread touched last."""
    lines, rounds = 16384, 24
    held = find_machine("cloud-epyc-milan").hierarchy[1].size_bytes // 64
    assert held == lines // 2
    expected = held * ((rounds - 1) * TAKEN + rounds * GIVEN)
    assert handed(handing(lines, rounds, "other")) == pytest.approx(expected, rel=0.05)


def test_one_core_hands_no_lines_over(handing):
    assert handed(handing(2048, 100, "other"), cores=1) == 0


def test_a_report_ranks_threads_by_elapsed_time(stair, tmp_path, convolver):
    words = ("predict", stair, "-b", "cloud-epyc-genoa", "-t", "cloud-server", "--cores", "4", "-o", tmp_path / "found")
    convolver(*words)
    convolver("report", tmp_path / "found", "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Elapsed time cloud-epyc-genoa / machine" in page
    assert "threads on 4 cores" in page
    assert "Threads over time on" in page
    times = BlockTimes.load(tmp_path / "found" / "stair@cloud-server.times.parquet")
    low, high = np.quantile(times.elapsed["draws_seconds"], (0.05, 0.95))
    assert times.awaited == pytest.approx((times.elapsed["seconds"], low, high))
    assert times.awaited[0] == pytest.approx(times.total[0] / 2.5, rel=0.1)


def test_a_report_says_where_and_why_more_cores_stop_to_help(stair, tmp_path, convolver):
    found, words = tmp_path / "found", ("-b", "cloud-epyc-genoa", "-t", "cloud-epyc-9b45", "--scaling", "1,2,4,16,32")
    asked = convolver("predict", stair, *words, "-o", found, "--json")
    sides = {side["machine"]: side["scaling"] for side in (json.loads(asked.stdout)[name] for name in ("base", "target"))}
    shown, page = convolver("report", found).stdout, tmp_path / "page.html"
    convolver("report", found, "--html", page)
    html = page.read_text()
    assert json.loads(convolver("report", found, "--json").stdout)["scaling"] == sides
    for machine in ("cloud-epyc-genoa", "cloud-epyc-9b45"):
        sentence = f"On {machine} nothing is gained beyond 4 cores: imbalance."
        assert sentence in shown
        assert sentence in html
    assert "Elapsed times" in shown
    assert html.count("<polygon points=") == 2
    assert html.index("Elapsed time over cores") < html.index("Threads over time on")


def test_a_report_without_numbers_of_cores_says_how_to_get_them(stair, tmp_path, convolver):
    convolver("predict", stair, "-b", "cloud-epyc-genoa", "-o", tmp_path / "found")
    convolver("report", tmp_path / "found", "--html", tmp_path / "page.html")
    assert "predict with <code>--scaling all</code>" in (tmp_path / "page.html").read_text()
    assert "Elapsed times" not in convolver("report", tmp_path / "found").stdout


def test_the_timeline_of_threads_adds_up_to_their_work(stair, tmp_path, convolver):
    found = tmp_path / "found"
    asked = ("predict", stair, "-b", "cloud-epyc-genoa", "--cores", "4", "-o", found, "--json")
    elapsed = json.loads(convolver(*asked).stdout)["base"]["elapsed"]
    timeline = Timeline.load(found / "stair@cloud-epyc-genoa.timeline.parquet")
    assert timeline.ranks.height == 5  # one makes the others
    assert timeline.predicted_seconds == pytest.approx(elapsed["seconds"], rel=1e-3)
    assert timeline.ranks["compute_seconds"].sum() == pytest.approx(elapsed["processor_seconds"], rel=0.03)
    waits = timeline.intervals.filter(timeline.intervals["state"] > 1)
    assert {STATES[state] for state in waits["state"]} <= {"wait at a barrier", "wait for a lock", "wait for a thread's end"}
    events = convolver("export", "chrome", found / "stair@cloud-epyc-genoa.timeline.parquet").stdout
    assert "thread 3" in events
    convolver("export", "prv", found / "stair@cloud-epyc-genoa.timeline.parquet", "-o", tmp_path / "stair.prv")
    assert ":1(5):1:1(5:1)" in (tmp_path / "stair.prv").read_text().splitlines()[0]


def test_a_trace_has_as_many_threads_as_asked_for(teams, tmp_path, monkeypatch, convolver):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    convolver("trace", "--threads", "3", "--counts-only", "-o", tmp_path / "teams.cvt", "--", teams, "triangle", "2")
    assert Trace.load(tmp_path / "teams.cvt").thread_log.threads == 3


def test_regions_have_their_threads_and_what_limits_them(teams, tmp_path, monkeypatch, convolver):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    trace([str(teams), "triangle", "100"], output=tmp_path / "teams.cvt")
    asked = ("predict", tmp_path / "teams.cvt", "-b", "cloud-epyc-genoa", "--cores", "4", "-o", tmp_path / "found", "--json")
    (region,) = json.loads(convolver(*asked).stdout)["base"]["elapsed"]["regions"]
    assert (region["times"], region["threads"], region["limit"]) == (100, 4, "imbalance")
    assert region["name"] == "main"
    assert region["efficiency"] == pytest.approx(triangle(4) / 4, abs=0.03)
    convolver("report", tmp_path / "found", "--html", tmp_path / "page.html")
    assert "<caption class=muted>Parallel regions" in (tmp_path / "page.html").read_text()


def test_a_machine_of_unknown_size_has_a_cpu_for_each_thread(stair, convolver):
    asked = ("predict", stair, "-b", "cloud-epyc-9b45", "--json")
    elapsed = json.loads(convolver(*asked).stdout)["base"]["elapsed"]
    assert elapsed["cores"] == 5
    assert any("5 CPUs" in note for note in elapsed["assumptions"])
    fewer = json.loads(convolver(*asked, "--cores", "1").stdout)["base"]["elapsed"]
    assert fewer["seconds"] > 2 * elapsed["seconds"]
    assert not any("CPUs" in note for note in fewer["assumptions"])


PINNED = ("--pin", "scatter")


@pytest.mark.slow
def test_pinned_threads_do_not_share_free_processors(stair, convolver):
    def seconds(*more):
        asked = ("predict", stair, "-b", "cloud-epyc-genoa", "--cores", "2", "--json", *more)
        return json.loads(convolver(*asked).stdout)["base"]["elapsed_seconds"]

    assert seconds(*PINNED) / seconds() == pytest.approx(6 / 5.5, rel=0.02)  # 2 and 4 parts have one of them
    asked = ("what-if", stair, "-b", "cloud-epyc-genoa", "--cores", "2", "--json")
    free, pinned = (json.loads(convolver(*asked, *more).stdout) for more in ((), PINNED))
    (free,), (pinned,) = ([one["seconds"] for one in rows if one["change"] == "as it is"] for rows in (free, pinned))
    assert pinned / free == pytest.approx(6 / 5.5, rel=0.02)
    asked = ("choose", stair, "-m", "cloud-epyc-genoa,cloud-server", "--cores", "2", "--json")
    free, pinned = ([one["seconds"] for one in json.loads(convolver(*asked, *more).stdout)] for more in ((), PINNED))
    assert np.array(pinned) / free == pytest.approx(6 / 5.5, rel=0.02)
    for verb, *machines in (
        ("predict", "-b", "cloud-epyc-genoa"),
        ("what-if", "-b", "cloud-epyc-genoa"),
        ("choose", "-m", "cloud-server,cloud-epyc-genoa"),
    ):
        failed = convolver(verb, stair, *machines, "--pin", "loose", code=2)
        assert "use compact or scatter" in failed.stderr


COUNTING = """
#include <pthread.h>
#include <string.h>
static struct { volatile long mine; char space[SPACE]; } counters[2] __attribute__((aligned(128)));
static pthread_barrier_t together;
static void *count(void *which)
{
    pthread_barrier_wait(&together);
    for (long i = 0; i < 4000000; i++)
        counters[(long)which].mine++;
    return 0;
}
int main(void)
{
    pthread_t threads[2];
    pthread_barrier_init(&together, 0, 2);
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, count, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
}
"""


@pytest.mark.parametrize(("space", "slower"), [(8, True), (120, False)])
def test_false_sharing_is_named_by_variable_and_line(tmp_path, convolver, space, slower):
    (tmp_path / "counting.c").write_text(COUNTING)
    subprocess.run(
        ["gcc", "-g", "-O2", f"-DSPACE={space}", "-o", "counting", "counting.c", "-lpthread"], cwd=tmp_path, check=True
    )
    words = ("-b", "cloud-epyc-genoa", "--measure", "0", "--scaling", "1,2", "--json")
    base = json.loads(convolver("predict", *words, "--", tmp_path / "counting", cwd=tmp_path).stdout)["base"]
    one, two = base["scaling"]
    assert (two["seconds"] > one["seconds"]) == slower
    if slower:
        assert two["limit"] == "false sharing of counters in count (counting.c:10)"
        assert two["lines"][0]["lost"] == pytest.approx(two["lost_seconds"]["lines that several threads write"])
    else:
        assert two["lines"] == []


ALLOCATED = """
#include <pthread.h>
#include <stdlib.h>
static void *count(void *mine)
{
    for (long i = 0; i < 4000000; i++)
        ++*(volatile long *)mine;
    return 0;
}
int main(void)
{
    pthread_t threads[2];
    long *counters = calloc(2, sizeof *counters);
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, count, counters + i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
}
"""


def test_false_sharing_of_allocated_memory_names_its_allocation(tmp_path, engine):
    (tmp_path / "heap.c").write_text(ALLOCATED)
    subprocess.run(["gcc", "-g", "-O2", "-pthread", "-o", tmp_path / "heap", tmp_path / "heap.c"], check=True)

    def named(objects):
        plan = SamplingPlan(data_objects=objects, engine=engine)
        found = trace([str(tmp_path / "heap")], output=tmp_path / f"{objects}.cvt", sampling=plan)
        return [line.label for line in known_lines(found).touched.lines]

    assert named(False) == ["false sharing of memory in count (heap.c:7)"]
    assert named(True) == ["false sharing of memory from calloc in main (heap.c:13) in count (heap.c:7)"]


CROWDED = """
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t together;
static volatile long done;
static void *often(void *nothing)
{
    for (int i = 0; i < 20000; i++) {
        pthread_mutex_lock(&lock);
        done++;
        pthread_mutex_unlock(&lock);
        if (i % 20 == 0)
            pthread_barrier_wait(&together);
    }
    return nothing;
}
int main(void)
{
    pthread_t other;
    pthread_barrier_init(&together, 0, 2);
    pthread_create(&other, 0, often, 0);
    often(0);
    pthread_join(other, 0);
}
"""


def test_threads_that_outlive_the_first_are_followed_to_their_end(tmp_path, engine):
    source = """
    #include <pthread.h>
    #include <unistd.h>
    static void *work(void *number)
    {
        for (volatile long i = 0; i < 1000000 * (long)number; i++)
            ;
        if ((long)number == 3)
            usleep(300000); /* the last one ends the process, and those that are about to end */
        return 0;
    }
    int main(void)
    {
        pthread_t made;
        for (long i = 1; i <= 3; i++)
            pthread_create(&made, 0, work, (void *)i);
        pthread_exit(0);
    }
    """
    (tmp_path / "left.c").write_text(source)
    subprocess.run(["gcc", "-O1", "-pthread", "-o", tmp_path / "left", tmp_path / "left.c"], check=True)
    found = trace([str(tmp_path / "left")], output=tmp_path / "left.cvt", sampling=SamplingPlan(mode="counts", engine=engine))
    assert not found.header.get("went_native")
    log = found.thread_log
    work = np.bincount(log.records["thread"], weights=log.records["instructions"])
    assert np.allclose(work[1:4] / work[1], [1, 2, 3], rtol=0.01)
    assert (log.records["kind"] == THREAD_EXIT).sum() >= 3  # the last one ends the process


def test_processor_time_holds_what_locks_and_barriers_take(tmp_path):
    (tmp_path / "crowded.c").write_text(CROWDED)
    subprocess.run(["gcc", "-O1", "-pthread", "-o", tmp_path / "crowded", tmp_path / "crowded.c"], check=True)
    found = trace([str(tmp_path / "crowded")], output=tmp_path / "crowded.cvt")
    machine = find_machine("cloud-epyc-genoa")
    times = convolve(analyze(found, [machine]), machine)
    log = found.thread_log
    assert log.records["inside"].sum() > 0.2 * log.instructions().sum()
    elapsed = ThreadReplay(found).on(machine, times, cores=2)
    assert elapsed.processor_seconds == pytest.approx(times.total[0], rel=1e-3)
    low, high = elapsed.interval
    assert low < elapsed.seconds < high


SPINNING = """
#include <pthread.h>
static volatile long turn __attribute__((aligned(64)));
static void *play(void *which)
{
    long me = (long)which, work[64] = {0};
    for (long i = 0; i < 40; i++) {
        while (turn % 2 != me)
            ;
        for (long k = 0; k < 2000; k++)
            ((volatile long *)work)[k % 64] += k;
        turn++;
    }
    return 0;
}
int main(void)
{
    pthread_t other;
    pthread_create(&other, 0, play, (void *)1);
    play(0);
    pthread_join(other, 0);
}
"""


def test_a_loop_that_waits_for_another_thread_is_no_work(tmp_path, convolver):
    (tmp_path / "spin.c").write_text(SPINNING)
    subprocess.run(["gcc", "-g", "-O1", "-pthread", "-o", tmp_path / "spin", tmp_path / "spin.c"], check=True)
    trace([str(tmp_path / "spin")], output=tmp_path / "spin.cvt", sampling=SamplingPlan(mode="full"))  # every store is seen
    asked = ("predict", tmp_path / "spin.cvt", "-b", "cloud-epyc-genoa", "--cores", "2", "-o", tmp_path / "found", "--json")
    base = json.loads(convolver(*asked).stdout)["base"]
    elapsed = base["elapsed"]
    assert elapsed["spin_loops"][0]["name"] in ("play (spin.c:8)", "play (spin.c:9)")
    waited = sum(one["seconds"] for one in elapsed["spin_loops"])
    assert waited > 0.2 * base["seconds"]
    assert elapsed["processor_seconds"] + waited == pytest.approx(base["seconds"], rel=0.02)
    assert elapsed["seconds"] < elapsed["processor_seconds"] <= elapsed["interval_seconds"][1] < base["seconds"]
    assert any("no work" in note for note in elapsed["assumptions"])
    convolver("report", tmp_path / "found", "--html", tmp_path / "page.html")
    assert "Loops in which threads wait" in (tmp_path / "page.html").read_text()


def test_a_trace_that_was_cut_off_says_what_it_holds(traced):
    one = traced("unequal", 2, 2)
    content = one.path.read_bytes()
    one.path.write_bytes(content[: len(content) * 2 // 3])
    assert Trace.load(one.path).complete is False

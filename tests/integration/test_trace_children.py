"""A command with the processes that it starts: a stream, a file and exact counts each."""

import collections
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from convolver.errors import TracerError
from convolver.tracing.children import trace_children
from convolver.tracing.definitions import CONTINUED
from convolver.tracing.native_engine import refusal
from convolver.tracing.reader import Trace
from convolver.tracing.sampling import SamplingPlan
from tests.integration.test_preflight import VECTOR, compile_c
from tests.integration.tool_runs import requires_tool
from tests.oracle.stepped_programs import ENVIRONMENT, build_stepper, differences, stepped

pytestmark = requires_tool
N = 1000


@pytest.fixture(params=["valgrind", "native"])
def engine(request):
    """Both engines follow the same processes."""
    if request.param == "native" and (why := refusal()) is not None:
        pytest.skip(f"the native engine cannot run here: {why}")
    return request.param


def stores(recorded):
    """Executed stores of the function that works."""
    return recorded.signature.table.filter(pl.col("function") == "work")["stores"].sum()


def followed(folder, *words, mode="full", engine="valgrind"):
    plan = SamplingPlan(mode=mode, engine=engine)
    status, children = trace_children(list(map(str, words)), output=f"{folder}/%p.cvt", sampling=plan)
    traces = [Trace.load(child.path) for child in children]
    for trace in traces:
        trace.verify()
    return status, children, traces


@pytest.mark.parametrize("mode", ["full", "counts"])
def test_each_forked_process_counts_its_own_work_alone(build, tmp_path, mode, engine):
    status, children, traces = followed(tmp_path, build("family"), mode=mode, engine=engine)
    assert status == 3
    assert [stores(trace) for trace in traces] == [2 * N, 2 * N, 4 * N]
    assert [child.outcome.exit_status for child in children] == [3, 1, 2]
    root = children[0].process.pid
    assert [trace.header["process"]["parent"] for trace in traces[1:]] == [root, root]
    if mode == "full":
        assert all(trace.header["recorded_references"] == trace.signature.totals["memops"] for trace in traces)


def test_what_is_kept_of_children_leaves_their_environment_out(build, tmp_path, monkeypatch):
    monkeypatch.setenv("LARGE", 100_000 * "x")
    _, children, traces = followed(tmp_path, build("family"), mode="counts")
    assert len(traces) == 3
    assert len(pickle.dumps(children)) < 10_000


@pytest.mark.slow
def test_streams_of_gone_processes_are_removed_while_others_run(tmp_path, monkeypatch):
    listed, list_folder = [], os.listdir
    monkeypatch.setattr(os, "listdir", lambda *folder: listed.append(list_folder(*folder)) or listed[-1])
    many = 40
    script = f"i=0; while [ $i -lt {many} ]; do /bin/true; i=$((i+1)); done"
    _, children, _ = followed(tmp_path, "sh", "-c", script, mode="counts")
    assert len(children) == many + 1
    assert max(map(len, listed)) < many  # two streams a child, of which at most eight wait


def test_sampling_begins_anew_in_a_forked_process(build, tmp_path):
    plan = SamplingPlan(interval=1000, sample=100, sets=4)
    _, children = trace_children([str(build("family"))], output=f"{tmp_path}/%p.cvt", sampling=plan)
    for child in children:
        recorded = Trace.load(child.path)
        memops = recorded.signature.totals["memops"]
        assert abs(recorded.header["windows"] - memops / 1000) <= 2
        assert recorded.header["set_references"] > 0.05 * memops


def test_a_program_that_replaces_itself_goes_on_in_a_trace_of_the_next(build, tmp_path, engine):
    binary, loop = build("family"), build("loop")
    status, children, traces = followed(tmp_path, binary, loop, 100, 7, 5, engine=engine)
    assert status == 5
    assert [child.process.command[0] for child in children] == [str(binary)] * 3 + [str(loop)]
    assert children[0].process.pid == children[3].process.pid
    assert "exec" in children[0].outcome.reason
    assert [stores(trace) for trace in traces[:3]] == [2 * N, 2 * N, 4 * N]
    summed = traces[3].signature.table.filter(pl.col("function") == "sum").sort("loads").row(-1, named=True)
    assert summed["executions"] == 700


def test_scripts_and_what_they_start_are_followed(build, tmp_path, engine):
    inner = tmp_path / "inner"
    inner.write_text(f"#!/bin/sh\n{build('loop')} 50 4 3\nexit $?\n")
    outer = tmp_path / "outer"
    outer.write_text(f"#!/bin/sh\n{inner}\nexec {inner}\n")
    for script in (inner, outer):
        script.chmod(0o755)
    status, children, traces = followed(tmp_path, outer, engine=engine)
    assert status == 3
    loops = [trace for child, trace in zip(children, traces, strict=True) if child.process.command[0] == str(build("loop"))]
    assert len(loops) == 2
    for trace in loops:
        summed = trace.signature.table.filter(pl.col("function") == "sum").sort("loads").row(-1, named=True)
        assert summed["executions"] == 200
        assert trace.header["exit_status"] == 3
    # What a shell forks in order to become another program is no program of its own.
    assert len(traces) == 5


SPAWNS = """
#define _GNU_SOURCE
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static int numbers[4096];
int main(int argc, char **argv)
{
    pid_t child;
    int status = 0;
    for (int k = 0; k < 200 * atoi(argv[1]); k++)
        for (int i = 0; i < 4096; i++)
            numbers[i] += k;
    if (argc < 3)
        return numbers[5] & 1;
    char *again[] = {argv[0], "2", NULL};
    posix_spawn(&child, argv[0], NULL, NULL, again, environ);
    waitpid(child, &status, 0);
    if (!(child = vfork())) {
        again[1] = "3";
        execv("/there/is/none", again);
        execve(argv[0], again, environ);
        _exit(9);
    }
    waitpid(child, &status, 0);
    again[1] = "4";
    return execv(argv[0], again);
}
"""


def test_both_engines_count_the_same_in_every_child(tmp_path):
    source = tmp_path / "spawns.c"
    source.write_text(SPAWNS)
    subprocess.run(["gcc", "-O1", "-static", "-no-pie", "-o", tmp_path / "spawns", source], check=True)
    script = f"{tmp_path}/spawns 1 more; {tmp_path}/spawns 5 | cat; ({tmp_path}/spawns 6; {tmp_path}/spawns 7)"
    found = []
    for name in ("valgrind", "native"):
        (tmp_path / name).mkdir()
        _, children, traces = followed(tmp_path / name, "sh", "-c", script, mode="counts", engine=name)
        of_ours = zip(children, traces, strict=True)
        counts = {
            child.process.command[1]: trace.signature.totals for child, trace in of_ours if "spawns" in child.process.command[0]
        }
        found.append((len(traces), counts))
    assert sorted(found[0][1]) == sorted(found[1][1]) == list("1234567")
    assert found[0][0] == found[1][0]
    for number, totals in found[0][1].items():
        for what in ("instructions", "loads", "stores"):
            assert found[1][1][number][what] == pytest.approx(totals[what], rel=2e-3)  # another processor while it starts


def executed(recorded):
    """Executions of each address, a repeated string instruction's once however often it turns."""
    of_segment, all_instructions = recorded.definitions.segment_of_instruction, recorded.definitions.instructions
    segments = recorded.definitions.segments[of_segment]
    counts = collections.Counter()
    for address, n, flags in zip(
        segments["address"] + all_instructions["offset"],
        recorded.counters[segments["counter"]],
        all_instructions["flags"],
        strict=True,
    ):
        counts[int(address)] += -int(n) if flags & CONTINUED else int(n)
    return {address: n for address, n in counts.items() if n}


@pytest.mark.skipif(refusal() is not None, reason="the native engine cannot run here")
def test_dynamic_children_count_as_single_steps_do(tmp_path):
    command = ["/bin/true"]
    cpu = str(min(os.sched_getaffinity(0)))
    alike = ["setarch", "-R", "taskset", "-c", cpu, "sh", "-c", '"$@"; "$@"; exit 0', "sh", "env", "-i"]
    variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    for _ in range(2):  # the clock's code of the kernel tries again where the time changes meanwhile
        _, children, traces = followed(tmp_path, *alike, *variables, *command, mode="counts", engine="native")
        found = [trace for child, trace in zip(children, traces, strict=True) if child.process.command == command]
        _, truth = stepped(build_stepper(tmp_path), tmp_path, command, 500_000)
        if all(executed(trace) == truth for trace in found):
            break
    assert len(found) == 2
    assert [differences(truth, executed(trace)) for trace in found] == [[], []]


def test_the_command_line_writes_a_file_for_each(build, tmp_path, engine):
    command = [
        sys.executable,
        "-m",
        "convolver",
        "trace",
        "--trace-children",
        f"--engine={engine}",
        "--json",
        "--counts-only",
        "--",
        str(build("family")),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 3
    documents = json.loads(done.stderr)
    assert sorted(os.listdir(tmp_path)) == sorted(
        name for entry in documents for name in (entry["trace"], entry["trace"].replace(".cvt", ".sig.parquet"))
    )
    assert [entry["exit_status"] for entry in documents] == [3, 1, 2]


ENDLESS = """
#include <stdio.h>
int main(int argc, char **argv)
{
    for (volatile long i = 0;; i++)
        if (i == 100000)
            fclose(fopen(argv[1], "w"));
}
"""


@pytest.fixture
def endless(tmp_path):
    """A program that opens the file which it is given, to write, once it runs."""
    (tmp_path / "endless.c").write_text(ENDLESS)
    subprocess.run(["gcc", "-O1", "-o", tmp_path / "endless", tmp_path / "endless.c"], check=True)
    return tmp_path / "endless"


def test_a_killed_child_leaves_an_incomplete_trace(endless, tmp_path, engine):
    os.mkfifo(tmp_path / "runs")
    script = f"{endless} {tmp_path}/runs & read line <{tmp_path}/runs; kill -KILL $!; wait $!; exit 4"
    status, children, _ = followed(tmp_path, "/bin/sh", "-c", script, mode="counts", engine=engine)
    assert status == 4
    killed = next(child for child in children if child.process.command[0] == str(endless))
    assert not killed.outcome.complete
    assert Trace.load(killed.path).signature.totals["instructions"] > 10_000


def test_ctrl_c_keeps_every_file(endless, tmp_path, engine):
    script = f"{endless} {tmp_path}/runs & wait"
    command = [sys.executable, "-m", "convolver", "trace", "--trace-children", "--counts-only"]
    command += [f"--engine={engine}", "--", "/bin/sh", "-c", script]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True)
    while not (tmp_path / "runs").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=900)
    assert process.returncode == 130
    recorded = [Trace.load(path) for path in tmp_path.glob("*.cvt")]
    assert len(recorded) == 2
    assert {trace.header["reason"] for trace in recorded} == {"interrupted"}


def test_programs_that_give_rights_run_natively_and_are_reported(tmp_path):
    if (why := refusal()) is not None:
        pytest.skip(f"the native engine cannot run here: {why}")
    program = tmp_path / "with-rights"
    shutil.copy("/bin/true", program)
    program.chmod(0o4755)
    status, children, traces = followed(tmp_path, "sh", "-c", f"{program}; {program}; exit 3", mode="counts", engine="native")
    assert status == 3
    assert [child.process.command[0] for child in children] == [shutil.which("sh")]
    assert [trace.header["untraced"] for trace in traces] == [2]


def test_a_command_that_the_tracer_cannot_start_is_one_sentence(tmp_path, engine):
    foreign = tmp_path / "x"
    foreign.write_bytes(b"\x7fELF\x02\x01" + bytes(100))
    foreign.chmod(0o755)
    with pytest.raises(TracerError):
        trace_children([str(foreign)], output=f"{tmp_path}/%p.cvt", sampling=SamplingPlan(engine=engine))


def test_a_child_with_avx512_code_does_not_run(tmp_path):
    binary = compile_c(tmp_path, VECTOR, "-mavx512f", "-mprefer-vector-width=512", "-fno-inline", name="vector")
    with pytest.raises(TracerError, match=r"vector uses AVX-512 in scale,.*--no-scan"):
        followed(tmp_path, "sh", "-c", f"{binary} || echo $? >{tmp_path}/status; exit 0", mode="counts")
    assert (tmp_path / "status").read_text() == "137\n"

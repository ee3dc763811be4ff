"""Real programs under the tracer: exact counts, the program's own input, output and status, whole files whatever happens."""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from convolver.errors import FormatError, UsageError
from convolver.signature.signature import Signature
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.one_pass import simulate
from convolver.tracing.reader import Trace
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import LiveTrace, signature_path, trace
from tests.synthetic import machine

CONVOLVER = [sys.executable, "-m", "convolver"]
MACHINE = {
    "schema": "convolver.machine",
    "version": 1,
    "name": "small",
    "hierarchy": [
        {"level": "L1", "size_bytes": 4096, "ways": 4, "line_bytes": 64},
        {"level": "L2", "size_bytes": 65536, "ways": 8, "line_bytes": 64},
    ],
}


def run(*words, **more):
    return subprocess.run([*CONVOLVER, "trace", *map(str, words)], capture_output=True, text=True, timeout=900, **more)


def rows(signature, binary):
    return signature.table.filter(pl.col("module") == str(binary.resolve()))


def test_counts_are_exact_in_every_mode(build, tmp_path):
    binary = build("loop")
    totals = []
    for mode in ("counts", "sample", "full"):
        plan = SamplingPlan(mode=mode, interval=1000, sample=100)
        recorded = trace([str(binary), "1000", "10"], output=tmp_path / f"{mode}.cvt", sampling=plan)
        recorded.verify()
        assert recorded.complete
        own = rows(recorded.signature, binary)
        totals.append({name: own[name].sum() for name in ("instructions", "loads", "stores", "flops", "bytes")})
        hot = own.sort("loads").row(-1, named=True)
        assert (hot["executions"], hot["loads"], hot["flops"]) == (10_000, 10_000, 10_000)
        if mode == "full":
            assert recorded.header["recorded_references"] == recorded.signature.totals["memops"]
            assert recorded.signature.table["sampled_references"].sum() == recorded.signature.totals["memops"]
            assert hot["unit_references"] == 10_000 - 9  # the nine returns to the array's beginning
        if mode == "sample":
            assert 0.05 < recorded.header["recorded_references"] / recorded.signature.totals["memops"] < 0.2
    assert totals[0] == totals[1] == totals[2]


def test_the_signature_beside_the_trace_is_the_one_inside(build, tmp_path):
    recorded = trace([str(build("loop"))], output=tmp_path / "a.cvt")
    beside = Signature.load(signature_path(tmp_path / "a.cvt"))
    assert beside.id == recorded.signature.id
    assert beside.inputs == {"trace": recorded.id}
    assert beside.header["command"] == [str(build("loop"))]


def test_the_verb_keeps_the_programs_output_input_and_status(build, tmp_path):
    done = run("-o", "a.cvt", "--", build("loop"), "10", "1", "7", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (7, "45\n")
    assert "Wrote a.cvt" in done.stderr
    done = run("-o", "b.cvt", "--json", "--", build("loop"), "10", "1", "7", cwd=tmp_path)
    assert json.loads(done.stderr)["exit_status"] == 7
    assert json.loads(done.stderr)["notes"] == []
    done = run("--", "cat", cwd=tmp_path, input="some input\n")
    assert (done.returncode, done.stdout) == (0, "some input\n")
    assert (tmp_path / "cat.sig.parquet").exists()


def test_processes_that_ran_untraced_are_said(tmp_path):
    words = ("-o", "%p.cvt", "--", "sh", "-c", "/bin/true; true")
    assert "Note: processes that it started (1) ran untraced; see --trace-children." in run(*words, cwd=tmp_path).stderr
    assert "untraced" not in run("--trace-children", *words, cwd=tmp_path).stderr


def test_json_has_the_notes_that_are_said_without(build, tmp_path):
    words = ["-o", "a.cvt", "--force", "--start-at", "nowhere"]
    said = run(*words, "--", build("loop"), cwd=tmp_path).stderr
    notes = json.loads(run(*words, "--json", "--", build("loop"), cwd=tmp_path).stderr)["notes"]
    assert [f"Note: {note}" for note in notes] == [line for line in said.splitlines() if line.startswith("Note: ")]
    assert notes[0] == "nothing was traced, because the program never came to nowhere."


def test_nothing_is_overwritten_without_force(build, tmp_path, convolver):
    (tmp_path / "a.cvt").write_text("precious")
    done = convolver("trace", "-o", "a.cvt", "--", build("loop"), cwd=tmp_path)
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert (tmp_path / "a.cvt").read_text() == "precious"


def test_a_program_killed_by_a_signal_leaves_a_readable_marked_trace(build, tmp_path):
    done = run("-o", "a.cvt", "--", build("loop"), "100", "5", "-11", cwd=tmp_path)
    assert done.returncode == 128 + signal.SIGSEGV
    recorded = Trace.load(tmp_path / "a.cvt")
    recorded.verify()
    assert not recorded.complete
    assert "SIGSEGV" in recorded.header["reason"]
    assert rows(recorded.signature, build("loop"))["loads"].max() == 500


def _start(tmp_path, build, *options, verb=("trace", "-o", "a.cvt"), name="a"):
    command = [*CONVOLVER, *verb, *options, "--", str(build("random")), "1000000000"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    part = tmp_path / f"{name}.cvt.part"
    while not part.exists() or part.stat().st_size < 200_000:
        assert process.poll() is None
        time.sleep(0.05)
    return process


def _valgrind(process):
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0])


def test_ctrl_c_finishes_the_files_and_ends_with_130(build, tmp_path):
    process = _start(tmp_path, build, "--full")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=120) == 130
    assert b"What ran until then is in a.cvt and a.sig.parquet." in process.stderr.read()
    recorded = Trace.load(tmp_path / "a.cvt")
    recorded.verify()
    assert not recorded.complete
    assert recorded.header["reason"] == "interrupted"
    assert rows(recorded.signature, build("random"))["loads"].max() > 1000


def test_ctrl_c_in_predict_names_the_files_that_stay(build, tmp_path):
    machine("here").save(tmp_path / "here.machine.json")
    process = _start(tmp_path, build, verb=("predict", "-b", "here", "--measure", "0", "-o", "."), name="random")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=120) == 130
    assert b"What ran until then is in random.cvt and random.sig.parquet." in process.stderr.read()
    assert not Trace.load(tmp_path / "random.cvt").complete


def test_a_killed_tracer_leaves_a_readable_marked_trace(build, tmp_path):
    process = _start(tmp_path, build, "--full")
    os.kill(_valgrind(process), signal.SIGKILL)
    assert process.wait(timeout=120) == 137
    recorded = Trace.load(tmp_path / "a.cvt")
    recorded.verify()
    assert not recorded.complete
    assert "killed" in recorded.header["reason"]
    assert not recorded.header["reason"].endswith(".")  # one is put after it
    assert sum(len(batch.addresses) for batch in recorded.batches()) > 1000


def _counted(path):
    """Does the file hold execution counts yet?"""
    with contextlib.suppress(FormatError):  # its first words are not written yet, or only half of a chunk
        return len(Trace.load(path).known_counters) > 0
    return False


def test_when_convolver_itself_is_killed_the_part_is_readable_counts_included(build, tmp_path):
    process = _start(tmp_path, build, "--full")
    traced = _valgrind(process)
    while not _counted(tmp_path / "a.cvt.part"):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    recorded = Trace.load(tmp_path / "a.cvt.part")
    assert not recorded.complete
    assert recorded.signature.totals["memops"] > 0
    assert sum(len(batch.addresses) for batch in recorded.batches()) > 1000
    with contextlib.suppress(ProcessLookupError):
        os.kill(traced, signal.SIGKILL)


def test_a_full_disk_ends_with_one_sentence_and_keeps_what_was_whole(build, tmp_path):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))

    done = run("--full", "-o", "a.cvt", "--", build("random"), "30000000", cwd=tmp_path, preexec_fn=limit)
    assert done.returncode == 3, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "cannot be written" in done.stderr
    recorded = Trace.load(tmp_path / "a.cvt")
    assert not recorded.complete
    assert sum(len(batch.addresses) for batch in recorded.batches()) > 100_000


@pytest.mark.parametrize(
    ("command", "status", "sentence"),
    [
        (["--", "./no-such-program"], 2, "There is no program"),
        (["--", "no-such-program"], 2, "There is no program"),
        (["--", "/etc/passwd"], 2, "cannot be executed"),
        (["--", "/tmp"], 2, "is a folder, which cannot be executed"),
        (["--full", "--counts-only", "--", "true"], 2, "contradict"),
        (["--sets", "3", "--", "true"], 2, "power of two"),
        (["--interval", "10", "--sample", "20", "--", "true"], 2, "does not fit"),
    ],
)
def test_what_cannot_be_traced_is_said_in_one_sentence(tmp_path, command, status, sentence, convolver):
    done = convolver("trace", *command, cwd=tmp_path)
    assert done.returncode == status
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_file_here_that_is_no_command_says_how_to_run_it(tmp_path):
    (tmp_path / "job.py").write_text("print(1)")
    assert "write ./job.py, or the interpreter" in run("--", "job.py", cwd=tmp_path).stderr
    assert "give its file name after '--'" in run("--", "nowhere.py", cwd=tmp_path).stderr


def test_children_of_the_program_run_untraced_and_do_not_disturb(tmp_path, convolver):
    words = ("bash", "-c", "for i in 1 2 3; do (echo child $i); /bin/true; done; exit 3")
    done = convolver("trace", "-o", "a.cvt", "--full", "--", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "child 1\nchild 2\nchild 3\n")
    recorded = Trace.load(tmp_path / "a.cvt")
    recorded.verify()
    assert recorded.complete
    assert recorded.header["recorded_references"] == recorded.signature.totals["memops"]


def test_a_child_that_outlives_the_program_does_not_hold_the_trace_open(tmp_path):
    done = subprocess.run(
        [*CONVOLVER, "trace", "-o", "a.cvt", "--", "bash", "-c", "sleep 200 >/dev/null 2>&1 & exit 0"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=900,
    )
    assert done.returncode == 0
    assert Trace.load(tmp_path / "a.cvt").complete


def test_references_are_distinguished_by_thread(build, tmp_path):
    recorded = trace([str(build("thread_sums", "-pthread"))], output=tmp_path / "a.cvt", sampling=SamplingPlan(mode="full"))
    assert recorded.header["threads"] == 4
    work = set(recorded.signature.table.filter(pl.col("function") == "work")["block"].to_list())
    counts = {}
    for batch in recorded.batches():
        inside = sum(int(block) in work for block in recorded.site_blocks[batch.sites])
        counts[batch.thread] = counts.get(batch.thread, 0) + inside
    assert all(counts[thread] >= 2000 for thread in (2, 3, 4))
    assert counts[1] == 0
    assert recorded.header["recorded_references"] == recorded.signature.totals["memops"]


def test_a_program_that_execs_another_is_traced_up_to_there_and_that_is_said(tmp_path, convolver):
    done = convolver("trace", "-o", "a.cvt", "--", "sh", "-c", "exec echo hello", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "replaced itself" in done.stderr
    assert Trace.load(tmp_path / "a.cvt").complete


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_code_that_is_made_while_running_is_counted(tmp_path):
    program = "let s = 0; for (let i = 0; i < 1e6; i++) s += i; console.log(s)"
    done = run("-o", "a.cvt", "--counts-only", "--", "node", "-e", program, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "499999500000\n")
    signature = Trace.load(tmp_path / "a.cvt").signature
    assert signature.table.filter(pl.col("module") == "")["instructions"].sum() > 1_000_000


def test_simulating_online_equals_simulating_the_stored_trace(build, tmp_path):
    from convolver.machine.profile import MachineProfile

    path = tmp_path / "small.json"
    path.write_text(json.dumps(MACHINE))
    machine = MachineProfile.load(path)
    command, plan = [str(build("loop")), "3000", "20"], SamplingPlan(mode="full")
    stored = simulate(trace(command, output=tmp_path / "a.cvt", sampling=plan), [machine])
    live = LiveTrace(command, sampling=plan)
    online = simulate(live, [machine])
    assert online.totals("small") == stored.totals("small")
    assert online.inputs["trace"] == live.signature.inputs["trace"]
    assert online.table.select("block", "level", "accesses", "hits").equals(
        stored.table.select("block", "level", "accesses", "hits")
    )


def test_a_program_is_analyzed_while_it_runs(build, tmp_path):
    from convolver.analyzing.analyze import analyze
    from convolver.convolution.convolve import convolve
    from convolver.machine.catalog import find_machine

    command, plan, machine = [str(build("loop")), "3000", "20"], SamplingPlan(mode="full"), find_machine("cloud-server")
    stored = analyze(trace(command, output=tmp_path / "a.cvt", sampling=plan), machine)
    live = analyze(LiveTrace(command, sampling=plan), machine)
    assert live.signature.totals == stored.signature.totals
    assert (live.of(machine).falls.served == stored.of(machine).falls.served).all()
    assert "no executed path is known" in convolve(live, machine).header["assumptions"][0]


def test_simulate_on_the_command_line_stores_no_addresses(build, tmp_path, convolver):
    (tmp_path / "small.json").write_text(json.dumps(MACHINE))
    done = convolver("trace", "--full", "--simulate", "small.json", "--", build("loop"), "3000", "20", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = {path.suffixes[-2] for path in tmp_path.glob("*.parquet")}
    assert names == {".sig", ".hits"}
    assert not list(tmp_path.glob("*.cvt"))
    hits = HitRates.load(next(tmp_path.glob("*.hits.parquet")))
    assert hits.totals("small")[0]["accesses"] >= 60_000


def test_the_memory_of_tracing_does_not_grow_with_the_run(build, tmp_path):
    script = (
        "import pathlib, sys\n"
        "from convolver.tracing.tracer import trace\n"
        "from convolver.tracing.sampling import SamplingPlan\n"
        "trace(sys.argv[2:], output=sys.argv[1], sampling=SamplingPlan(mode='full'))\n"
        "print(pathlib.Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0], file=sys.stderr)\n"
    )
    peaks = []
    for count in (1_000_000, 10_000_000):
        words = [sys.executable, "-c", script, tmp_path / f"{count}.cvt", build("random"), str(count)]
        peaks.append(int(subprocess.run(words, capture_output=True, text=True, check=True).stderr.split()[-1]))
    assert peaks[1] < peaks[0] * 1.1


def test_an_empty_command_is_refused(tmp_path):
    with pytest.raises(UsageError, match="nothing to trace"):
        trace([], output=tmp_path / "a.cvt")


def test_an_output_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(FormatError, match="cannot be written"):
        trace(["true"], output=tmp_path / "none" / "a.cvt")

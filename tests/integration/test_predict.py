"""The whole chain on a real program: a command in, times, ratio and artifacts out."""

import functools
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from convolver._native.trace_decoder import Decoder
from convolver.analyzing.analyze import analyze
from convolver.artifacts import describe, load
from convolver.machine.catalog import host_name
from convolver.simulation.one_pass import simulate
from convolver.tracing.format import ADDRESSES
from convolver.tracing.reader import read_chunks
from tests.synthetic import machine

CG = Path(__file__).parents[2] / "examples" / "cg.c"

pytestmark = pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, convolver):
    """A folder with the CG solver, its trace, two machines and a store of its own."""
    path = tmp_path_factory.mktemp("predict")
    subprocess.run(["gcc", "-g", "-O2", "-o", path / "cg", CG, "-lm"], check=True)
    machine("here").save(path / "here.machine.json")
    machine("fast", scale=0.5).save(path / "fast.machine.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOLVER_CACHE", str(path / "cache"))
        convolver("trace", "--full", "-o", "cg.cvt", "--", "./cg", "8", cwd=path, code=0)
        yield path


@pytest.fixture
def run(folder, convolver):
    return functools.partial(convolver, cwd=folder)


def test_cg_converges_natively_and_says_so(folder):
    done = subprocess.run([folder / "cg", "12"], capture_output=True, text=True, check=True)
    assert "residual" in done.stdout
    assert subprocess.run([folder / "cg", "1"], capture_output=True, check=False).returncode == 2


def test_prediction_from_a_trace_as_json(folder, run):
    done = run("predict", "cg.cvt", "--base", "here", "--target", "fast", "--measured", "0.01", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["base"]["machine"] == "here"
    assert document["target"]["machine"] == "fast"
    assert document["cpu_ratio"] == pytest.approx(2)
    assert document["measured_seconds"] == 0.01
    assert document["coverage"] == pytest.approx(1, abs=0.01)
    assert document["sampled_share"] == pytest.approx(1, abs=0.01)
    assert document["extrapolated_share"] == pytest.approx(0, abs=0.01)
    hot = document["blocks"][0]
    assert (hot["function"], Path(hot["file"]).name) == ("multiply", "cg.c")


def test_prediction_from_a_trace_on_a_terminal(folder, run):
    done = run("predict", "cg.cvt", "--base", "here.machine.json", "--target", "fast")
    assert done.returncode == 0, done.stderr
    for words in ("multiply", "cg.c:", "L1", "coverage", "sampled share", "CPU ratio"):
        assert words in done.stdout


def test_command_in_one_go_writes_every_artifact(folder, run):
    words = ["predict", "--base", "here", "-t", "fast", "-o", "out", "--measure", "1", "--data-objects", "--json"]
    words += ["--", "./cg", "6"]
    assert run(*("no/out" if word == "out" else word for word in words)).returncode == 2  # only the last folder is made
    done = run(*words)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["measured_seconds"] > 0
    assert "residual" not in done.stdout + done.stderr
    for path in document["artifacts"].values():
        assert describe(folder / path)["schema"].startswith("convolver.")
    assert describe(folder / document["artifacts"]["data objects"])["schema"] == "convolver.data_objects"
    assert load(folder / "out" / "cg@fast.ratio.json").total == document["cpu_ratio"]
    again = run(*words)
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert simulate(folder / "out/cg.cvt", "cloud-server").table.height
    ratio = run("diff", "out/cg@here.times.parquet", "out/cg@fast.times.parquet", "--json")
    assert json.loads(ratio.stdout)["ratio"] == document["cpu_ratio"]


def test_one_line_says_what_predict_wrote(folder, run):
    done = run("predict", "cg.cvt", "-b", "here", "-t", "fast", "-o", "one-line", code=0)
    assert ".json" not in done.stdout
    assert done.stderr.splitlines()[-1] == "Wrote one-line/cg.* and one-line/cg@*; `convolver report one-line` shows them."
    assert run("report", "one-line", code=0).stdout
    assert "`convolver report 'to ld'`" in run("predict", "cg.cvt", "-b", "here", "-o", "to ld", code=0).stderr


def test_a_command_is_announced_before_it_runs(run):
    done = run("predict", "-b", "here", "-o", "announced", "--measure", "2", "--", "./cg", "5", code=0)
    assert done.stderr.splitlines()[0] == "Running cg 2 times, then under the tracer, which takes several times as long."
    done = run("predict", "-b", "here", "-o", "announced", "--force", "--measure", "0", "--", "./cg", "5", code=0)
    assert done.stderr.splitlines()[0] == "Running cg under the tracer, which takes several times as long."


def test_an_earlier_run_profile_of_this_machine_serves_again(folder, run):
    (folder / "earlier").mkdir()
    machine(host_name()).save(folder / "earlier" / f"{host_name()}.machine.json")
    done = run("predict", "-t", "fast", "-o", "earlier", "--measure", "0", "--json", "--", "./cg", "6", code=0)
    assert json.loads(done.stdout)["cpu_ratio"] == pytest.approx(2)
    assert "probing" not in done.stderr


def test_signature_and_hit_rates_predict_as_their_trace_does(folder, run):
    (folder / "kept").mkdir()
    first = run("predict", "cg.cvt", "-b", "here", "-t", "fast", "-o", "kept", "--json")
    words = ["predict", "cg.sig.parquet", "--hits", "kept/cg.hits.parquet", "-b", "here", "-t", "fast", "--json"]
    second = run(*words)
    assert json.loads(second.stdout)["base"] == json.loads(first.stdout)["base"]
    report = run("report", "kept", "--json")
    assert report.returncode == 0, report.stderr  # the folder holds its signature, too


def test_hit_rates_of_another_trace_are_refused(folder, run):
    (folder / "other").mkdir()
    assert run("predict", "-b", "here", "-o", "other", "--measure", "0", "--", "./cg", "5").returncode == 0
    done = run("predict", "cg.sig.parquet", "--hits", "other/cg.hits.parquet", "-b", "here")
    assert done.returncode == 3
    assert "another trace" in done.stderr


def test_a_trace_without_addresses_has_no_prediction(folder, run):
    assert run("trace", "--counts-only", "-o", "counts.cvt", "--", "./cg", "5").returncode == 0
    done = run("predict", "counts.cvt", "-b", "here")
    assert done.returncode == 5
    assert len(done.stderr.strip().splitlines()) == 1


def test_info_verifies_a_trace(folder, run):
    done = run("info", "cg.cvt", "--json")
    document = json.loads(done.stdout)
    assert document["schema"] == "convolver.trace"
    assert document["totals"]["memops"] == document["totals"]["loads"] + document["totals"]["stores"]
    damaged = bytearray((folder / "cg.cvt").read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    (folder / "damaged.cvt").write_bytes(damaged)
    done = run("info", "damaged.cvt")
    assert done.returncode == 3
    assert len(done.stderr.strip().splitlines()) == 1
    assert "`convolver report` shows a folder" in run("info", ".", code=3).stderr


def test_children_are_predicted_one_by_one_and_added_up(folder, run, tmp_path):
    words = ("--base", "here", "--target", "fast", "--measure", "1", "-o", str(tmp_path), "--json")
    done = run("predict", "--trace-children", "--full", *words, "--", "sh", "-c", "./cg 6 && ./cg 8; true", code=0)
    document = json.loads(done.stdout)
    commands = [row["command"][-1] for row in document["processes"]]
    assert commands[:2] == ["8", "6"]
    assert document["measured_seconds"] > 0
    for side in (document["base"], *document["targets"]):
        parts = [row["seconds"][side["machine"]] for row in document["processes"]]
        assert side["seconds"] == pytest.approx(sum(parts))
        assert side["interval_seconds"][0] <= side["seconds"] <= side["interval_seconds"][1]
    first = document["processes"][0]
    alone = json.loads(run("predict", first["trace"], "--base", "here", "--target", "fast", "--json", code=0).stdout)
    assert first["seconds"] == {"here": alone["base"]["seconds"], "fast": alone["target"]["seconds"]}
    assert first["cpu_ratios"]["fast"] == alone["cpu_ratio"]


def test_a_script_is_predicted_with_the_processes_that_have_its_time(run, tmp_path):
    words = ("--base", "here", "--measure", "1", "--json", "-o", str(tmp_path))
    done = run("predict", *words, "--", "sh", "-c", "./cg 30; true", code=0)
    assert "Processes that sh starts have" in done.stderr
    document = json.loads(done.stdout)
    assert [row["command"][0].rpartition("/")[2] for row in document["processes"]] == ["cg", "sh"]
    done = run("predict", *words, "--cores", "1", "--", "sh", "-c", "./cg 30; true", code=0)
    assert "processes" not in json.loads(done.stdout)


def test_children_go_with_a_command_and_processor_time_alone(run):
    assert "goes with a command" in run("predict", "--trace-children", "cg.cvt", "--base", "here", code=2).stderr
    words = ("--scaling", "1,2", "--base", "here", "--", "./cg", "8")
    assert "adds up processor time" in run("predict", "--trace-children", *words, code=2).stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["predict", "missing.cvt", "-b", "here"], 3),
        (["predict", "cg.cvt", "-b", "nowhere"], 3),
        (["predict", "cg.sig.parquet", "-b", "here"], 2),
        (["predict", "cg.cvt", "-b", "here", "--overlap", "magic"], 2),
        (["predict", "cg.cvt", "-b", "here", "--data-objects"], 2),
        (["predict", "-b", "here", "--", "./no-such-command"], 2),
        (["predict", "renamed.cvt", "-b", "here"], 2),
        (["predict", "cg.cvt", "-b", "here", "--measured", "inf", "--json"], 2),
        (["predict", "cg.cvt", "-b", "here", "--measured", "nan", "--json"], 2),
        (["predict", "cg.cvt", "-b", "here", "-o", "cg"], 2),
        (["predict", "cg.cvt", "-b", "here", "-o", "no/folder"], 2),
    ],
)
def test_bad_input_ends_with_one_sentence_and_its_exit_code(folder, words, code, run):
    shutil.copyfile(folder / "cg.sig.parquet", folder / "renamed.cvt")
    done = run(*words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("command", "words"), [("exit 3", "status 3;"), ("kill -SEGV $$", "status 139 (SIGSEGV);")])
def test_a_program_that_fails_is_predicted_and_its_status_said(folder, run, tmp_path, command, words):
    done = run("predict", "-b", "here", "--measure", "0", "-o", str(tmp_path), "--", "sh", "-c", command, code=0)
    assert f"The program ended with {words} the prediction is for what it did until then." in done.stderr


def test_a_refused_command_leaves_no_folder(folder, run):
    assert "There is no program" in run("predict", "-b", "here", "-o", "empty", "--", "./no-such-command", code=2).stderr
    assert not (folder / "empty").exists()


def test_files_in_the_way_are_named_before_anything_is_simulated(folder, run, tmp_path):
    name = "cg@here.prediction.json"
    (tmp_path / name).touch()
    said = run("predict", "cg.cvt", "-b", "here", "-o", str(tmp_path), code=2).stderr
    assert said == f"convolver: {tmp_path / name} exists already; choose another name or allow overwriting with --force.\n"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_addresses_are_decoded_once_for_everything_and_then_never_again(folder, run, tmp_path, monkeypatch):
    """Features, caches, translations and executed paths of two machines come from one pass; the store answers afterwards."""
    monkeypatch.setenv("CONVOLVER_CACHE", str(tmp_path))
    decoded = 0
    decode = Decoder.replay

    def counted(self, data):
        nonlocal decoded
        decoded += len(data)
        decode(self, data)

    path = folder / "bursts.cvt"
    assert run("trace", "-o", path.name, "--", "./cg", "6").returncode == 0
    monkeypatch.setattr(Decoder, "replay", counted)
    recorded = sum(len(chunk.content(str(path))) for chunk in read_chunks(path) if chunk.kind == ADDRESSES)
    machines = ["server-hbm", "desktop-32m"]
    cold = analyze(path, machines)
    assert decoded == recorded > 0
    warm = analyze(path, machines)
    assert decoded == recorded
    assert warm.table.equals(cold.table)
    assert all(part.core is not None and part.falls.pages is not None for part in cold.parts)


@pytest.mark.parametrize(
    ("verb", "options"),
    [("predict", "--cores 2 --scaling 1,2"), ("choose", "--cores 2 --pin compact"), ("what-if", "--pin scatter")],
)
def test_options_for_threads_are_said_to_change_nothing_of_one(verb, options, run):
    machines = ["-m", "here,fast"] if verb == "choose" else ["--base", "here"]
    said = run(verb, "cg.cvt", *machines, *options.split(), code=0).stderr
    names = [word for word in options.split() if word.startswith("--")]
    assert f"{' and '.join(names)} ha{'ve' if len(names) > 1 else 's'} nothing to say: the program had one thread." in said


def test_a_machine_in_a_state_is_no_projected_one(run):
    machines = ["--base", "cloud-epyc-milan@alone", "--target", "cloud-server@alone", "--target", "server-hbm"]
    document = json.loads(run("predict", "cg.cvt", *machines, "--json", code=0).stdout)
    sides = {side["machine"]: side["projected"] for side in (document["base"], *document["targets"])}
    assert sides == {"cloud-epyc-milan@alone": False, "cloud-server@alone": False, "server-hbm": True}


def test_a_choice_takes_machines_alone_and_holds_their_moment(run):
    machines = "cloud-epyc-milan,cloud-epyc-7r13"
    chosen = {one["machine"]: one for one in json.loads(run("choose", "cg.cvt", "-m", machines, "--json", code=0).stdout)}
    assert set(chosen) == {"cloud-epyc-milan@alone", "cloud-epyc-7r13"}, "derived machines are as they usually are"
    pair = ["-m", "cloud-epyc-milan", "-m", "cloud-server"]
    probed = {
        one["machine"]: one for one in json.loads(run("choose", "cg.cvt", *pair, "--state", "probed", "--json", code=0).stdout)
    }
    low, high = chosen["cloud-epyc-milan@alone"]["interval"]
    assert low <= probed["cloud-epyc-milan"]["seconds"] <= high
    assert "--state probed" in run("choose", "cg.cvt", "-m", machines, code=0).stderr

"""Campaigns over real programs: native runs, traces, predictions, files."""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import msgspec
import pytest

from convolver.analyzing.analyze import analyze
from convolver.convolution.convolve import convolve
from convolver.errors import ProbeKilledError, SchemaError, TracerError, UsageError
from convolver.machine.catalog import find_machine
from convolver.machine.profile import MachineProfile
from convolver.probing import runner
from convolver.probing.machine_probe import default_cpu
from convolver.tracing.reader import Trace
from convolver.validating import measuring, run_campaign, running, sharing, visits
from convolver.validating.campaign import Campaign, Condition
from convolver.validating.campaign_machines import measured_elsewhere
from convolver.validating.measuring import CampaignRuns, measure_all
from convolver.validating.run_campaign import prepare
from convolver.validating.running import background_load, control_group, cpus_of, page_environment, run_once

SPIN = """
#include <stdlib.h>
int main(int count, char **words)
{
    volatile long sum = 0;
    for (long i = 0; i < atol(words[1]); i++)
        sum += i;
    return count > 2 ? 3 : 0;
}
"""
CAMPAIGN = """
name = "small"
runs = 2
prepare = [["{python}", "-c", "open('made.txt', 'w').write('x')"]]
base = "first"
condition = [
    {name = "first", profile = "desktop-32m", times = "first.csv"},
    {name = "second", profile = "server-96m", times = "second.csv"},
]
[[program]]
name = "spin"
source = "spin.c"
command = ["./spin"]
inputs = { short = ["100000"], fails = ["1000", "3"] }
[[program]]
name = "nowhere"
command = ["no-such-program"]
package = "no-such-package"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "spin.c").write_text(SPIN)
    (tmp_path / "c.toml").write_text(CAMPAIGN)
    (tmp_path / "first.csv").write_text("program,input,seconds\nspin,short,0.01\nspin,fails,0.01\n")
    (tmp_path / "second.csv").write_text("program,input,seconds\nspin,short,0.005\n")
    return tmp_path


def prepared(folder):
    campaign = Campaign.load(folder / "c.toml")
    return campaign, *prepare(campaign, folder, folder / "work")


def test_programs_are_built_inputs_made_and_missing_ones_named(folder):
    _, jobs, left_out = prepared(folder)
    assert (folder / "work" / "made.txt").read_text() == "x"
    assert [job.name for job in jobs] == ["spin-short", "spin-fails"]
    assert left_out == {"nowhere": "'no-such-program' is not installed (apt-get install no-such-package)"}


def test_a_program_is_another_one_once_its_source_or_flags_change(folder):
    keys = [[job.key for job in prepared(folder)[1]] for _ in range(2)]
    (folder / "spin.c").write_text("/* The same. */" + SPIN)
    keys.append([job.key for job in prepared(folder)[1]])
    assert keys[0] == keys[1] == keys[2]
    (folder / "spin.c").write_text(SPIN.replace("return count > 2 ? 3 : 0", "return 5"))
    keys.append([job.key for job in prepared(folder)[1]])
    assert subprocess.run([folder / "work" / "spin", "1"], check=False).returncode == 5
    (folder / "c.toml").write_text(CAMPAIGN.replace('source = "spin.c"', 'source = "spin.c"\nflags = ["-O1"]'))
    keys.append([job.key for job in prepared(folder)[1]])
    assert len({key for each in keys for key in each}) == 2 * len(keys[2:])


def test_what_an_older_version_compiled_keeps_its_runs(folder):
    (folder / "work").mkdir()
    subprocess.run(["cc", "-O2", "-o", folder / "work" / "spin", folder / "spin.c"], check=True)
    campaign, jobs, _ = prepared(folder)
    plain = [job for job in campaign.jobs(folder, folder / "work") if job.program == "spin"]
    assert [job.key for job in jobs] == [job.key for job in plain]


def test_an_interrupted_measurement_goes_on_after_the_last_run(folder):
    _, jobs, _ = prepared(folder)
    conditions = [Condition(name="quiet"), Condition(name="small pages", pages="4k")]
    first = CampaignRuns(folder / "runs.jsonl")
    assert measure_all(jobs, conditions, 2, first, default_cpu()) == {}
    assert len(first.all) == 8
    assert [run.round for run in first.all] == [0] * 4 + [1] * 4
    assert [run.condition for run in first.all] == ["quiet", "small pages"] * 4
    assert all(run.witness_cycles > 0 for run in first.all)
    lines = (folder / "runs.jsonl").read_text().splitlines()
    (folder / "runs.jsonl").write_text("\n".join(lines[:5]) + '\n{"job": "half a li')
    again = CampaignRuns(folder / "runs.jsonl")
    assert again.all == first.all[:5]
    measure_all(jobs, conditions, 2, again, default_cpu())
    assert len(again.all) == 8


def test_a_program_whose_runs_were_disturbed_gets_more_rounds(folder):
    _, jobs, _ = prepared(folder)
    quiet = Condition(name="quiet")
    runs = CampaignRuns(folder / "runs.jsonl")
    measure_all(jobs, [quiet], 1, runs, default_cpu())
    kept = [msgspec.structs.replace(run, others=0.9) for run in runs.all]
    (folder / "runs.jsonl").write_text("".join(msgspec.json.encode(run).decode() + "\n" for run in kept))
    again = CampaignRuns(folder / "runs.jsonl")
    measure_all(jobs, [quiet], 1, again, default_cpu(), repeated=1)
    short, fails = jobs
    assert [run.round for run in again.of(short, quiet)] == [0, 1]
    assert len([run for run in again.all if run.job == fails.key]) == 1


def test_a_disturbed_run_is_made_again_at_once(folder, monkeypatch):
    _, jobs, _ = prepared(folder)
    quiet, small = Condition(name="quiet"), Condition(name="small pages", pages="4k")
    seen = iter([0.27] + [0.4] * 2 + [0.27] * 100)
    monkeypatch.setattr(measuring, "wait_until_alone", lambda cpu, alone: 0.27)
    monkeypatch.setattr(measuring, "watched", lambda cpu: nullcontext(sharing.Watch(9, next(seen))))
    monkeypatch.setattr(measuring, "DISTURBED", 1.0)  # what else this machine does is not under test
    runs = CampaignRuns(folder / "runs.jsonl")
    runs.add(msgspec.structs.replace(run_once(jobs[0], small, -1, default_cpu(), None), witness_cycles=0.27))
    measure_all(jobs[:1], [quiet, small], 1, runs, default_cpu(), tries=3)
    assert [(run.condition, run.witness_cycles) for run in runs.all[1:]] == [
        ("quiet", 0.27),
        ("small pages", 0.4),
        ("small pages", 0.4),
        ("small pages", 0.27),
    ]


def test_a_core_that_seems_shared_is_waited_for_only_so_long(monkeypatch):
    looks = [0.4, 0.4, 0.28]
    monkeypatch.setattr(sharing, "witness_cycles", lambda cpu: looks.pop(0))
    assert sharing.wait_until_alone(0, 0.27) == 0.28
    assert sharing.is_shared(0.4, 0.27)
    assert not sharing.is_shared(0.4, 0.0)
    monkeypatch.setattr(sharing, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(sharing, "witness_cycles", lambda cpu: 0.4)
    assert sharing.wait_until_alone(0, 0.27) == 0.4


def test_the_core_is_looked_at_while_a_program_runs_on_it():
    cpu, before = default_cpu(), time.monotonic()
    with sharing.watched(cpu) as seen:
        subprocess.run(["sleep", "0.5"], check=True)
    assert 1 <= seen.looks <= (time.monotonic() - before) / 0.003  # how many: as often as a busy machine lets it
    assert seen.witness_cycles > 0.05
    with pytest.raises(RuntimeError, match="mine"), sharing.watched(cpu):
        raise RuntimeError("mine")


def test_a_run_that_nobody_looked_at_counts_as_seen_before(folder, monkeypatch):
    _, jobs, _ = prepared(folder)
    monkeypatch.setattr(measuring, "wait_until_alone", lambda cpu, alone: 0.29)
    monkeypatch.setattr(runner, "probe_binary", lambda: folder / "no-probe")
    runs = CampaignRuns(folder / "runs.jsonl")
    measure_all(jobs[:1], [Condition(name="quiet")], 1, runs, default_cpu())
    assert [run.witness_cycles for run in runs.all] == [0.29]


def test_runs_with_another_exit_status_do_not_count(folder):
    _, jobs, _ = prepared(folder)
    runs = CampaignRuns(folder / "runs.jsonl")
    measure_all(jobs, [Condition(name="quiet")], 1, runs, default_cpu())
    short, fails = jobs
    assert len(runs.of(short, Condition(name="quiet"))) == 1
    assert runs.of(fails, Condition(name="quiet")) == []


def test_pages_reach_the_program(folder):
    _, (job, _), _ = prepared(folder)
    assert "glibc.malloc.hugetlb=1" in page_environment(Condition(name="h", pages="thp"), {})["GLIBC_TUNABLES"]
    status = run_once(job, Condition(name="4k", pages="4k"), 0, default_cpu(), None)
    assert status.status == 0
    assert status.processor_seconds > 0


def test_a_program_that_does_not_start_is_named(folder):
    _, (job, _), _ = prepared(folder)
    (Path(job.folder) / "spin").chmod(0o644)
    with pytest.raises(TracerError, match="spin"):
        run_once(job, Condition(name="quiet"), 0, default_cpu(), None)


@pytest.mark.slow
def test_half_a_cpu_doubles_the_elapsed_time(folder):
    _, (job, _), _ = prepared(folder)
    long = msgspec.structs.replace(job, command=("./spin", "100000000"))
    half = Condition(name="half", cpu_quota=0.5)
    try:
        with control_group(half) as group:
            run = run_once(long, half, 0, default_cpu(), group)
    except UsageError:
        pytest.skip("needs control groups that may be made (cgroup v2, root)")
    assert run.wall_seconds > 1.7 * run.processor_seconds


def test_a_helper_that_outlives_its_program_may_leave_the_control_group_later(folder):
    _, (job, _), _ = prepared(folder)
    helper = msgspec.structs.replace(job, command=("sh", "-c", "sleep 0.3 & exit 0"))
    half = Condition(name="half", cpu_quota=0.5)
    try:
        with control_group(half) as group:
            run_once(helper, half, 0, default_cpu(), group)
            assert group is not None
            assert (group / "cgroup.procs").read_text().strip()
    except UsageError:
        pytest.skip("needs control groups that may be made (cgroup v2, root)")
    assert not group.exists()


def test_more_loads_than_cpus_are_refused():
    with pytest.raises(UsageError, match="10000 CPUs"), background_load(Condition(name="busy", loaded_cpus=10000), default_cpu()):
        pass


@pytest.mark.slow
def test_a_campaign_between_two_other_machines_runs_from_the_command_line(folder):
    command = [sys.executable, "-m", "convolver", "validate", "c.toml", "-o", "out", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["left_out"].keys() == {"nowhere", "spin-fails (hybrid)"}
    written = json.loads((folder / "out" / "validation.json").read_text())
    rows = {(row["program"], row["input"], row["condition"]): row for row in written["rows"] if row["method"] == "model"}
    assert rows.keys() == {("spin", "short", "first"), ("spin", "short", "second")}
    ratio = next(row for row in written["cpu_ratios"] if row["method"] == "model")
    assert ratio["measured"] == pytest.approx(2.0)
    assert ratio["predicted"] == pytest.approx(
        rows["spin", "short", "first"]["predicted_seconds"] / rows["spin", "short", "second"]["predicted_seconds"]
    )
    pairs = {(row["base"], row["target"]): row for row in written["pairs"] if row["method"] == "model"}
    assert pairs.keys() == {("first", "second"), ("second", "first")}
    assert pairs["first", "second"]["predicted"] * pairs["second", "first"]["predicted"] == pytest.approx(1)
    assert pairs["first", "second"]["predicted"] == pytest.approx(ratio["predicted"])
    assert pairs["first", "second"]["low"] <= pairs["first", "second"]["predicted"] <= pairs["first", "second"]["high"]
    assert (folder / "out" / "parity.svg").read_text().startswith("<?xml")


PAIR = """
#include <pthread.h>
static void *spin(void *sum)
{
    for (long i = 0; i < 3000000; i++)
        ++*(volatile long *)sum;
    return 0;
}
int main(void)
{
    static long sums[2][64];
    pthread_t other;
    pthread_create(&other, 0, spin, sums[0]);
    spin(sums[1]);
    pthread_join(other, 0);
}
"""


@pytest.mark.slow
def test_programs_with_threads_get_their_processors_and_elapsed_times(folder):
    (folder / "pair.c").write_text(PAIR)
    pair = '[[program]]\nname = "pair"\nsource = "pair.c"\nflags = ["-O1", "-pthread"]\ncommand = ["./pair"]\nthreads = 2\n'
    (folder / "c.toml").write_text(CAMPAIGN.partition("[[program]]")[0] + pair)
    for name in ("first", "second"):
        (folder / f"{name}.csv").write_text("program,input,seconds\npair,,0.01\n")
    command = [sys.executable, "-m", "convolver", "validate", "c.toml", "-o", "out"]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=900, check=True)
    rows = json.loads((folder / "out" / "validation.json").read_text())["rows"]
    (times,) = (row for row in rows if (row["condition"], row["method"]) == ("first", "model"))
    assert times["timed"] == "wall"
    assert times["low_seconds"] < times["predicted_seconds"] < times["high_seconds"]
    traced = Trace.load(folder / "out" / "traces" / "pair.hybrid.cvt")
    whole = convolve(analyze(traced, [find_machine("desktop-32m")]), find_machine("desktop-32m")).total[0]
    assert 0.5 * whole < times["predicted_seconds"] < 0.6 * whole + 2e-4


def test_threads_get_as_many_cpus_as_are_left(folder):
    _, (job, _), _ = prepared(folder)
    cpu, many = default_cpu(), len(os.sched_getaffinity(0))
    whole = msgspec.structs.replace(job, threads=many)
    assert cpus_of(job, Condition(name="quiet"), cpu) == {cpu}
    assert cpus_of(whole, Condition(name="quiet"), cpu) == os.sched_getaffinity(0)
    assert cpus_of(msgspec.structs.replace(job, threads=many + 1), Condition(name="quiet"), cpu) is None
    if many > 1:
        assert cpus_of(whole, Condition(name="busy", loaded_cpus=1), cpu) is None


@pytest.mark.parametrize("options", [["--watch"], ["--forever", "copy", "--bytes", "65536"]])
def test_a_watch_and_a_load_end_with_their_reader(options):
    with runner.start("--cpu", str(default_cpu()), *options) as started:
        started.stdout.close()  # as when its reader is killed
        started.wait(timeout=60)


def _end(process):
    process.kill()
    process.wait()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_runs_whose_background_load_was_killed_do_not_count(monkeypatch):
    loads, start = [], running.start_load
    monkeypatch.setattr(running, "start_load", lambda cpu: loads.append(start(cpu, size_bytes=1 << 16)) or loads[-1])
    busy = Condition(name="busy", loaded_cpus=1)
    with pytest.raises(ProbeKilledError, match="killed by SIGKILL while it kept CPU"), background_load(busy, default_cpu()):
        _end(loads[0])


def test_a_run_whose_watch_was_killed_does_not_count(monkeypatch):
    watches, start = [], sharing.start
    monkeypatch.setattr(sharing, "start", lambda *options: watches.append(start(*options)) or watches[-1])
    with pytest.raises(ProbeKilledError, match="killed by SIGKILL while it watched"), sharing.watched(default_cpu()):
        _end(watches[0])


@pytest.mark.slow
def test_a_measured_machine_becomes_a_condition_of_another_campaign(folder, convolver, monkeypatch):
    monkeypatch.setattr(visits, "choose_plan", partial(visits.choose_plan, largest_bytes=1 << 20))
    monkeypatch.setattr(run_campaign, "EXPORTED_ROUNDS", 2)
    here = CAMPAIGN.replace('base = "first"\n', "").replace("condition = [", 'condition = [{name = "here"},')
    (folder / "c.toml").write_text(here)
    done = convolver("validate", "c.toml", "-o", "out", "--export", "mine", cwd=folder, code=0)
    machine = MachineProfile.load(folder / "out" / "mine.machine.json")
    assert "Left out: nowhere: " in done.stderr
    assert machine.name == "mine"
    assert not any(point.samples_seconds for curve in machine.maps for point in curve.points)
    condition = Condition(name="mine", profile="out/mine.machine.json", times="out/times-mine.csv")
    assert measured_elsewhere(condition, folder).keys() == {("spin", "short")}


@pytest.mark.parametrize("text", ["program,seconds\na,1\n", 'program,input,seconds\na,small,"', "\0"])
def test_times_of_another_kind_are_refused_with_one_sentence(text, tmp_path):
    (tmp_path / "times.csv").write_text(text)
    condition = Condition(name="mine", profile="mine.machine.json", times="times.csv")
    with pytest.raises(SchemaError, match="needs the columns program, input and seconds"):
        measured_elsewhere(condition, tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("first.csv", "gone.csv"), "The condition 'first' cannot be had: .*gone.csv cannot be read: No such file"),
        (("desktop-32m", "desktop-3m"), "The condition 'first' cannot be had: No machine is called 'desktop-3m'"),
    ],
)
def test_a_mistake_in_a_condition_is_found_before_anything_is_measured_or_dropped(change, said, folder, convolver):
    (folder / "c.toml").write_text(CAMPAIGN.replace(*change))
    (folder / "out").mkdir()
    (folder / "out" / "runs.jsonl").write_text("kept\n")
    assert re.search(said, convolver("validate", "c.toml", "-o", "out", "--fresh", cwd=folder, code=3).stderr)
    assert [path.name for path in (folder / "out").iterdir()] == ["runs.jsonl"]


@pytest.mark.parametrize(
    "wrong", [["--stop", "never"], ["--export", "a/b"], ["--export", "mine"], ["--stop", "traced", "--json"]]
)
def test_a_refused_option_drops_no_measurement(wrong, folder, convolver):
    (folder / "out").mkdir()
    (folder / "out" / "runs.jsonl").write_text("kept\n")
    convolver("validate", "c.toml", "-o", "out", "--fresh", *wrong, cwd=folder, code=2)
    assert (folder / "out" / "runs.jsonl").read_text() == "kept\n"


def test_options_that_do_nothing_to_an_export_are_refused(folder, convolver):
    words = ["--export", "mine", "--full", "--jobs", "2", "--csv"]
    said = convolver("validate", "c.toml", *words, cwd=folder, code=2).stderr
    assert "--full, --jobs and --csv would do nothing with --export" in said


def test_a_campaign_of_programs_that_cannot_run_ends_at_once(folder, convolver):
    done = convolver("validate", "c.toml", "-o", "out", "--only", "nowhere", cwd=folder, code=5)
    assert "No program of the campaign can run here: 'no-such-program' is not installed" in done.stderr


def test_a_campaign_that_stops_says_what_it_left_out(folder, convolver):
    (folder / "second.csv").write_text("program,input,seconds\nspinn,short,0.005\n")
    said = convolver("validate", "c.toml", "-o", "out", "--stop", "measured", cwd=folder, code=0).stderr
    assert "nowhere is left out: 'no-such-program' is not installed" in said
    assert "second is left out: its times are of other programs or inputs." in said


def test_jobs_without_a_time_of_another_machine_are_named(folder, convolver):
    said = convolver("validate", "c.toml", "-o", "out", "--stop", "measured", cwd=folder, code=0).stderr
    assert "spin-fails on second is left out: its file of times has none." in said


def test_an_interrupted_campaign_says_how_it_goes_on(folder, convolver, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_campaign, "prepare", interrupted)
    said = convolver("validate", "c.toml", "-o", "out", cwd=folder, code=130).stderr
    assert "is kept in out; the same command without --fresh goes on." in said


def test_the_first_error_of_a_compiler_is_named(folder):
    (folder / "spin.c").write_text("int main(void) { return nothing; }")
    assert "undeclared" in prepared(folder)[2]["spin"]


def test_a_folder_that_cannot_be_made_is_one_sentence(folder, convolver):
    said = convolver("validate", "c.toml", "-o", "spin.c", cwd=folder, code=2).stderr
    assert said.startswith("convolver: The campaign cannot be kept in spin.c (")


def test_visits_of_any_name_are_found(tmp_path):
    (tmp_path / visits.FOLDER).mkdir()
    find_machine("desktop-32m").save(tmp_path / visits.FOLDER / f"[1 * 2].0{visits.SUFFIX}")
    assert visits.visits(tmp_path, Condition(name="[1 * 2]")).keys() == {0}


def test_another_machine_is_not_exported(folder):
    command = [sys.executable, "-m", "convolver", "validate", "c.toml", "--export", "mine"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 2
    assert "measured elsewhere" in done.stderr


@pytest.mark.slow
def test_two_processes_predict_the_same_rows_in_the_same_order_and_name_the_job_that_fails(folder):
    (folder / "c.toml").write_text(CAMPAIGN.replace("short = [", 'longer = ["200000"], short = ['))
    with (folder / "second.csv").open("a") as times:
        times.write("spin,longer,0.006\n")

    def predicted(jobs):
        command = [sys.executable, "-m", "convolver", "validate", "c.toml", "-o", "out", "--jobs", jobs]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr
        document = json.loads((folder / "out" / "validation.json").read_text())
        return document["rows"], document["left_out"]

    (rows, _), (same, left_out) = predicted("1"), predicted("2")
    assert rows == same
    assert [row["input"] for row in rows if row["method"] == "model"] == ["longer", "short", "short"]
    assert "status 3" in left_out["spin-fails (hybrid)"]


def test_an_impossible_campaign_ends_with_status_3_and_one_sentence(folder):
    (folder / "c.toml").write_text("name = 1")
    command = [sys.executable, "-m", "convolver", "validate", "c.toml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("convolver: c.toml is no campaign")

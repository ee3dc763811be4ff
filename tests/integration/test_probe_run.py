"""The real probe on this machine, in a plan of about two seconds."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from convolver.errors import ProbeError, ProbeKilledError, ToolNotFoundError, UsageError
from convolver.machine.profile import MachineProfile
from convolver.probing import moments, runner
from convolver.probing.core_probe import measure_core
from convolver.probing.interference import loaded_curves, other_cpus
from convolver.probing.machine_probe import choose_plan, default_cpu, probe
from convolver.probing.plan import SECOND_BUSY, Effort, Item, Plan
from convolver.probing.port_probe import port_samples
from convolver.probing.runner import run_plan
from convolver.progress import SILENT

# How quiet the machine is says nothing about the code.
pytestmark = pytest.mark.filterwarnings("ignore::convolver.errors.NoiseWarning")

EFFORT = Effort(sample_seconds=0.0003, limit_seconds=0.01, warmup_seconds=0.05, least=5, most=7)
SIZES = (4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 64 << 20)
MEMORY = ("chase", "load", "random_load", "store", "copy", "update", "gather")
REGISTERS = ("cycle", "instruction", "add", "multiply", "add_latency")
ITEMS = (*(Item(kernel, size) for size in SIZES for kernel in MEMORY), *(Item(kernel, 0) for kernel in REGISTERS))


def plan_of(*items, name="short", rounds=1):
    return Plan(name=name, items=items, rounds=rounds, effort=EFFORT)


def convolver(*arguments, folder):
    command = [sys.executable, "-m", "convolver", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)


@pytest.fixture(scope="module")
def profile():
    return probe(plan_of(*ITEMS, rounds=2))


def test_every_sample_of_every_point_is_positive_and_kept(profile):
    assert len(profile.maps) == len(MEMORY)
    for curve in profile.maps:
        assert [point.working_set_bytes for point in curve.points] == list(SIZES)
        for point in curve.points:
            assert len(point.samples_seconds) >= 1
            assert min(point.samples_seconds) > 0
            assert point.seconds_per_reference in point.samples_seconds
            assert point.references_per_sample >= 512


def test_memory_answers_a_chase_ten_times_later_than_the_first_cache(profile):
    chase = profile.curve("chase", "load")
    assert chase.at(64 << 20).seconds_per_reference > 10 * chase.at(4096).seconds_per_reference


def test_independent_loads_take_less_than_half_of_dependent_ones_everywhere(profile):
    for size in SIZES:
        load = profile.curve("unit", "load").at(size).seconds_per_reference
        assert 2 * load < profile.curve("chase", "load").at(size).seconds_per_reference


def test_dependent_additions_take_longer_than_independent_ones(profile):
    assert profile.throughput("add_latency").seconds > 1.5 * profile.throughput("add").seconds
    assert profile.flop_rate() > 1e7
    assert 0 < profile.instruction_seconds < 1e-7


def test_the_profile_says_where_it_comes_from_and_can_be_stored(profile, tmp_path):
    assert profile.provenance["measured"] is True
    assert profile.provenance["plan"] == "short"
    assert profile.cpu["measured_hertz"] > 1e8
    sizes = [level.size_bytes for level in profile.hierarchy]
    assert sizes == sorted(sizes)
    profile.save(tmp_path / "x.machine.json")
    assert MachineProfile.load(tmp_path / "x.machine.json") == profile


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_threads_make_a_curve_of_their_own():
    profile = probe(plan_of(Item("load", 65536, 1), Item("load", 65536, 2)))
    assert [curve.threads for curve in profile.maps] == [1, 2]


@pytest.mark.parametrize(("pages", "page_bytes"), [("4k", os.sysconf("SC_PAGE_SIZE")), ("thp", 2 << 20)])
def test_curves_carry_the_size_of_their_pages(pages, page_bytes):
    plan = msgspec.structs.replace(plan_of(Item("chase", 4 << 20)), pages=pages)
    assert [curve.page_bytes for curve in probe(plan).maps] == [page_bytes]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_busy_second_cpu_is_measured_but_is_no_instruction_of_its_own():
    profile = probe(plan_of(Item("instruction", 0), *SECOND_BUSY))
    assert len(profile.floating_point) == 1
    assert profile.provenance["noise"]["neighbour_slowdown"] > 0


def test_more_threads_than_cpus_are_refused():
    with pytest.raises(UsageError, match="CPUs"):
        choose_plan(full=True, threads=(1, 100_000))


def test_an_interrupted_probe_resumes_and_measures_nothing_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(moments, "ALIKE", math.inf)  # whether other VMs share this core is not under test
    partial, plan = tmp_path / "x.partial", plan_of(*ITEMS[:6])
    first = runner.run_plan(plan, default_cpu(), SILENT, partial)
    partial.write_text("\n".join(partial.read_text().splitlines()[:4]) + "\n")
    again = runner.run_plan(plan, default_cpu(), SILENT, partial)
    assert len(again) == len(first) == 6
    assert again[:3] == first[:3]
    assert again[3:] != first[3:]


def test_a_partial_file_cut_in_the_middle_of_a_line_is_started_anew(tmp_path):
    partial, plan = tmp_path / "x.partial", plan_of(*ITEMS[:2])
    runner.run_plan(plan, default_cpu(), SILENT, partial)
    partial.write_text(partial.read_text()[:-20])
    assert len(runner.run_plan(plan, default_cpu(), SILENT, partial)) == 2
    assert len(partial.read_text().splitlines()) == 3


def test_points_that_have_not_settled_are_measured_again_within_the_budget(monkeypatch):
    monkeypatch.setattr(moments, "ALIKE", math.inf)  # whether other VMs share this core is not under test
    plan = plan_of(*ITEMS[:5])
    never = msgspec.structs.replace(plan, settled=-1.0, most_rounds=3, budget_seconds=100.0)
    assert len(runner.run_plan(never, default_cpu(), SILENT)) == 15
    broke = msgspec.structs.replace(never, budget_seconds=0.0)
    assert len(runner.run_plan(broke, default_cpu(), SILENT)) == 5
    generous = msgspec.structs.replace(never, settled=1e9, rounds=2)
    assert len(runner.run_plan(generous, default_cpu(), SILENT)) == 10


def test_lines_of_another_plan_are_not_resumed_from(tmp_path):
    partial = tmp_path / "x.partial"
    runner.run_plan(plan_of(*ITEMS[:2]), default_cpu(), SILENT, partial)
    assert len(runner.run_plan(plan_of(*ITEMS[:3]), default_cpu(), SILENT, partial)) == 3
    assert len(partial.read_text().splitlines()) == 4


def test_an_unknown_kernel_ends_in_one_sentence():
    with pytest.raises(ProbeError, match="unknown kernel") as caught:
        runner.run_plan(plan_of(Item("nonsense", 4096)), default_cpu(), SILENT)
    assert "\n" not in str(caught.value)


def test_a_cpu_that_does_not_exist_is_refused_by_the_probe_itself():
    with pytest.raises(ProbeError, match="CPU 1000"):
        runner.run_plan(plan_of(Item("load", 4096)), 1000, SILENT)


def probe_processes():
    """Return the ids of this process's running probes."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name.startswith("convolver-probe") and int(rest.split()[1]) == os.getpid():
            found.append(int(stat.parent.name))
    return found


def test_a_killed_probe_is_an_error_that_loses_no_whole_line(tmp_path):
    partial, plan = tmp_path / "x.partial", plan_of(*ITEMS, rounds=50)
    with ThreadPoolExecutor() as pool:
        running = pool.submit(runner.run_plan, plan, default_cpu(), SILENT, partial)
        while not partial.exists() or len(partial.read_text().splitlines()) < 3:
            time.sleep(0.01)
        for process in probe_processes():
            os.kill(process, signal.SIGKILL)
        with pytest.raises(ProbeError, match="killed by SIGKILL"):
            running.result(timeout=900)
    assert all(json.loads(line) for line in partial.read_text().splitlines())


@pytest.mark.parametrize("part", [measure_core, port_samples], ids=["core", "ports"])
def test_a_killed_part_of_the_probe_is_never_left_out(part):
    with ThreadPoolExecutor() as pool:
        running = pool.submit(part, default_cpu())
        while not (found := probe_processes()) and not running.done():
            time.sleep(0.01)
        for process in found:
            os.kill(process, signal.SIGKILL)
        with pytest.raises(ProbeKilledError, match="killed by SIGKILL while it measured the"):
            running.result(timeout=900)


def test_a_missing_probe_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("convolver.locations._PROGRAMS", tmp_path)
    with pytest.raises(ToolNotFoundError, match="gcc"):
        runner.list_kernels()


@pytest.mark.slow
def test_the_command_writes_a_profile_that_machine_show_reads(tmp_path):
    done = convolver("probe", "--largest", "64KiB", "-o", "m.machine.json", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["curves"] > 10
    assert "Wrote m.machine.json" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["m.machine.json"]
    shown = convolver("machine", "show", "m.machine.json", "--json", folder=tmp_path)
    assert json.loads(shown.stdout)["id"] == json.loads(done.stdout)["id"]
    assert convolver("probe", "--largest", "64KiB", "-o", "m.machine.json", folder=tmp_path).returncode == 2


@pytest.mark.parametrize(
    "words", ["--quick --full", "--cpu 100000", "--pages 1g", "--busy 2", "--largest 1", "--full --busy x", "-o no/m.json"]
)
def test_contradicting_or_impossible_options_are_usage_errors(tmp_path, words):
    done = convolver("probe", *words.split(), folder=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured_and_exits_130(tmp_path):
    partial = tmp_path / "m.machine.json.partial"
    command = [sys.executable, "-m", "convolver", "probe", "-o", "m.machine.json"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not partial.exists() or len(partial.read_text().splitlines()) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, words = process.communicate(timeout=900)
    assert process.returncode == 130
    assert "resumes" in words
    assert len(partial.read_text().splitlines()) >= 3
    assert not (tmp_path / "m.machine.json").exists()


needs_two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")


@needs_two_cpus
def test_other_cpus_stream_beside_a_chase():
    plan = Plan(name="loaded", items=(Item("chase", 16 << 20, 2),), rounds=1, effort=EFFORT, beside="copy")
    kernels, _ = runner.list_kernels()
    (curve,) = loaded_curves(plan, default_cpu(), kernels, 4096, SILENT, None)
    assert (curve.kernel, curve.threads, curve.beside) == ("chase", 2, "copy")


@needs_two_cpus
def test_every_other_cpu_is_looked_at():
    allowed = sorted(os.sched_getaffinity(0))
    found = other_cpus(default_cpu(), allowed[-2:])
    assert [one.cpu for one in found] == [cpu for cpu in allowed[-2:] if cpu != default_cpu()]
    assert all(one.slowdown > 0.2 for one in found)


def test_lines_are_left_alone_for_longer_and_longer():
    command = [str(runner.probe_binary()), "--residency", "--cpu", str(default_cpu()), "--bytes", str(1 << 20)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    pauses = [json.loads(line)["pause_seconds"] for line in done.stdout.splitlines()]
    assert pauses == sorted(set(pauses))
    assert set(pauses) <= {0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064}
    assert all(json.loads(line)["seconds_per_line"] > 0 for line in done.stdout.splitlines())


def test_huge_pages_are_delivered_or_refused():
    plan = Plan(name="huge", items=(Item("load", 8 << 20),), rounds=1, effort=EFFORT, pages="2m")
    command = [str(runner.probe_binary()), "--pages", "2m", "--bytes", str(8 << 20)]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        assert "no huge pages" in done.stderr
        with pytest.raises(ProbeError, match="huge pages"):
            run_plan(plan, default_cpu(), SILENT)
    else:
        assert run_plan(plan, default_cpu(), SILENT)[0].samples_seconds


def test_the_profile_has_curves_on_huge_pages_or_says_why_not():
    plan = msgspec.structs.replace(plan_of(*ITEMS[:4]), huge=(Item("chase", 4 << 20), Item("chase", 8 << 20)))
    profile = probe(plan)
    if profile.huge_maps:
        (found,) = profile.huge_maps
        assert (found.kernel, found.page_bytes, len(found.points)) == ("chase", 2 << 20, 2)
        assert "without_huge_pages" not in profile.provenance
    elif profile.cpu["transparent_huge_pages"] != "always":
        assert "huge pages" in profile.provenance["without_huge_pages"]
    assert all(curve.page_bytes == profile.maps[0].page_bytes for curve in profile.maps)


def test_where_no_huge_pages_can_be_had_the_probe_goes_on_and_says_so(monkeypatch):
    def refuse(plan, cpu, progress, partial=None):
        if plan.pages == "2m":
            raise ProbeError("no huge pages")
        return run_plan(plan, cpu, progress, partial)

    monkeypatch.setattr("convolver.probing.machine_probe.run_plan", refuse)
    monkeypatch.setattr("convolver.probing.machine_probe.page_bytes_of", lambda pages, described: 4096)
    profile = probe(msgspec.structs.replace(plan_of(*ITEMS[:4]), huge=(Item("chase", 4 << 20),)))
    assert not profile.huge_maps
    assert profile.provenance["without_huge_pages"].endswith("no huge pages")


def test_an_unknown_kernel_beside_is_refused():
    plan = Plan(name="beside", items=(Item("load", 8192, 2),), rounds=1, effort=EFFORT, beside="nothing")
    with pytest.raises(ProbeError, match="nothing"):
        run_plan(plan, default_cpu(), SILENT)


def test_a_kernel_runs_until_it_is_ended():
    command = [str(runner.probe_binary()), "--forever", "copy", "--cpu", str(default_cpu()), "--bytes", str(1 << 20)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "running\n"
        assert process.poll() is None
        process.terminate()
        assert process.wait(timeout=120) == 130

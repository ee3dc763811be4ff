"""The probe as one file: it runs where nothing else is, and what it prints becomes a profile."""

import json
import os
import subprocess

import msgspec
import pytest

from convolver.errors import FormatError
from convolver.locations import program
from convolver.machine.profile import MachineProfile
from convolver.probing.interference import loaded_plan
from convolver.probing.plan import full_plan
from convolver.probing.probe_bundle import _plan_text, _Recorded, bundled, plan_of_bundle, read_measurements, write_bundle

END = '{"bundle": 1, "cpu": 0}\n%s\n{"task": "kernels"}\n{"task": "core"}\n{"task": "system"}\n{"task": "system", "status": 0}'
ODD = [
    "[" * 50_000,
    '{"task": ["a"], "status": 0}',
    '{"task": "a", "status": 1e999}',
    '{"task": "system", "status": "x"}',
    END % '{"file": "/a", "text": ""}\n{"file": "/a/b", "text": ""}',
    END % '{"file": "/a\\u0000", "text": ""}',
    END % ('{"file": "/%s", "text": ""}' % ("a" * 5000)),
    "\xff",
]


def present():
    try:
        return program("convolver-probe-static", "").exists()
    except Exception:
        return False


needs_static = pytest.mark.skipif(not present(), reason="needs a static libc when Convolver is installed")


def short_plan():
    """The quick plan of a bundle with half of its sizes and a third of its rounds."""
    quick = plan_of_bundle("quick")
    near, huge = (tuple(item for item in items if item.working_set_bytes <= 8 << 20) for items in (quick.items, quick.huge))
    return msgspec.structs.replace(quick, items=near, huge=huge, rounds=2)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the bundle printed in a folder that is its whole file system (as root, else in an empty environment)."""
    folder = tmp_path_factory.mktemp("root")
    (folder / "probe.run").write_bytes(bundled(_plan_text(short_plan())))
    (folder / "probe.run").chmod(0o755)
    alone = ["chroot", str(folder), "/probe.run"] if os.geteuid() == 0 else [str(folder / "probe.run")]
    done = subprocess.run(alone, stdout=subprocess.PIPE, env={"PATH": "/usr/sbin:/usr/bin:/bin"}, timeout=600, check=True)
    (folder / "raw.json").write_bytes(done.stdout)
    return folder / "raw.json"


@needs_static
@pytest.mark.slow
def test_a_bundle_measures_in_an_empty_root(printed, convolver, tmp_path):
    done = convolver("machine", "add", printed, "-n", "elsewhere", "--no-calibrate", "-o", tmp_path / "e.machine.json")
    if "no sample went undisturbed" in done.stderr and '"samples_seconds": []' in printed.read_text():
        pytest.skip("other work took the CPU during the whole probe")
    assert done.returncode == 0, done.stderr
    profile = MachineProfile.load(tmp_path / "e.machine.json")
    assert profile.name == "elsewhere"
    assert len(profile.hierarchy) >= 2
    assert {"chase", "load", "copy"} <= {curve.kernel for curve in profile.maps}
    assert profile.kernel
    undisturbed = [json.loads(line)["cycles"] for line in printed.read_text().splitlines() if '"latency.fp_add"' in line]
    expected = {"latency.fp_add", "window.reorder_buffer"} & {figure.name for figure in profile.core}
    if not expected and not all(undisturbed):
        pytest.skip("others shared the core during a whole look at it")
    assert undisturbed
    assert expected


@needs_static
@pytest.mark.slow
def test_a_run_that_was_cut_off_is_refused(printed, tmp_path):
    lines = printed.read_text().splitlines()
    (tmp_path / "cut.json").write_text("\n".join(lines[: len(lines) // 2]))
    with pytest.raises(FormatError, match="no whole run"):
        read_measurements(tmp_path / "cut.json")


@needs_static
def test_a_bundle_needs_no_libraries(tmp_path):
    write_bundle(tmp_path / "probe.run")
    head = (tmp_path / "probe.run").read_bytes()
    assert os.access(tmp_path / "probe.run", os.X_OK)
    assert b"ld-linux" not in head[: 1 << 12]
    listed = subprocess.run([tmp_path / "probe.run", "--list"], capture_output=True, text=True, env={}, check=True)
    assert "compiler" in json.loads(listed.stdout.splitlines()[0])


@needs_static
@pytest.mark.parametrize("cpus", [1, 2])
def test_busy_cpus_are_those_of_the_machine_that_is_measured(cpus, tmp_path):
    allowed = sorted(os.sched_getaffinity(0))[:cpus]
    if len(allowed) < cpus:
        pytest.skip("needs two CPUs")
    asked = ["instruction 0 1", "instruction 0 2", "load 4096 %n", "load 4096 70000", "."]
    plan = ["plan full", "task round-0 4096 --cpu %c --bytes %b --sample 0.0001 --limit 0.001", *asked, ""]
    (tmp_path / "probe.run").write_bytes(bundled("\n".join(plan)))
    (tmp_path / "probe.run").chmod(0o755)
    words = ["taskset", "-c", ",".join(map(str, allowed)), tmp_path / "probe.run"]
    lines = list(map(json.loads, subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()))
    found = [(line["kernel"], line["threads"]) for line in lines if "kernel" in line and "threads" in line]
    assert found == [("instruction", 1), ("instruction", 2), ("load", 2)][: 1 if cpus == 1 else 3]
    assert lines[-1] == {"task": "round-0", "status": 0}
    assert {"plan": "full"} in lines


def test_a_full_bundle_asks_for_what_a_full_probe_measures():
    text = _plan_text(plan_of_bundle("full"))
    asked = {tuple(line.split()) for line in text.splitlines()}
    here = full_plan(threads=(1, 4), cpus=4)
    for item in [*here.items, *loaded_plan(here).items]:
        assert (item.kernel, str(item.working_set_bytes), "%n" if item.threads == 4 else str(item.threads)) in asked


def test_recorded_answers_come_as_a_running_probe_gives_them():
    lines = [{"name": "latency.add", "filled": 0, "cycles": [3, 1]}, {"name": "window.scheduler", "filled": 1, "cycles": [9]}]
    lines += [{"name": "window.scheduler", "filled": count, "cycles": [count]} for count in (1, 2, 4)]
    lines += [{"name": "loop.1", "filled": 16, "cycles": [turn]} for turn in (7, 5)]
    process = _Recorded(lines)
    process.ask("window.reorder_buffer 1")
    assert [process.answer() for _ in range(3)] == [("latency.add", [1.0, 3.0]), ("window.scheduler", [9.0]), None]
    assert [process.cycles("window.scheduler", 2)[0] for _ in range(4)] == [2, 1, 4, 2]
    assert [process.cycles("loop.1", 16) for _ in range(3)] == [[7], [5], [7]]
    assert process.cycles("front.jumps", 64) == []


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"bundle": 1}', '{"task": "system", "status": 0}', *ODD])
def test_what_no_probe_printed_is_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FormatError, match=r"bundled probe|damaged"):
        read_measurements(tmp_path / "x.json")

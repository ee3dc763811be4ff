"""The verb machine: list, show, compare, check, project, and what happens with bad input."""

import functools
import json

import pytest

from convolver.machine.profile import MachineProfile


@pytest.fixture
def run(tmp_path, monkeypatch, convolver):
    monkeypatch.setenv("CONVOLVER_MACHINES", str(tmp_path / "none"))
    return functools.partial(convolver, "machine", cwd=tmp_path)


def test_list_shows_the_bundled_machines_and_those_in_this_folder(run, tmp_path):
    run("project", "server-hbm", "-n", "mine", "--set", "L2.size=4MiB")
    (tmp_path / "broken.machine.json").write_text("{")
    rows = {row["name"]: row for row in json.loads(run("list", "--json").stdout)}
    assert {"desktop-32m", "server-hbm", "server-96m", "mine", "broken"} <= set(rows)
    assert rows["mine"]["levels"]["L2"] == 4 << 20
    assert rows["mine"]["kind"] == "projected"
    assert "JSON" in rows["broken"]["error"]
    assert "mine" in run("list").stdout


def test_show_prints_levels_curves_and_what_was_changed(run):
    shown = run("show", "desktop-32m")
    assert shown.returncode == 0
    for word in ("projected, not measured", "L3", "32 MiB", "chase", "memory", "core.clock x 1.3"):
        assert word in shown.stdout
    document = json.loads(run("show", "desktop-32m", "--json").stdout)
    assert document["projected"] is True
    assert {row["pattern"] for row in document["plateaus"]} >= {"unit", "random", "chase", "stride"}
    assert "assumptions" in document["provenance"]["note"]


def test_compare_has_one_row_for_each_kernel_and_level(run):
    rows = json.loads(run("compare", "server-hbm", "desktop-32m", "--json").stdout)["rows"]
    ratios = {(row["kernel"], row["level"]): row["ratio"] for row in rows}
    assert ratios["add", "registers"] == pytest.approx(1.3 / 0.9)
    assert ratios["chase", "memory"] == pytest.approx(1.15 / 0.55, rel=1e-6)
    assert "chase" in run("compare", "server-hbm", "desktop-32m").stdout


def test_check_says_what_is_doubtful(run, tmp_path):
    found = json.loads(run("check", "server-hbm", "--json").stdout)["findings"]
    assert any("projected from" in finding["sentence"] for finding in found)
    level = '{"level": "L1", "size_bytes": 49152, "ways": 12}'
    (tmp_path / "bare.machine.json").write_text(
        f'{{"schema": "convolver.machine", "version": 1, "name": "bare", "hierarchy": [{level}]}}'
    )
    assert "no measured maps" in run("check", "bare").stdout


def test_project_writes_a_marked_machine_and_does_not_overwrite(run, tmp_path):
    words = ("project", "server-hbm", "-n", "fast", "--scale", "memory.bandwidth=2", "--note", "twice the channels")
    assert run(*words).returncode == 0
    made = MachineProfile.load(tmp_path / "fast.machine.json")
    assert made.projected
    assert made.changes[-1] == "memory.bandwidth x 2"
    assert made.provenance["note"] == "twice the channels"
    assert run(*words).returncode == 2
    assert run(*words, "--force").returncode == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("show nowhere", 3),
        ("show no/such.machine.json", 3),
        ("check nowhere", 3),
        ("compare server-hbm nowhere", 3),
        ("project server-hbm -n x --set L9.size=1MiB", 2),
        ("project server-hbm -n x --set L1.size=1000", 3),
        ("project server-hbm -n x --scale memory.bandwidth=-1", 2),
        ("project server-hbm -n a/b", 2),
        ("calibrate cloud-server --like server-96m", 2),
        ("calibrate desktop-32m --like server-96m", 2),
    ],
)
def test_bad_input_ends_in_one_sentence_and_writes_nothing(run, tmp_path, words, code):
    done = run(*words.split())
    assert done.returncode == code
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())

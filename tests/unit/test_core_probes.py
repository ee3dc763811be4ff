"""How far predictions from several probes of one core lie apart, on probes whose answer is known."""

from __future__ import annotations

import json

import pytest

from convolver.machine.profile import MachineProfile
from tests.bench import core_probes
from tests.bench.core_seeds import seed_table


def seen(taken, latency, ports_taken=2.07):
    """What a probe saw at one moment: its witness, and the latency of a multiplication."""
    core = [
        {"name": name, "value": value, "low": value, "high": value}
        for name, value in (("witness.taken", taken), ("latency.multiply", latency))
    ]
    return {"core": [core], "ports": [[{"name": "witness.taken", "cycles": [ports_taken]}]], "seconds": 1.0}


def test_distances_are_relative_and_sorted():
    found = core_probes.distances({"a": 100.0, "b": 50.0, "gone": 1.0}, {"a": 102.0, "b": 50.0, "new": 1.0})
    assert found == pytest.approx([0.0, 2 / 101])


@pytest.mark.parametrize(("taken", "latency"), [(2.1, 7), (4.2, 4)])
def test_a_probe_of_a_shared_core_leaves_the_seed(taken, latency):
    table, numbers = core_probes.probed(seed_table("none"), MachineProfile(name="m", hierarchy=()), seen(taken, 7.0))
    assert table.kind("multiply").latency == latency
    assert numbers == (taken < 4)


def test_probes_that_are_kept_are_not_taken_again(tmp_path, monkeypatch):
    kept = tmp_path / "probes.json"
    kept.write_text(json.dumps([seen(2.1, 3.0)]))
    monkeypatch.setattr(core_probes, "probe_core", lambda cpu, moments: seen(2.0, float(moments)))
    found = core_probes.kept_probes(kept, 2, 5)
    assert [one["core"][0][1]["value"] for one in found] == [3.0, 5.0]
    assert json.loads(kept.read_text()) == found

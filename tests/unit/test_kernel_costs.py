"""The kernel's costs: from the probe's samples to the profile, projected and refused."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from convolver.errors import SchemaError
from convolver.machine.kernel_costs import KernelCost
from convolver.machine.profile import MachineProfile
from convolver.machine.profile_check import check_profile
from convolver.machine.project import parse_changes, project
from convolver.probing.kernel import kernel_cost, kernel_costs, kernel_samples, measure_kernel
from convolver.probing.machine_probe import default_cpu
from convolver.probing.runner import probe_binary
from convolver.reporting.machine_tables import compare_rows, print_profile
from tests.synthetic import machine

COST = KernelCost(name="page.few", seconds=8e-7, low=7e-7, high=9e-7)


def with_costs(name: str = "m") -> MachineProfile:
    return msgspec.structs.replace(machine(name), kernel=(COST,))


def test_a_cost_is_the_first_quartile_since_disturbances_only_add_time():
    cost = kernel_cost("call.least", [5e-7, 1e-7, 2e-7, 3e-7, 9e-6])
    assert (cost.low, cost.seconds, cost.high) == (1e-7, 2e-7, 3e-7)
    assert kernel_cost("page.huge", []) is None


def test_a_contended_line_costs_the_median_within_nine_tenths():
    """A program has one line at one moment, as each sample, so its time lies as far from the median."""
    cost = kernel_cost("thread.sums", [1e-9 * number for number in range(41, 0, -1)])
    assert (cost.low, cost.seconds, cost.high) == pytest.approx((3e-9, 21e-9, 39e-9))
    assert kernel_cost("thread.shared_27", [2e-9]) == KernelCost(name="thread.shared_27", seconds=2e-9, low=2e-9, high=2e-9)


def test_costs_are_of_the_core_alone_where_it_was():
    shared = {"name": "call.least", "seconds": [3e-7, 1e-7, 3.1e-7], "witness_cycles": [2.0, 1.0, 2.1]}
    later = {"name": "call.least", "seconds": [1.1e-7, 2.9e-7], "witness_cycles": [1.05, 1.9]}
    never = {"name": "call.open", "seconds": [5e-7, 4e-7], "witness_cycles": [2.5, 2.0]}
    threads = {"name": "thread.lock", "seconds": [9e-9, 8e-9], "witness_cycles": [0.0, 0.0]}
    old = {"name": "call.stat", "seconds": [2e-7]}
    costs = {cost.name: (cost.low, cost.high) for cost in kernel_costs([shared, never, later, threads, old])}
    assert costs["call.least"] == pytest.approx((1e-7, 1.05e-7))
    assert costs["call.open"] == (4e-7, 4e-7)
    assert costs["thread.lock"] == pytest.approx((8e-9, 8.5e-9))
    assert costs["call.stat"] == (2e-7, 2e-7)


def test_the_probe_measures_what_this_kernel_takes():
    costs = {cost.name: cost for cost in measure_kernel(default_cpu())}
    assert {"page.few", "page.many", "call.least", "start.process", "start.thread", "thread.lock", "byte.read_file"} <= set(costs)
    assert all(0 < cost.low <= cost.seconds <= cost.high < 1 for cost in costs.values())
    assert costs["call.least"].seconds < costs["start.process"].seconds
    if len(os.sched_getaffinity(0)) > 1:
        assert costs["thread.wake_each"].low < costs["thread.wake"].low, "the call alone, shared by those that it wakes"


def test_a_line_of_many_passes_faster_than_one_alone():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    seconds = {one["name"]: min(one["seconds"]) for one in kernel_samples(default_cpu()) if one["seconds"]}
    assert 0 < seconds["thread.given"] < seconds["thread.handover"]
    assert 0 < seconds["thread.taken"] < seconds["thread.handover"]
    assert 0 < seconds["thread.join"] < 1e-3


@pytest.mark.slow
def test_a_probed_region_takes_longer_than_its_barrier():
    """Where there is a second CPU, and GCC's runtime of OpenMP as an archive."""
    archive = subprocess.run(["gcc", "-print-file-name=libgomp.a"], capture_output=True, text=True, check=True).stdout.strip()
    if len(os.sched_getaffinity(0)) < 2 or "/" not in archive:
        pytest.skip("needs two CPUs and libgomp.a")
    for binary in (probe_binary(), probe_binary().with_name("convolver-probe-static")):
        command = [binary, "--system", "--cpu", str(default_cpu())]
        costs = [json.loads(line) for line in subprocess.run(command, capture_output=True, check=True).stdout.splitlines()]
        seconds = {one["name"]: min(one["seconds"]) for one in costs if one["seconds"]}
        assert 0 < seconds["thread.barrier"] < seconds["thread.region"] < 1e-3


def test_costs_are_kept_in_the_profile(tmp_path):
    path = tmp_path / "m.machine.json"
    with_costs().save(path)
    assert MachineProfile.load(path).kernel == (COST,)
    assert MachineProfile.load(path).id == with_costs().id


def test_a_cost_that_is_no_time_is_refused():
    document = json.loads(json.dumps(with_costs().to_document()))
    document["kernel"][0]["low"] = 0.0
    with pytest.raises(SchemaError, match=r"the kernel cost 'page\.few' is no positive time"):
        MachineProfile.from_document(document)


def test_a_faster_clock_makes_the_kernel_faster():
    projected = project(with_costs(), "faster", parse_changes([], ["core.clock=2"]))
    assert projected.kernel == (KernelCost(name="page.few", seconds=4e-7, low=3.5e-7, high=4.5e-7),)


def test_costs_are_compared_by_name():
    rows = [row for row in compare_rows(with_costs("a"), with_costs("b")) if row["level"] == "kernel"]
    assert [(row["kernel"], row["ratio"]) for row in rows] == [("page.few", 1.0)]


def test_a_profile_without_costs_says_that_system_time_is_not_predicted():
    note = "It has no costs of the kernel"
    assert any(finding.sentence.startswith(note) for finding in check_profile(machine("m")))
    assert not any(finding.sentence.startswith(note) for finding in check_profile(with_costs()))


def test_a_probe_names_the_verb_that_prints_costs(capsys):
    print_profile(with_costs())
    assert "page.few" in capsys.readouterr().out
    print_profile(with_costs(), Path("my machine.json"))
    said = capsys.readouterr().out
    assert "page.few" not in said
    assert "`convolver machine show 'my machine.json'`" in said

"""Measured kernels in place of published figures."""

from __future__ import annotations

import msgspec
import pytest

from convolver.execution.calibrated import calibrated_core
from convolver.machine.core_figures import CoreFigure
from convolver.machine.cores import find_core
from convolver.machine.kernel_costs import KernelCost
from convolver.machine.profile import Throughput
from tests.synthetic import machine

CYCLE = 0.25e-9


def _profile(**cycles):
    entries = {"cycle": 1.0, **cycles}
    points = tuple(Throughput(kernel=name, operation=name, seconds=count * CYCLE) for name, count in entries.items())
    return msgspec.structs.replace(machine("m"), maps=(), floating_point=points)


def test_measured_latencies_replace_published_ones():
    table, used = calibrated_core(find_core("golden-cove"), _profile(multiply_latency=3.02, add_latency=1.99, divide=4.1))
    assert table.kind("fp_multiply").latency == 3
    assert table.kind("fp_add").chained_latency == 2
    assert used == {"fp_add.chained_latency": 2, "fp_multiply.latency": 3, "divide_double.busy": 4}


def test_a_disturbed_probe_changes_nothing():
    seed = find_core("golden-cove")
    assert calibrated_core(seed, _profile(multiply_latency=3.4, add_latency=2.5)) == (seed, {})


@pytest.mark.parametrize(("a_cycle", "width"), [(8, 8), (12, 6)])
def test_no_operations_that_share_slots_leave_the_published_width(a_cycle, width):
    slot = CoreFigure(name="throughput.slot", value=1 / a_cycle, low=1 / a_cycle, high=1 / a_cycle)
    profile = msgspec.structs.replace(_profile(), core=(slot,))
    assert calibrated_core(find_core("zen4"), profile)[0].params["issue_width"] == width


@pytest.mark.parametrize(
    ("core", "times", "ports", "port_bytes"),
    [
        ("zen5", {"load": 0.251, "store": 0.501, "load_16": 0.5, "load_32": 0.5, "load_64": 0.5}, (4, 2, 2), 64),  # timed on one
        ("golden-cove", {"load": 1 / 3, "load_32": 1 / 3, "load_64": 0.5}, (3, 2, 3), 0),
        ("skylake", {"load": 0.5, "store": 0.5, "load_16": 0.5, "load_32": 1.0}, (2, 2, 2), 16),  # as no Skylake is
    ],
)
def test_loads_and_stores_of_a_cycle_give_their_ports(core, times, ports, port_bytes):
    figures = tuple(CoreFigure(name=f"throughput.{name}", value=one, low=one, high=one) for name, one in times.items())
    table = calibrated_core(find_core(core), msgspec.structs.replace(_profile(), core=figures))[0]
    assert table.params.get("port_bytes", 0) == port_bytes
    assert tuple(bin(table.mask(names)).count("1") for names in (table.memory.load, table.memory.store)) == ports[:2]
    assert len((table.memory.vector_load or table.memory.load).split()) == ports[2]


def test_without_a_clock_the_table_stays():
    seed = find_core("zen3")
    bare = msgspec.structs.replace(machine("m"), floating_point=())
    assert calibrated_core(seed, bare) == (seed, {})


@pytest.mark.parametrize(("high", "latency"), [(20.2, 20), (22.0, 8)])
def test_counting_with_atomic_operations_gives_their_latency(high, latency):
    counting = KernelCost(name="thread.sum", seconds=20 * CYCLE, low=20 * CYCLE, high=high * CYCLE)
    seed = find_core("zen4")
    assert seed.kind("atomic").latency == 8
    table = calibrated_core(seed, msgspec.structs.replace(_profile(), kernel=(counting,)))[0]
    assert table.kind("atomic").latency == latency

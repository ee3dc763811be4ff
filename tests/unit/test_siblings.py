"""A core as one of its two threads sees it."""

import pytest

from convolver.execution.core_time import core_table
from convolver.machine.catalog import find_machine
from convolver.machine.cores import core_tables
from convolver.machine.project import beside_sibling
from convolver.simulation.level_samples import fits_sets
from convolver.simulation.targets import targets


@pytest.mark.parametrize("name", ["cloud-epyc-genoa", "server-hbm", "cloud-epyc-7763"])
def test_a_sibling_takes_half_of_the_core_and_none_of_the_last_level(name):
    machine = find_machine(name)
    shared = beside_sibling(machine)
    assert [two.size_bytes / one.size_bytes for one, two in zip(machine.hierarchy, shared.hierarchy, strict=True)] == [
        0.5,
        0.5,
        1.0,
    ]
    whole, half = core_table(machine)[0], core_table(shared)[0]
    assert half.params["issue_width"] == whole.params["issue_width"] / 2
    assert half.params["reorder_buffer"] == whole.params["reorder_buffer"] // 2
    assert half.params["penalty"] == whole.params["penalty"]
    assert half.kind("alu").cycles == pytest.approx(2 * whole.kind("alu").cycles)
    assert half.kind("alu").latency == whole.kind("alu").latency


@pytest.mark.parametrize("name", ["cloud-epyc-genoa", "server-hbm", "cloud-epyc-7763", "cloud-xeon-platinum-8370c-280"])
def test_a_sibling_has_half_the_ways_of_all_sets(name):
    machine = find_machine(name)
    *own, last = machine.hierarchy
    *shared, common = beside_sibling(machine).hierarchy
    assert [level.sets for level in shared] == [level.sets for level in own]
    assert [2 * level.ways for level in shared] == [level.ways for level in own]
    assert common == last


def test_samples_that_hold_a_machines_sets_hold_its_siblings():
    machine = find_machine("cloud-epyc-7763")
    assert all(fits_sets(one, 64) for one in targets([machine, beside_sibling(machine)]))


def test_each_thread_of_every_core_can_load_and_store():
    for table in core_tables().values():
        half = table.shared_by(2)
        assert half.memory.load
        assert half.memory.store
        assert min(value for name, value in half.params.items() if table.params[name]) > 0

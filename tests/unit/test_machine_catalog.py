"""Machines by name and by path, and what the operating system reports."""

import json
import shutil
from pathlib import Path

import pytest

from convolver.errors import MachineError, UnknownMachineError
from convolver.machine.catalog import find_machine, host_name, list_machines
from convolver.machine.profile import MachineProfile
from convolver.machine.this_machine import describe_cpu, read_hierarchy

DOCUMENT = {
    "schema": "convolver.machine",
    "version": 1,
    "name": "mine",
    "hierarchy": [{"level": "L1", "size_bytes": 32768, "ways": 8, "line_bytes": 64}],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("CONVOLVER_MACHINES", str(own))
    monkeypatch.chdir(tmp_path)
    return own


def put(folder, name, **changes):
    path = folder / f"{name}.machine.json"
    path.write_text(json.dumps({**DOCUMENT, "name": name, **changes}))
    return path


def test_a_machine_is_found_by_name_and_by_path(folder, tmp_path):
    path = put(folder, "mine")
    elsewhere = tmp_path / "any.json"
    shutil.copy(path, elsewhere)
    assert find_machine("mine") == find_machine(path) == find_machine(str(elsewhere))


def test_the_current_folder_hides_a_bundled_machine(folder, tmp_path):
    bundled = list_machines()[0].name
    put(tmp_path, bundled, provenance={"note": "local"})
    assert find_machine(bundled).provenance == {"note": "local"}


def test_host_finds_the_profile_under_this_machines_name(folder):
    put(folder, host_name())
    assert find_machine("host").name == host_name()


def test_host_without_a_profile_says_to_probe(folder):
    with pytest.raises(UnknownMachineError, match="convolver probe"):
        find_machine("host")


@pytest.mark.parametrize("name", ["nowhere", "no/such/file", "none.machine.json"])
def test_an_unknown_machine_is_refused_with_advice(folder, name):
    with pytest.raises(UnknownMachineError) as caught:
        find_machine(name)
    assert name in str(caught.value)


@pytest.mark.parametrize("names", ["a,b", "a.machine.json,b"])
def test_several_names_at_once_are_refused_with_advice(folder, names):
    with pytest.raises(UnknownMachineError, match=f"'{names}' are several machines; repeat the option"):
        find_machine(names)


def test_a_measured_machine_and_two_or_more_projected_ones_are_bundled_and_say_which_they_are(folder):
    bundled = [find_machine(entry.name) for entry in list_machines()]
    assert sum(machine.projected for machine in bundled) >= 2
    assert not all(machine.projected for machine in bundled)
    for machine in bundled:
        assert machine.provenance["measured"] is not machine.projected


def test_this_machine_reports_a_hierarchy_that_grows_outwards():
    levels = read_hierarchy(0)
    sizes = [level.size_bytes for level in levels]
    assert levels[0].level == "L1"
    assert sizes == sorted(sizes)
    assert MachineProfile(name="m", hierarchy=levels).hierarchy_id


def cache(root, index, **files):
    folder = root / "cpu0" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def test_instruction_caches_are_left_out_and_strange_reports_are_made_possible(tmp_path):
    cache(tmp_path, 0, level=1, type="Data", size="32K", ways_of_associativity=8, coherency_line_size=64)
    cache(tmp_path, 1, level=1, type="Instruction", size="32K", ways_of_associativity=8, coherency_line_size=64)
    cache(tmp_path, 2, level=2, type="Unified", size="512K", ways_of_associativity=0, coherency_line_size=64)
    cache(tmp_path, 3, level=3, type="Unified", size="16384K", ways_of_associativity=255, coherency_line_size=64)
    levels = read_hierarchy(0, root=tmp_path)
    assert [level.level for level in levels] == ["L1", "L2", "L3"]
    assert [level.ways for level in levels] == [8, 16, 64]


def test_a_machine_whose_kernel_reports_no_caches_is_an_error(tmp_path):
    with pytest.raises(MachineError):
        read_hierarchy(0, root=Path(tmp_path))


def test_the_cpu_description_can_be_stored_as_json():
    described = describe_cpu(0)
    assert described["cpus"] >= 1
    assert described["page_bytes"] >= 4096
    assert json.loads(json.dumps(described)) == described

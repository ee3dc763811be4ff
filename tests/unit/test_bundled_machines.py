"""The machines that come with Convolver: measured ones and what is projected from one of them, all ready to predict."""

import pytest

from convolver.machine.catalog import find_machine
from convolver.machine.profile import MachineProfile
from tools.bundled_machines import FOLDER, MEASURED, PROJECTIONS, bundled, projected, write

FULL = [MEASURED, *(one.name for one in PROJECTIONS)]
CLOUD = ["cloud-epyc-genoa", "cloud-epyc-milan", "cloud-epyc-turin", "cloud-xeon-emerald"]
"""Measured in clouds; tests/bench/cloud makes them."""


def load(name):
    return MachineProfile.load(FOLDER / f"{name}.machine.json")


def test_every_bundled_machine_is_one_of_these():
    assert sorted(path.name.removesuffix(".machine.json") for path in FOLDER.glob("*.machine.json")) == sorted([*FULL, *CLOUD])


@pytest.mark.parametrize("name", [*FULL, *CLOUD])
def test_each_predicts_user_and_system_time_with_an_interval(name):
    machine = load(name)
    assert machine.name == name
    assert machine.calibration is not None
    assert machine.calibration.residuals
    assert {"page.few", "call.least", "start.process"} <= {cost.name for cost in machine.kernel}
    assert machine.core


def test_the_measured_one_says_when_and_how_and_not_where():
    machine = load(MEASURED)
    assert not machine.projected
    assert machine.provenance["measured"] is True
    assert machine.provenance["plan"] == "full"
    assert machine.provenance["created"].startswith("20")
    assert "host" not in machine.provenance
    assert bundled(machine) == machine


def test_the_others_are_what_the_stated_changes_make_of_it():
    for machine in projected(load(MEASURED)):
        kept = load(machine.name)
        assert kept.projected
        assert kept.provenance["measured"] is False
        assert kept.derived_from == {"name": MEASURED, "id": load(MEASURED).id}
        assert kept.id == machine.id
        assert any(kept.calibration.assumed)


def test_a_profile_is_written_readable_and_is_read_back(tmp_path):
    path = write(load("server-hbm"), tmp_path)
    assert path.read_text() == (FOLDER / path.name).read_text()
    assert find_machine(path) == load("server-hbm")

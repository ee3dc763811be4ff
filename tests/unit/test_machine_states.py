"""Machines in a state: as probed, with the last level to themselves, or as they usually are."""

import pytest

from convolver.errors import UsageError
from convolver.machine.catalog import find_machine
from convolver.machine.states import both_states


def test_a_machine_alone_has_its_whole_last_level():
    probed, alone = find_machine("cloud-epyc-milan"), find_machine("cloud-epyc-milan@alone")
    assert alone.hierarchy[-1].size_bytes == probed.hierarchy_reported[-1].size_bytes > probed.hierarchy[-1].size_bytes
    assert alone.hierarchy[:-1] == probed.hierarchy[:-1]
    assert alone.calibration.latency == probed.calibration.latency
    assert alone.name == "cloud-epyc-milan@alone"
    assert alone.projected


def test_a_measured_machine_is_known_in_two_states():
    profile = find_machine("cloud-epyc-milan")
    alone, other = both_states(profile, "alone")
    assert (alone.name, other) == ("cloud-epyc-milan@alone", profile)
    assert both_states(profile, "probed")[1].name == "cloud-epyc-milan@alone"
    assert both_states(find_machine("cloud-epyc-7r13"), "usual")[1] is None
    assert both_states(find_machine("desktop-32m"), "alone")[1] is None


def test_a_machine_of_a_choice_is_alone_or_as_usual():
    assert find_machine("cloud-epyc-milan@machine") == find_machine("cloud-epyc-milan@alone")
    assert find_machine("cloud-epyc-7r13@machine") == find_machine("cloud-epyc-7r13@usual")


def test_the_probed_state_is_the_profile_itself():
    assert find_machine("cloud-server@probed") == find_machine("cloud-server")


def test_a_derived_machine_is_known_as_it_usually_is():
    assert find_machine("cloud-epyc-7r13@usual") == find_machine("cloud-epyc-7r13")
    with pytest.raises(UsageError, match="as it usually is only"):
        find_machine("cloud-epyc-7r13@alone")


def test_a_machine_that_gets_what_it_reports_is_alone_already():
    assert find_machine("desktop-32m@alone") == find_machine("desktop-32m")


@pytest.mark.parametrize("state", ["usual", "busy", ""])
def test_a_state_that_nobody_knows_is_refused(state):
    with pytest.raises(UsageError):
        find_machine(f"cloud-server@{state}")


def test_a_path_may_hold_the_separator(tmp_path):
    path = tmp_path / "a@b.machine.json"
    find_machine("cloud-server").save(path)
    assert find_machine(path) == find_machine("cloud-server")
    assert find_machine(f"{path}@alone").hierarchy[-1].size_bytes > find_machine(path).hierarchy[-1].size_bytes

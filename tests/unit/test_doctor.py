"""``convolver doctor``: what is there, what is missing, how to get it, and the exit status."""

import json

from convolver.reporting import installation as doctor


def test_every_missing_part_names_the_command_that_gets_it_and_no_present_part_does():
    for check in doctor.checks():
        assert bool(check.get) == (not check.found), check


def test_an_empty_path_is_seen_as_missing_programs_with_their_packages(monkeypatch):
    monkeypatch.setenv("PATH", "")
    found = {check.part: check for check in doctor.checks()}
    assert not found["tracer"].found
    assert "valgrind" in found["tracer"].get
    assert found["mpicc"].get == "apt install libopenmpi-dev openmpi-bin"
    assert not doctor.ready(list(found.values()))


def test_the_verb_ends_with_status_4_and_says_what_to_get_where_a_needed_part_is_missing(monkeypatch, convolver):
    monkeypatch.setenv("PATH", "")
    result = convolver("doctor")
    assert result.returncode == 4
    assert "MISSING" in result.stdout
    assert "apt install" in result.stdout


def test_json_agrees_with_the_exit_status(convolver):
    result = convolver("doctor", "--json")
    document = json.loads(result.stdout)
    assert document["ready"] == (result.returncode == 0)
    assert {"part", "what_for", "needed", "found", "detail", "get"} == set(document["checks"][0])


def test_a_missing_optional_part_does_not_spoil_the_chain():
    parts = [doctor.Check("a", "", True, True, ""), doctor.Check("b", "", False, False, "", "apt install b")]
    assert doctor.ready(parts)

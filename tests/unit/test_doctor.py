"""``convolver doctor``: what is there, what is missing, how to get it, and the exit status."""

import json
import resource

import pytest

from convolver.reporting import installation as doctor
from convolver.tracing.native_engine import refusal


@pytest.fixture
def nothing(monkeypatch):
    """No program on the path, and too little address space for the native engine."""
    monkeypatch.setenv("PATH", "")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_every_missing_part_names_the_command_that_gets_it_and_no_present_part_does():
    for check in doctor.checks():
        assert bool(check.get) == (not check.found), check


def test_an_empty_path_is_seen_as_missing_programs_with_their_packages(nothing):
    found = {check.part: check for check in doctor.checks()}
    assert not found["tracer"].found
    assert "valgrind" in found["tracer"].get
    assert found["mpicc"].get == "apt install libopenmpi-dev openmpi-bin"
    assert "address space" in found["native engine"].detail
    assert not doctor.ready(list(found.values()))


@pytest.mark.skipif(refusal() is not None, reason="the native engine cannot run here")
def test_without_valgrind_the_native_engine_suffices(monkeypatch):
    monkeypatch.setenv("PATH", "")
    found = {check.part: check for check in doctor.checks()}
    assert not found["tracer"].found
    assert found["native engine"].found
    assert doctor.ready(list(found.values()))


def test_the_verb_ends_with_status_4_and_says_what_to_get_where_a_needed_part_is_missing(nothing, convolver):
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

"""What comparisons say in words."""

import pytest

from convolver.convolution.verdict import CANNOT_TELL, FASTER, SLOWER, base_check, beside_measured, from_to, run_check, verdict
from convolver.units import format_seconds


@pytest.mark.parametrize(
    ("ends", "words"),
    [((1.01, 1.4), FASTER), ((0.4, 0.99), SLOWER), ((0.62, 2.04), CANNOT_TELL), ((1.0, 1.2), CANNOT_TELL), (None, CANNOT_TELL)],
)
def test_only_an_interval_on_one_side_of_one_decides(ends, words):
    assert verdict(ends) == words


def test_an_asymmetric_interval_keeps_both_ends():
    assert from_to((0.88, 1.95)) == "0.88 to 1.95"


def document(measured):
    return {"measured_seconds": measured, "base": {"machine": "m", "seconds": 1.0, "interval_seconds": [0.9, 1.3]}}


def test_a_time_within_the_interval_passes():
    passed, sentence = base_check(document(1.25))
    assert passed
    assert "-20.0 %" in sentence


def test_cpu_time_alone_is_checked_where_the_usual_run_had_one_thread():
    scaled = document(1.25)
    scaled["base"] |= {"measured_elapsed_seconds": 1.3, "measured_cpus": 2, "scaling": [{"cores": 2}]}
    passed, sentence = base_check(scaled)
    assert passed
    assert sentence.startswith("Check on m: predicted 1 s")


@pytest.mark.parametrize("measured", [0.8, 2.0])
def test_a_time_outside_the_interval_fails_and_says_so(measured):
    passed, sentence = base_check(document(measured))
    assert not passed
    assert sentence.startswith("Check failed on m: predicted 1 s (900 ms to 1.3 s)")


def test_nothing_measured_is_no_check():
    assert base_check(document(None)) is None


FAILED = {**document(3.0), "extrapolated_share": 0.0, "complete": True}
QUIET = {"forks": 0, "threads": 0, "pages": {"anonymous": 5, "shared": 0, "windows": 0}}


@pytest.mark.parametrize(
    ("base", "system", "words"),
    [
        ({}, {"forks": 2}, "started 2 processes"),
        ({}, {"threads": 3}, "3 more threads"),
        ({"system_seconds": 0.4}, {"pages": {"anonymous": 7000}}, "40 % of the time is the kernel's, with 7,000 page faults"),
        ({"projected": True}, QUIET, "projected machine"),
        ({"machine": "m@alone"}, QUIET, "the base has its whole last level"),
        ({}, QUIET, "Neither the trace nor the machine shows a cause. Profile and measure again"),
    ],
)
def test_the_cause_of_a_failed_check_comes_from_the_trace(base, system, words):
    document = {**FAILED, "base": {**FAILED["base"], **base}}
    assert words in base_check(document, system).sentence


def test_what_was_seen_of_the_machine_comes_first():
    sentence = base_check(FAILED, {"threads": 1}, ["the core is shared"]).sentence
    assert "Possible causes: the core is shared; it ran 1 more thread" in sentence
    assert sentence.endswith("again on a quiet machine.")


def test_processes_that_were_not_traced_are_the_first_cause():
    sentence = base_check(FAILED, {"forks": 1}, ["the core is shared"]).sentence
    assert "causes: the program started 1 process, measured but not traced (--trace-children); the core is shared." in sentence


@pytest.mark.parametrize(("measured", "passed"), [(1.05, True), (80.0, False)])
def test_a_parallel_run_is_checked_within_the_relative_interval(measured, passed):
    document = {
        "base": "m",
        "base_seconds": 1.0,
        "measured_seconds": measured,
        "base_error": 1 / measured - 1,
        "seconds": 2.0,
        "interval_seconds": [1.8, 2.4],
    }
    assert run_check(document).passed == passed
    assert run_check(document).sentence.startswith("Check on m" if passed else "Check failed on m")


def threaded(wall, cpus, cores=2, **replayed):
    """A base of four threads that is predicted to take 2 s of CPU time, 1 s (0.9 s to 1.3 s) of elapsed time."""
    replay = {"seconds": 1.0, "interval_seconds": [0.9, 1.3], "cores": cores, "threads": 4, **replayed}
    base = {
        "machine": "m",
        "seconds": 2.0,
        "interval_seconds": [1.9, 2.2],
        "measured_elapsed_seconds": wall,
        "measured_cpus": cpus,
    }
    return {**FAILED, "measured_seconds": 3.0, "base": {**base, "elapsed": beside_measured(replay, wall, cpus)}}


@pytest.mark.parametrize(
    ("cores", "cpus", "compared"), [(2, 2, True), (4, 2, False), (2, 4, False), (4, 16, True), (64, 4, True), (1, 1, True)]
)
def test_elapsed_times_of_unequal_cores_are_not_compared(cores, cpus, compared):
    found = threaded(2.0, cpus, cores)["base"]["elapsed"]
    assert (found["measured_seconds"], found["error"], found["within_interval"]) == (
        (2.0, -0.5, False) if compared else (None,) * 3
    )


@pytest.mark.parametrize(("wall", "passed"), [(1.25, True), (0.8, False), (1.4, False)])
def test_programs_with_threads_are_checked_by_elapsed_time(wall, passed):
    found = base_check(threaded(wall, 2))
    assert found.passed == passed
    start = "Check on m" if passed else "Check failed on m"
    assert found.sentence.startswith(f"{start}: elapsed time predicted 1 s (900 ms to 1.3 s), measured {format_seconds(wall)} (")
    assert "CPU time: predicted 2 s (1.9 s to 2.2 s), measured 3 s (-33.3 %), outside its interval." in found.sentence


def test_elapsed_time_on_other_cores_leaves_cpu_time_to_check():
    found = base_check(threaded(1.0, 2, cores=4))
    assert not found.passed
    assert found.sentence.startswith("Check failed on m: CPU time predicted 2 s (1.9 s to 2.2 s), measured 3 s (-33.3 %).")
    assert "Elapsed time is not checked: it is predicted for 4 cores and was measured on 2 CPUs." in found.sentence


@pytest.mark.parametrize(
    ("cores", "replayed", "words"),
    [
        (4, {}, "threads that spin while they wait take CPU time"),
        (2, {}, "Neither the trace nor the machine shows a cause"),
        (2, {"spin_loops": [{"name": "play (spin.c:8)", "seconds": 1.0}]}, "wait in a loop of the program, play (spin.c:8)"),
        (2, {"forced_waits": 3}, "3 waits of threads"),
    ],
)
def test_causes_of_a_failed_check_come_from_the_replay(cores, replayed, words):
    sentence = base_check(threaded(3.0, 2, cores, **replayed), {"threads": 3}).sentence
    assert words in sentence
    assert "more threads" not in sentence

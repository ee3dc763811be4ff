"""What comparisons say in words."""

import pytest

from convolver.convolution.verdict import CANNOT_TELL, FASTER, SLOWER, base_check, from_to, run_check, verdict


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

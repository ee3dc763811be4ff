"""What comparisons say in words."""

import pytest

from convolver.convolution.verdict import CANNOT_TELL, FASTER, SLOWER, base_check, from_to, verdict


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

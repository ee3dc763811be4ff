"""What a traced run reports of its progress: known totals of the stream, by sampling plan."""

from __future__ import annotations

import numpy as np
import pytest

from convolver.tracing.pace import Pace
from convolver.tracing.sampling import SamplingPlan

TOTALS = {"words": 900, "intervals": 0, "windows": 4, "window_references": 700, "set_references": 50}


class Seen:
    """A progress that remembers."""

    def __init__(self):
        self.total, self.unit, self.done, self.open = None, "", 0.0, False

    def start(self, label, total=None, unit=""):
        self.total, self.unit, self.open = total, unit, True

    def advance(self, amount, note=""):
        assert amount >= 0
        self.done += amount

    def finish(self):
        self.open = False


def paced(plan, totals, expected=1000, counters=b""):
    seen = Seen()
    pace = Pace(plan, seen, expected, lambda: counters)
    pace.start("Tracing")
    for one in totals:
        pace.advance(one)
    return seen


@pytest.mark.parametrize(
    ("plan", "done"),
    [
        (SamplingPlan(interval=100, sample=10), 300),  # the fourth window began after three whole intervals
        (SamplingPlan(interval=0, sample=0, sets=8), 400),
        (SamplingPlan(mode="full"), 700),
        (SamplingPlan(interval=100, sample=10, phase=(1, 4)), 300),  # windows count all references, recorded or not
    ],
)
def test_executed_references_are_known_from_the_stream(plan, done):
    seen = paced(plan, [dict.fromkeys(TOTALS, 0), TOTALS, TOTALS])
    assert (seen.done, seen.total, seen.unit) == (done, 1000, "references")


def test_without_an_earlier_pass_there_is_a_rate_and_no_end():
    seen = paced(SamplingPlan(), [TOTALS], expected=None)
    assert (seen.total, seen.unit) == (None, "references")


@pytest.mark.parametrize("part", [{"phase": (1, 2)}, {"blocks": (("/bin/x", 0, 9),)}, {"block_limit": 5}])
def test_of_a_part_of_the_code_only_words_are_known(part):
    seen = paced(SamplingPlan(mode="full", **part), [TOTALS])
    assert (seen.done, seen.total, seen.unit) == (900, None, "words")


def test_exact_counts_alone_show_executed_segments():
    seen = paced(SamplingPlan(mode="counts"), [TOTALS, TOTALS], counters=np.array([5, 7], dtype="<u8").tobytes() + b"cut")
    assert (seen.done, seen.total, seen.unit) == (12, None, "code segments")

"""How far a traced run has come: what the terminal shows while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from convolver.progress import Progress
from convolver.tracing.sampling import SamplingPlan

COUNTERS_SECONDS = 1.0
"""How often the counters are summed up where the stream holds no addresses."""


class Pace:
    """Reports executed memory references with their rate, and the remaining time where their number is known.

    ``expected``: the references of the whole run, counted by an earlier one of the same command; None: unknown. ``counters``
    returns the execution counters as they are now. In bursts the number of windows says how many references were executed, in
    set samples about as many as were recorded times the sets, in a full stream those that came; where no address is recorded,
    executed code segments are counted, and of parts of the code only the words that came are known: both without a remaining
    time.
    """

    def __init__(self, plan: SamplingPlan, progress: Progress, expected: int | None, counters: Callable[[], bytes]) -> None:
        self._plan, self._progress, self._expected, self._counters = plan, progress, expected, counters
        self._seen = self._segments = 0
        self._summed = 0.0

    @property
    def unit(self) -> str:
        """What is counted."""
        if self._plan.mode == "counts":
            return "code segments"
        partly = self._plan.bursts_only or self._plan.phase or self._plan.blocks or self._plan.block_limit
        bursts = self._plan.mode == "sample" and self._plan.interval and self._plan.sample
        return "references" if (bursts and not self._plan.bursts_only) or not partly else "words"

    def start(self, label: str) -> None:
        """Begin the step."""
        self._progress.start(label, total=self._expected if self.unit == "references" else None, unit=self.unit)

    def advance(self, totals: Mapping[str, int]) -> None:
        """Report what was decoded so far."""
        done = max(self._done(totals), self._seen)
        self._progress.advance(done - self._seen)
        self._seen = done

    def finish(self) -> None:
        """End the step."""
        self._progress.finish()

    def _done(self, totals: Mapping[str, int]) -> int:
        if self.unit == "words":
            return totals["words"]
        if self.unit != "references":
            return self._executed_segments()
        if self._plan.mode == "full":
            return totals["window_references"]
        if self._plan.interval and self._plan.sample:
            return max(totals["intervals"], totals["windows"], 1) * self._plan.interval - self._plan.interval
        return totals["set_references"] * self._plan.sets

    def _executed_segments(self) -> int:
        if time.monotonic() - self._summed > COUNTERS_SECONDS:
            counters = self._counters()
            self._segments = int(np.frombuffer(counters[: len(counters) // 8 * 8], dtype="<u8").sum())
            self._summed = time.monotonic()
        return self._segments

"""From samples to a number: centre, spread, and whether to trust it.

Disturbances only ever add time, and they come in bursts that outlast a point. So each round is summarised by its 10th percentile
(which survives a burst shorter than the round) and the rounds by their minimum (which survives one that is longer).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

_STABLE_SPREAD = 0.05


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the probe binary: one point in one round."""

    kernel: str
    working_set_bytes: int
    threads: int
    references: int
    rejected: int
    interval: float
    precise: bool
    cycle_seconds: float
    elapsed_seconds: float
    samples_seconds: tuple[float, ...]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The rounds of one point combined."""

    seconds: float
    spread: float
    stable: bool
    rounds_seconds: tuple[float, ...]
    samples_seconds: tuple[float, ...]
    references: int
    rejected: int


def low_percentile(samples: Sequence[float]) -> float:
    """Return the 10th percentile (the lowest sample of fewer than ten)."""
    return sorted(samples)[len(samples) // 10]


def combine(rounds: Sequence[Line]) -> Summary:
    """Combine the rounds of one point; ``rounds`` must not be empty.

    ``spread`` is the relative distance of the second best round from the best, or the confidence interval of the only one.
    """
    centres = [low_percentile(line.samples_seconds) for line in rounds]
    best = rounds[centres.index(min(centres))]
    ordered = sorted(centres)
    spread = ordered[1] / ordered[0] - 1 if len(ordered) > 1 else max(best.interval, 0.0)
    return Summary(
        seconds=ordered[0],
        spread=round(spread, 5),
        stable=spread < _STABLE_SPREAD and (best.precise or 0 <= best.interval < _STABLE_SPREAD),
        rounds_seconds=tuple(centres),
        samples_seconds=tuple(sample for line in rounds for sample in line.samples_seconds),
        references=best.references,
        rejected=sum(line.rejected for line in rounds),
    )

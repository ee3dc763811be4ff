"""From samples to a number: centre, spread, and whether to trust it.

Disturbances only ever add time, and they come in bursts that outlast a point. So each round is summarised by its 10th percentile
(which survives a burst shorter than the round) and the rounds by their minimum (which survives one that is longer).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

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


def by_point(lines: Iterable[Line]) -> dict[tuple[str, int, int], list[Line]]:
    """Return the rounds of each point by (kernel, threads, working set); rounds without an accepted sample are left out."""
    rounds: dict[tuple[str, int, int], list[Line]] = defaultdict(list)
    for line in lines:
        if line.samples_seconds:
            rounds[line.kernel, line.threads, line.working_set_bytes].append(line)
    return rounds


def spread(rounds: Sequence[Line]) -> float:
    """Return how far, relative to it, the second best round lies from the best; infinite for a single one."""
    best = sorted(low_percentile(line.samples_seconds) for line in rounds)[:2]
    return best[1] / best[0] - 1 if len(best) == 2 else math.inf


def is_settled(rounds: Sequence[Line], tolerance: float) -> bool:
    """Tell whether the two best rounds agree: then the lower one is no accident, and neither has a longer disturbance."""
    return spread(rounds) <= tolerance


def combine(rounds: Sequence[Line]) -> Summary:
    """Combine the rounds of one point; ``rounds`` must not be empty.

    ``spread`` is the relative distance of the second best round from the best, or the confidence interval of the only one.
    """
    centres = [low_percentile(line.samples_seconds) for line in rounds]
    best = rounds[centres.index(min(centres))]
    apart = spread(rounds) if len(rounds) > 1 else best.interval
    return Summary(
        seconds=min(centres),
        spread=round(max(apart, 0.0), 5),
        stable=0 <= apart < _STABLE_SPREAD,
        rounds_seconds=tuple(centres),
        samples_seconds=tuple(sample for line in rounds for sample in line.samples_seconds),
        references=best.references,
        rejected=sum(line.rejected for line in rounds),
    )

"""From samples to a number: center, spread, and whether to trust it.

Disturbances only ever add time, and they come in bursts that outlast a point. So each round is summarized by its 10th percentile
(which survives a burst shorter than the round) and the rounds by their minimum (which survives one that is longer).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from convolver.probing.moments import STABLE_SPREAD, alone_limit, quietest


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the probe binary: one point in one round. ``clocks_seconds`` are those of a core's cycle around each sample,
    ``witness_cycles`` those of a taken branch there, twice as many while another thread runs on the core."""

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
    clocks_seconds: tuple[float, ...] = ()
    witness_cycles: tuple[float, ...] = ()


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The rounds of one point combined."""

    seconds: float
    spread: float
    stable: bool
    rounds_seconds: tuple[float, ...]
    samples_seconds: tuple[float, ...]
    references: int
    rejected: int


def judged(lines: Iterable[Line]) -> list[Line]:
    """Return the lines of a whole run with those samples only during which nothing else ran on the core.

    A line none of whose samples count is left out, unless its point has no other: then the one that was disturbed least stays,
    alone, so that its point does not settle. Points of several threads are not judged: the probe itself keeps the core busy.
    """
    lines = list(lines)
    limit = alone_limit(each for line in lines if line.threads == 1 for each in line.witness_cycles)
    if not limit:
        return lines
    found: list[Line] = []
    for rounds in _by_key(lines).values():
        kept = [one for one in (_quiet(line, limit) for line in rounds) if one.samples_seconds]
        found += kept or [min(rounds, key=lambda line: min(line.witness_cycles, default=math.inf))]
    return found


def _quiet(line: Line, limit: float) -> Line:
    good = [index for index, each in enumerate(line.witness_cycles) if each <= limit]
    if line.threads > 1 or not line.witness_cycles or len(good) == len(line.witness_cycles):
        return line
    samples, clocks, looks = (
        tuple(values[index] for index in good) for values in (line.samples_seconds, line.clocks_seconds, line.witness_cycles)
    )
    rejected = line.rejected + len(line.samples_seconds) - len(good)
    return msgspec.structs.replace(line, samples_seconds=samples, clocks_seconds=clocks, witness_cycles=looks, rejected=rejected)


def _by_key(lines: Iterable[Line]) -> dict[tuple[str, int, int], list[Line]]:
    rounds: dict[tuple[str, int, int], list[Line]] = defaultdict(list)
    for line in lines:
        rounds[line.kernel, line.threads, line.working_set_bytes].append(line)
    return rounds


def steadied(lines: Iterable[Line], near_bytes: int) -> list[Line]:
    """Return the lines of a run (:func:`judged`) with the samples of near points (no memory, or at most ``near_bytes``) as if the
    clock had stood still.

    Registers and private caches run at the core's clock, which boosts in steps of 2 to 3 % for seconds at a time: the fastest
    round would say which step it met. Their samples are taken to the fastest clock that any line with as many threads saw, since
    that is the machine's own, where the usual one is the hour's; the last cache and memory have clocks of their own and stay as
    measured.
    """
    lines = judged(lines)
    best: dict[int, float] = {}
    for line in lines:
        best[line.threads] = min(best.get(line.threads, math.inf), line.cycle_seconds)
    return [_at(line, best[line.threads]) if line.working_set_bytes <= near_bytes else line for line in lines]


def _at(line: Line, cycle_seconds: float) -> Line:
    pairs = zip(line.samples_seconds, line.clocks_seconds, strict=True)
    return msgspec.structs.replace(line, samples_seconds=tuple(seconds * cycle_seconds / clock for seconds, clock in pairs))


def low_percentile(samples: Sequence[float]) -> float:
    """Return the 10th percentile (the lowest sample of fewer than ten)."""
    return sorted(samples)[len(samples) // 10]


def by_point(lines: Iterable[Line]) -> dict[tuple[str, int, int], list[Line]]:
    """Return the rounds of each point by (kernel, threads, working set); rounds without an accepted sample are left out."""
    return _by_key(line for line in lines if line.samples_seconds)


def spread(rounds: Sequence[Line]) -> float:
    """Return how far, relative to it, the second best round lies from the best; infinite for a single one."""
    return quietest(_centers(rounds))[1] if len(rounds) > 1 else math.inf


def _centers(rounds: Sequence[Line]) -> list[float]:
    return [low_percentile(line.samples_seconds) for line in rounds]


def is_settled(rounds: Sequence[Line], tolerance: float) -> bool:
    """Tell whether the two best rounds agree: then the lower one is no accident, and neither has a longer disturbance."""
    return spread(rounds) <= tolerance


def combine(rounds: Sequence[Line]) -> Summary:
    """Combine the rounds of one point; ``rounds`` must not be empty.

    ``spread`` is the relative distance of the second best round from the best, or the confidence interval of the only one.
    """
    centers = _centers(rounds)
    best = rounds[centers.index(min(centers))]
    apart = spread(rounds) if len(rounds) > 1 else best.interval
    return Summary(
        seconds=min(centers),
        spread=round(max(apart, 0.0), 5),
        stable=0 <= apart < STABLE_SPREAD,
        rounds_seconds=tuple(centers),
        samples_seconds=tuple(sample for line in rounds for sample in line.samples_seconds),
        references=best.references,
        rejected=sum(line.rejected for line in rounds),
    )

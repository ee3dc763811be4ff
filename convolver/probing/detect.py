"""Where the caches end, seen from the latencies of a pointer chase.

The logarithm of the latency over the working set is a staircase. Dynamic programming finds the piecewise constant curve with the
least squared error for each number of steps; the largest number whose steps are all real wins. Operating systems report
capacities that one virtual machine never gets, so the edges are worth more than the reports where the two disagree widely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from convolver.machine.hierarchy import Level, resized
from convolver.machine.maps import Curve
from convolver.machine.profile import DetectedLevel

_LEAST_STEP = 1.4  # a level at least this much slower than the one before; page walks alone rise more gently
_LEAST_POINTS = 2
_DISAGREEMENT = 2.0
_SURE = 0.4
_WALKS = ("chase", "chase_2", "chase_4", "chase_8", "random_load")
"""Kernels that visit lines in random order and so find the share of them that a cache holds."""
_LEAST_WALKS = 2
_LEAST_RAMP = 4


def segment(values: Sequence[float], count: int) -> list[int]:
    """Return the first index of each of ``count`` segments with the least squared distance from their means.

    Every segment holds at least two values; the result is empty when there are too few.
    """
    n = len(values)
    if n < count * _LEAST_POINTS:
        return []
    sums, squares = [0.0], [0.0]
    for value in values:
        sums.append(sums[-1] + value)
        squares.append(squares[-1] + value * value)

    def error(first: int, end: int) -> float:
        total = sums[end] - sums[first]
        return squares[end] - squares[first] - total * total / (end - first)

    best: list[list[tuple[float, int]]] = [[(0.0 if end == 0 else math.inf, 0) for end in range(n + 1)]]
    for _ in range(count):
        previous, row = best[-1], [(math.inf, 0)] * (n + 1)
        for end in range(_LEAST_POINTS, n + 1):
            row[end] = min((previous[first][0] + error(first, end), first) for first in range(end - _LEAST_POINTS + 1))
        best.append(row)
    starts, end = [], n
    for row in reversed(best[1:]):
        end = row[end][1]
        starts.append(end)
    return starts[::-1]


def _deviation(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)


def _confidence(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the share of the two segments' variation that the edge between them explains."""
    whole = _deviation([*left, *right])
    return 1 - (_deviation(left) + _deviation(right)) / whole if whole > 0 else 0.0


def detect_levels(curve: Curve, most_levels: int = 3) -> tuple[DetectedLevel, ...]:
    """Return the capacities at which a chase curve rises, nearest first, named L1, L2, ...; at most ``most_levels``."""
    values = [math.log(point.seconds_per_reference) for point in curve.points]
    sizes = [point.working_set_bytes for point in curve.points]
    for count in range(most_levels + 1, 1, -1):
        starts = segment(values, count)
        pieces = [values[first:end] for first, end in pairwise([*starts, len(values)])]
        means = [sum(piece) / len(piece) for piece in pieces]
        if starts and all(right - left >= math.log(_LEAST_STEP) for left, right in pairwise(means)):
            return tuple(
                DetectedLevel(
                    level=f"L{index}",
                    size_bytes=round(math.sqrt(sizes[start - 1] * sizes[start])),
                    low_bytes=sizes[start - 1],
                    high_bytes=sizes[start],
                    confidence=round(_confidence(pieces[index - 1], pieces[index]), 3),
                )
                for index, start in enumerate(starts[1:], 1)
            )
    return ()


def _capacity(curve: Curve, inner_bytes: int) -> float | None:
    """Return the capacity beyond ``inner_bytes`` that explains the rise to memory; None where the curve does not rise.

    In a cache of C bytes a random walk over w > C bytes finds the share C / w, so its time is mem - (mem - hit) C / w. Each point
    on the ramp gives a C; their median is what the whole ramp says, where an edge would jump with the noise of single points.
    """
    seconds = [point.seconds_per_reference for point in curve.points]
    sizes = [point.working_set_bytes for point in curve.points]
    after = [value for value, size in zip(seconds, sizes, strict=True) if size >= 2 * inner_bytes]
    if len(after) < _LEAST_RAMP:
        return None
    hit, memory = min(after[: len(after) // 2 + 1]), median(sorted(seconds[-2:]))
    if memory < _LEAST_STEP * hit:
        return None
    found = [
        size * (memory - value) / (memory - hit)
        for value, size in zip(seconds, sizes, strict=True)
        if size >= 2 * inner_bytes and 0.15 <= (value - hit) / (memory - hit) <= 0.85
    ]
    return median(found) if found else None


def detect_all(maps: Sequence[Curve], most_levels: int = 3) -> tuple[DetectedLevel, ...]:
    """Return the capacities that the single-thread curves of a machine show: inner levels by the chase's edges, the last level by
    what every random walk says of it.

    The walks differ in how often they come back to a line, and a cache that is shared keeps more of what is used more often. So
    the median of them stands, ``low_bytes`` and ``high_bytes`` are their extremes, and the confidence falls with their distance:
    1 where all agree, 0.5 where the extremes lie an octave apart on either side.
    """
    alone = {curve.kernel: curve for curve in maps if curve.threads == 1}
    if "chase" not in alone:
        return ()
    levels = detect_levels(alone["chase"], most_levels)
    if len(levels) < 2:
        return levels
    last, inner = levels[-1], levels[-2].size_bytes
    walks = [alone[name] for name in _WALKS if name in alone]
    found = sorted(size for curve in walks if (size := _capacity(curve, inner)) is not None)
    if len(found) < _LEAST_WALKS:
        return levels
    octaves = math.log2(found[-1] / found[0]) / 2
    middle = DetectedLevel(
        level=last.level,
        size_bytes=round(median(found)),
        low_bytes=round(found[0]),
        high_bytes=round(found[-1]),
        confidence=round(1 / (1 + octaves), 3),
    )
    return (*levels[:-1], middle)


def _rounded(size_bytes: float) -> int:
    """Return the nearest size with three significant binary digits, so that two probes of a machine agree on its geometry."""
    step = 2 ** (math.floor(math.log2(size_bytes)) - 2)
    return int(round(size_bytes / step) * step)


def effective_hierarchy(reported: Sequence[Level], detected: Sequence[DetectedLevel]) -> tuple[Level, ...]:
    """Return the hierarchy to simulate: as reported, but with the detected size of the last level where that is far smaller.

    Far means by more than a factor of two, and the detection must have found every level and be sure of this one. Associativity
    and line size stay as reported. A level is never made smaller than twice the one before it: on a busy machine the edge of the
    last level can drown in the noise of the one before.
    """
    if len(detected) != len(reported):
        return tuple(reported)
    last, seen = reported[-1], detected[-1]
    if seen.confidence < _SURE or seen.size_bytes * _DISAGREEMENT > last.size_bytes:
        return tuple(reported)
    least = 2 * reported[-2].size_bytes if len(reported) > 1 else 0
    return (*reported[:-1], resized(last, _rounded(max(seen.size_bytes, least))))

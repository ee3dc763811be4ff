"""From MAPS curves to costs: what a reference that hits the first level costs, and what a line brought from farther away adds.

A probe kernel touches every line in a known way, so its curve can be taken apart. With ``s(w)`` the measured seconds per
reference at working set ``w`` and ``n(w, k)`` the lines per reference that level ``k`` (a farther cache, or memory) serves there,

    s(w) = reference_seconds + sum over k of n(w, k) * line_seconds[k],

solved from the nearest level outwards, each by the median over the points well inside it. So a kernel that is convolved with its
own hit rates gets its own measured time back. ``n`` follows from the kernel alone, for LRU caches: a cyclic walk (unit, strided,
chase) misses every line once its working set exceeds a level; a random walk finds the share of its lines that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from convolver.machine.hierarchy import Level
from convolver.machine.maps import MEMORY, Curve, Point, plateau, working_set_range

Lines = Callable[[float], Sequence[float]]
"""From a working set in bytes to the lines per reference that each farther level serves (caches 2..n, then memory)."""


class PatternCost(NamedTuple):
    """Costs in one access pattern, in seconds. Lists run over the farther levels: caches 2..n, then memory.

    ``reference_error`` and ``line_errors`` are half widths that follow from the spread of the curve's points;
    ``extrapolated`` marks levels in which no point was measured.
    """

    kernel: str
    reference_seconds: float
    line_seconds: tuple[float, ...]
    reference_error: float
    line_errors: tuple[float, ...]
    extrapolated: tuple[bool, ...]


def cyclic_lines(levels: Sequence[Level], lines_per_reference: float) -> Lines:
    """Return the lines of a kernel that walks its working set again and again in one order: LRU keeps all of it or nothing."""

    def lines(working_set_bytes: float) -> list[float]:
        sizes = [level.size_bytes for level in levels]
        home = sum(size < working_set_bytes for size in sizes)
        return [lines_per_reference if index + 1 == home else 0.0 for index in range(len(levels))]

    return lines


def random_lines(levels: Sequence[Level]) -> Lines:
    """Return the lines of a kernel that draws one line a reference uniformly from its working set."""

    def lines(working_set_bytes: float) -> list[float]:
        kept = [min(1.0, level.size_bytes / working_set_bytes) for level in levels] + [1.0]
        return [max(0.0, far - near) for near, far in pairwise(kept)]

    return lines


def kernel_lines(curve: Curve, levels: Sequence[Level]) -> Lines:
    """Return how the kernel of a curve moves lines; its pattern says so."""
    line_bytes = levels[0].line_bytes
    if curve.pattern == "random":
        return random_lines(levels)
    if curve.pattern in ("unit", "stride"):
        step = max(curve.width_bytes, curve.stride_bytes)
        return cyclic_lines(levels, min(1.0, step / line_bytes))
    return cyclic_lines(levels, 1.0)


def pattern_cost(curve: Curve, levels: Sequence[Level]) -> PatternCost:
    """Take a curve apart (see the head of this file). Line costs are never negative and never fall from one level to the next."""
    nearest = plateau(curve, levels, levels[0].level)
    lines = kernel_lines(curve, levels)
    costs: list[float] = []
    errors: list[float] = []
    guessed: list[bool] = []
    for index, name in enumerate([*(level.level for level in levels[1:]), MEMORY]):
        points, extrapolated = _points_inside(curve, levels, name)
        solved = [_solve(point, nearest.seconds_per_reference, lines, costs, index) for point in points]
        value = median(cost for cost, _ in solved)
        costs.append(max(value, costs[-1] if costs else 0.0))
        errors.append(max(error for _, error in solved))
        guessed.append(extrapolated)
    return PatternCost(
        kernel=curve.kernel,
        reference_seconds=nearest.seconds_per_reference,
        line_seconds=tuple(costs),
        reference_error=nearest.seconds_per_reference * nearest.spread,
        line_errors=tuple(errors),
        extrapolated=tuple(guessed),
    )


def _solve(point: Point, reference_seconds: float, lines: Lines, nearer: Sequence[float], index: int) -> tuple[float, float]:
    """Return cost and error of one line from level ``index`` by one point, given the costs of the nearer levels."""
    served = lines(point.working_set_bytes)
    rest = point.seconds_per_reference - reference_seconds - sum(n * cost for n, cost in zip(served, nearer, strict=False))
    return rest / served[index], point.seconds_per_reference * point.spread / served[index]


def _points_inside(curve: Curve, levels: Sequence[Level], name: str) -> tuple[list[Point], bool]:
    """Return the points of a level that stand for it, and whether they had to be made up.

    A level that no point lies in is read off the curve at the middle of its range; memory beyond the last point takes that point,
    as if it lay twice beyond the last level.
    """
    low, high = working_set_range(levels, name)
    inside = [point for point in curve.points if low <= point.working_set_bytes <= high]
    if inside and name == MEMORY:
        inside = [point for point in inside if 2.02 * point.working_set_bytes >= inside[-1].working_set_bytes]
    if inside:
        return inside, False
    middle = low if name == MEMORY else (low * high) ** 0.5
    rate = curve.at(middle)
    return [
        Point(working_set_bytes=int(middle) + 1, seconds_per_reference=rate.seconds_per_reference, spread=rate.spread)
    ], rate.extrapolated

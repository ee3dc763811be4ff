"""The front end of a core: what taken branches and lines of code cost, and how many of them it has near.

The probe makes rows of jumps, each to the next. Few of them are followed at the core's best pace; more than its nearest table of
targets holds, at that of the table after; more lines of code than the first level holds, at that of the second level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from convolver.machine.core_figures import CoreFigure

JUMPS, CROWDED, LINES = "front.jumps", "front.crowded", "front.lines"
"""What the probe is asked for: jumps 16 bytes apart, 8 bytes apart, and one a line."""
FEW, MANY = 64, 1536
"""Jumps that any core has near, and that no nearest table holds; their code fits into any first level."""
MANY_LINES = 2560
"""Lines of code that no first level holds."""
STEP, LINE_STEP = 16, 64
APART = 1.3
"""Many take at least this many times as long as few, or nothing is known of where they part."""
SHARE, LINE_SHARE = 0.15, 0.5
"""Of the way from few to many, from which on a count no longer fits: tables of targets do not forget all at once."""

Cycles = Callable[[str, int], Sequence[float]]
"""Sorted samples of the cycles of one jump, by kind and number."""
Capacity = Callable[[Callable[[int], bool], int, int], int | None]


def front_figures(cycles: Cycles, capacity: Capacity) -> list[CoreFigure | None]:
    """Return ``front.near``, ``front.crowded``, ``front.far`` and ``front.line`` in cycles of a jump, ``front.targets`` in
    jumps and ``front.code`` in lines; None for what does not show."""
    few, many, lines = (list(cycles(*asked)) for asked in ((JUMPS, FEW), (JUMPS, MANY), (LINES, MANY_LINES)))
    if not few or not many or not lines:
        return []
    # A line costs at least what the target of its jump does, so lines are distinguished from jumps that are far.
    return [
        CoreFigure.of_samples("front.near", few),
        CoreFigure.of_samples("front.crowded", list(cycles(CROWDED, FEW))),
        CoreFigure.of_samples("front.far", many),
        CoreFigure.of_samples("front.line", lines),
        _size("front.targets", JUMPS, (few, many, SHARE), cycles, capacity, (STEP, MANY)),
        _size("front.code", LINES, (many, lines, LINE_SHARE), cycles, capacity, (LINE_STEP, MANY_LINES)),
    ]


def _size(
    name: str,
    kind: str,
    ends: tuple[Sequence[float], Sequence[float], float],
    cycles: Cycles,
    capacity: Capacity,
    counts: tuple[int, int],
) -> CoreFigure | None:
    few, many, share = ends
    step, most = counts
    if many[0] < APART * few[0]:
        return None
    limit = few[0] + share * (many[0] - few[0])
    found = capacity(lambda count: min(cycles(kind, count), default=0.0) > limit, step, most)
    return None if found is None else CoreFigure(name=name, value=float(found - step), low=float(found - step), high=float(found))

"""The loop buffer of a core: small loops that come round often are fetched no more, and their ends are mispredicted.

The probe makes loops of so many slots and turns. The end of a short one is known from the branches before it; one that the buffer
took over runs on beyond its end, which costs a misprediction (on an Intel server core: beyond 34 turns of up to about 40
slots, while the end of a larger loop is foreseen up to some 190 turns, the length of its history).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median, median_low

from convolver.machine.core_figures import FORESEEN, CoreFigure
from convolver.probing.front import Capacity, Cycles

SHORT, LONG = 16, FORESEEN
"""Turns that no buffer waits for, and that any has taken over; histories of branches are longer than both."""
STEADY = 400, 800
"""Turns between which a run grows by what a turn takes."""
MOST_SLOTS = 160
WRONG = 8.0
"""The least cycles of a misprediction."""
REPEATS = 3
LOOKS = 3
PASSES = 10
"""Sweeps over all counts of turns. The least of each count stands: a co-runner on the core's other thread only adds misses."""
MISSED = 0.7
"""Share of a misprediction from which on an end counts as missed. On that core ends after some 21 turns take a third of
it already, and beside a busy sibling more and more."""
ASTRAY = 3
"""Counts that may lie on the wrong side of the edge; where more do, there is none."""


def loop_figures(cycles: Cycles, capacity: Capacity) -> list[CoreFigure | None]:
    """Return ``front.loop``, the turns of a small loop whose end is still predicted, and ``front.loop_slots``, the slots of the
    largest loop whose end is not. Where long runs cost no more than short ones, all turns that were tried are predicted, and no
    size is missed; None for both where nothing is clear, or all sizes are missed."""

    def run(slots: int, turns: int) -> float:
        return min((cycle for _ in range(LOOKS) for cycle in cycles(f"loop.{slots}", turns)), default=0.0)

    def end(slots: int, turns: int) -> float:
        few, many = STEADY
        return run(slots, turns) - turns * (run(slots, many) - run(slots, few)) / (many - few)

    turns = _turns(cycles)
    if turns is None or turns.value >= LONG:
        return [turns, None]
    slots = _repeated(
        "front.loop_slots", lambda: capacity(lambda count: end(count, LONG) - end(count, SHORT) < WRONG, 1, MOST_SLOTS)
    )
    return [turns, slots] if slots else [None, None]


def _turns(cycles: Cycles) -> CoreFigure | None:
    """Return the count that parts foreseen ends from missed ones best; the interval holds those with twice as many astray."""
    counts = range(SHORT, LONG + 1)
    runs = dict.fromkeys((*counts, *STEADY), math.inf)
    for _ in range(PASSES):
        for count in runs:
            runs[count] = min(runs[count], *cycles("loop.1", count), math.inf)
    few, many = STEADY
    if max(runs.values()) == math.inf:
        return None
    turn = (runs[many] - runs[few]) / (many - few)
    ends = {count: runs[count] - count * turn for count in counts}
    usual = median(ends[count] for count in counts[:3])
    penalty = median(ends[count] for count in counts[-5:]) - usual
    if penalty < WRONG:
        return CoreFigure.exact("front.loop", LONG)
    missed = {count for count in counts if ends[count] - usual > MISSED * penalty}
    astray = {edge: sum((count > edge) != (count in missed) for count in counts) for edge in counts[:-1]}
    least = min(astray.values())
    if least > ASTRAY:
        return None
    best = median_low([edge for edge in astray if astray[edge] == least])
    near = [edge for edge in astray if astray[edge] <= 2 * least]
    return CoreFigure(name="front.loop", value=float(best), low=float(near[0]), high=float(near[-1]))


def _repeated(name: str, find: Callable[[], int | None]) -> CoreFigure | None:
    """Return the median of the largest counts before the one that was found, in several tries; None where one found none."""
    found = [count - 1 for count in (find() for _ in range(REPEATS)) if count is not None]
    if len(found) < REPEATS:
        return None
    return CoreFigure(name=name, value=float(median(found)), low=float(min(found)), high=float(max(found)))

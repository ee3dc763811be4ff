"""The loop buffer of a core: small loops that come round often are fetched no more, and their ends are mispredicted.

The probe makes loops of so many slots and turns. The end of a short one is known from the branches before it; one that the buffer
took over runs on behind its end, which costs a misprediction (on the Intel server core at hand: beyond 34 turns of up to about 40
slots, while the end of a larger loop is foreseen up to some 190 turns, the length of its history).
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from convolver.machine.core_figures import CoreFigure
from convolver.probing.front import Capacity, Cycles

SHORT, LONG = 16, 64
"""Turns that no buffer waits for, and that any has taken over; histories of branches are longer than both."""
STEADY = 400, 800
"""Turns between which a run grows by what a turn takes."""
MOST_SLOTS = 160
WRONG = 8.0
"""The least cycles of a misprediction."""
REPEATS = 3
LOOKS = 3


def loop_figures(cycles: Cycles, capacity: Capacity) -> list[CoreFigure | None]:
    """Return ``front.loop``, the turns of a small loop whose end is still predicted, and ``front.loop_slots``, the slots of the
    largest loop whose end is not; None for both where long runs cost no more than short ones, or all sizes do."""

    def run(slots: int, turns: int) -> float:
        return min((cycle for _ in range(LOOKS) for cycle in cycles(f"loop.{slots}", turns)), default=0.0)

    def end(slots: int, turns: int) -> float:
        few, many = STEADY
        return run(slots, turns) - turns * (run(slots, many) - run(slots, few)) / (many - few)

    usual, wrong = end(1, SHORT), end(1, LONG)
    if wrong - usual < WRONG:
        return [None, None]
    turns = _repeated("front.loop", lambda: capacity(lambda count: end(1, count) - usual > WRONG, 1, LONG))
    slots = _repeated(
        "front.loop_slots", lambda: capacity(lambda count: end(count, LONG) - end(count, SHORT) < WRONG, 1, MOST_SLOTS)
    )
    return [turns, slots] if turns and slots else [None, None]


def _repeated(name: str, find: Callable[[], int | None]) -> CoreFigure | None:
    """Return the median of the largest counts before the one that was found, in several tries; None where one found none."""
    found = [count - 1 for count in (find() for _ in range(REPEATS)) if count is not None]
    if len(found) < REPEATS:
        return None
    return CoreFigure(name=name, value=float(median(found)), low=float(min(found)), high=float(max(found)))

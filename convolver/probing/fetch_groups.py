"""How many slots a core fetches in a cycle, and whether a line of code ends what it fetches, from loops of so many slots.

The probe makes loops of instructions that need no port. A turn takes as long as its slots do by the issue width, and at least a
cycle for its taken branch; where the loop does not fit into what is fetched at once, a whole cycle more. A loop that lies in two
lines of code takes as long as one in a line unless lines are fetched one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from convolver.machine.core_figures import CoreFigure

LOOPS = "fetch."
"""What the samples of a turn are called: a number of slots in one line of code, or :data:`ACROSS`."""
ACROSS, WITHIN = "across", "6"
"""Loops of as many slots in two lines and in one."""
LATE = 1.06
"""Times what the width allows, from which on a turn waits for the front end."""
AT_ONCE = 1.8
"""Cycles of a turn that is fetched at once, at most."""
WHOLE = 0.1
"""A turn of two fetch groups lies so near to two cycles."""


def fetch_figures(loops: Mapping[str, Sequence[float]]) -> list[CoreFigure]:
    """Return ``front.within`` and ``front.across``, cycles of a turn of six slots in one line of code, where these are fetched at
    once, and in two, and ``front.fetch``, the slots fetched at once where more are seen to wait, from sorted samples."""
    within, across = (CoreFigure.of_samples(f"front.{name}", loops.get(name, ())) for name in (WITHIN, ACROSS))
    found = []
    if within is not None and across is not None and within.value < AT_ONCE:
        found = [msgspec.structs.replace(within, name="front.within"), across]
    cycles = {int(name): samples[len(samples) // 4] for name, samples in loops.items() if samples and name != ACROSS}
    slots = _slots(cycles)
    if slots:
        found.append(CoreFigure.exact("front.fetch", slots))
    return found


def _slots(cycles: Mapping[int, float]) -> int:
    """Return the most slots of a loop, of those from the smallest on, whose turn is as short as the width allows; 0 where the
    next larger one is not there, or does not take two cycles."""
    if not cycles:
        return 0
    width = max(slots / turn for slots, turn in cycles.items())
    slots = min(cycles)
    branch = cycles[slots]  # a cycle, or a sixth more in some runs of a Zen 3
    while slots in cycles and cycles[slots] < LATE * max(slots / width, branch):
        slots += 1
    return slots - 1 if branch < AT_ONCE and slots - 1 in cycles and abs(cycles.get(slots, 0.0) - 2) < WHOLE else 0

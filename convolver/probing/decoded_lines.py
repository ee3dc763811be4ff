"""The width of a core, and the entries in which its front end keeps decoded code, from lines of so many instructions.

The probe makes straight code of instructions that rename a register and need no port, so many in each line. A line takes as long
as its slots do by the issue width, unless the front end brings them later: where decoded code lies in entries of a line's next so
many slots, two of which come in a cycle, the width hides those of two entries, and lines of more show where entries end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from convolver.machine.core_figures import CoreFigure

LINES = "lines."
"""What figures of a line of so many instructions are called while they are samples."""
ENTRIES = range(4, 9)
"""Slots of an entry, of those that lines can hold four of."""
SAME = 0.02
"""Share by which times of a line may differ that are the same."""
LATE = 1.1
"""Times what the width allows, from which on a line waits for the front end."""
MORE = 1.03
"""Times that the last slot of an entry adds, at least."""


def line_figures(lines: Mapping[int, Sequence[float]]) -> list[CoreFigure]:
    """Return ``front.width``, the most slots a cycle, and ``front.entry``, the slots of an entry where the pattern is seen, from
    sorted samples of the cycles of a line by its instructions."""
    seen = {count: samples for count, samples in lines.items() if samples}
    if not seen:
        return []
    cycles = {count: samples[len(samples) // 4] for count, samples in seen.items()}
    best = max(cycles, key=lambda count: count / cycles[count])
    width = best / cycles[best]
    low, high = best / seen[best][len(seen[best]) // 2], best / seen[best][0]
    found = [CoreFigure(name="front.width", value=round(width, 3), low=round(low, 3), high=round(high, 3))]
    entries = [slots for slots in ENTRIES if _in_entries(slots, cycles, width)]
    if len(entries) == 1:
        found.append(CoreFigure.exact("front.entry", entries[0]))
    return found


def _in_entries(slots: int, cycles: Mapping[int, float], width: float) -> bool:
    """Two entries come at once, which the width hides; the third's slots add time, and the fourth comes with the third."""
    two, third, before, fourth, more = (
        cycles.get(count) for count in (2 * slots, 3 * slots, 3 * slots - 1, 4 * slots, 4 * slots + 2)
    )
    if two is None or third is None or before is None or fourth is None:
        return False
    return (
        two < (1 + SAME) * max(2 * slots / width, 1)
        and third > LATE * 3 * slots / width
        and third > MORE * before
        and fourth < (1 + SAME) * max(third, 4 * slots / width)
        and (more is None or more > MORE * fourth)
    )

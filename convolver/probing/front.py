"""The front end of a core: its width, what taken branches and lines of code cost, and how much of them it has near.

Tables of targets: the probe makes rows of jumps, each to the next. Few of them are followed at the core's best pace; more than
its nearest table of targets holds, at that of the table after; more lines of code than the first level holds, at that of the
second level.

Width and entries of decoded code: straight code of instructions that rename a register and need no port, so many in each line. A
line takes as long as its slots do by the issue width, unless the front end brings them later: where decoded code lies in entries
of a line's next so many slots, two of which come in a cycle, the width hides those of two entries, and lines of more show where
entries end.

What is fetched at once: loops of instructions that need no port. A turn takes as long as its slots do by the issue width, and at
least a cycle for its taken branch; where the loop does not fit into what is fetched at once, a whole cycle more. A loop that lies
in two lines of code takes as long as one in a line unless lines are fetched one after the other.

The loop buffer, from which small loops that come round often run: loops of so many slots and turns. The end of a short one is
known from the branches before it; one that the buffer took over runs on beyond its end, which costs a misprediction (on an Intel
server core: beyond 34 turns of up to about 40 slots, while the end of a larger loop is foreseen up to some 190 turns, the length
of its history).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from statistics import median, median_low

from convolver.machine.core_figures import FORESEEN, CoreFigure

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
    if found is None or found <= FEW:  # few take as long as many at times: they crowd their lines
        return None
    return CoreFigure(name=name, value=float(found - step), low=float(found - step), high=float(found))


FILLING = "lines."
"""What figures of a line of so many instructions are called while they are samples."""
ENTRIES = range(4, 9)
"""Slots of an entry, of those that lines can hold four of."""
SAME = 0.02
"""Share by which times of a line may differ that are the same."""
THIRD_LATE = 1.1
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
        and third > THIRD_LATE * 3 * slots / width
        and third > MORE * before
        and fourth < (1 + SAME) * max(third, 4 * slots / width)
        and (more is None or more > MORE * fourth)
    )


LOOPS = "fetch."
"""What the samples of a turn are called: a number of slots in one line of code, or of :data:`ACROSS`."""
ACROSS, WITHIN = ("across", "across_later", "across_sooner"), "6"
"""Loops of as many slots in two lines and in one."""
LATE = 1.06
"""Times what the width allows, from which on a turn waits for the front end."""
AT_ONCE = 1.8
"""Cycles of a turn that is fetched at once, at most."""
WHOLE = 0.1
"""A turn of two fetch groups lies so near to two cycles."""


def fetch_figures(loops: Mapping[str, Sequence[float]]) -> list[CoreFigure]:
    """Return ``front.within`` and ``front.across``, cycles of a turn of six slots in one line of code, where these are fetched at
    once, and in two, and ``front.fetch``, the slots fetched at once where more are seen to wait, from sorted samples.

    A loop in two lines takes one or two cycles a turn on some cores, whole runs long: the least sample says what the core can do.
    """
    within, across = (
        CoreFigure.of_samples("front.within", loops.get(WITHIN, ())),
        [*chain(*(loops.get(name, ()) for name in ACROSS))],
    )
    found = []
    if within is not None and across and within.value < AT_ONCE:
        found = [within, CoreFigure.exact("front.across", min(across))]
    slots = _slots({int(name): samples[0] for name, samples in loops.items() if samples and name not in ACROSS})
    if slots:
        found.append(CoreFigure.exact("front.fetch", slots))
    return found


def _slots(cycles: dict[int, float]) -> int:
    """Return the most slots of a loop, of those from the smallest on, whose turn is as short as the width allows; 0 where the
    next larger one is not there, or does not take two cycles."""
    if not cycles:
        return 0
    width = max(slots / turn for slots, turn in cycles.items())
    least = math.inf
    for slots in sorted(cycles, reverse=True):  # what a larger loop does not wait for, a smaller one did for another reason
        cycles[slots] = least = min(cycles[slots], least)
    slots = min(cycles)
    branch = cycles[slots]  # a cycle, or a sixth more in some runs of a Zen 3
    while slots in cycles and cycles[slots] < LATE * max(slots / width, branch):
        slots += 1
    return slots - 1 if branch < AT_ONCE and slots - 1 in cycles and abs(cycles.get(slots, 0.0) - 2) < WHOLE else 0


TURNS = "turns."
"""What the samples of a turn are called of a loop that comes round a few times, over and over: in one line of code and in two."""


def turn_figures(loops: Mapping[str, Sequence[float]]) -> list[CoreFigure]:
    """Return ``front.waits``, the cycles by which a turn of a short loop takes longer in two lines, from sorted samples."""
    within, across = (loops.get(lines, ()) for lines in ("within", "across"))
    if not within or not across:
        return []
    return [CoreFigure.exact("front.waits", round(across[len(across) // 4] - within[len(within) // 4], 3))]


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
    """Return ``front.loop``, the turns of a small loop whose end is still predicted, ``front.loop_slots``, the slots of the
    largest loop whose end is not, and ``front.end``, the cycles of one that is. Where long runs cost no more than short ones, all
    turns that were tried are predicted, and no size is missed; None where nothing is clear, or all sizes are missed."""

    def run(slots: int, turns: int) -> float:
        return min((cycle for _ in range(LOOKS) for cycle in cycles(f"loop.{slots}", turns)), default=0.0)

    def end(slots: int, turns: int) -> float:
        few, many = STEADY
        return run(slots, turns) - turns * (run(slots, many) - run(slots, few)) / (many - few)

    turns, foreseen = _turns(cycles)
    if turns is None or turns.value >= LONG:
        return [turns, None, foreseen]
    slots = _repeated(
        "front.loop_slots", lambda: capacity(lambda count: end(count, LONG) - end(count, SHORT) < WRONG, 1, MOST_SLOTS)
    )
    return [turns, slots, foreseen] if slots else [None, None, None]


def _turns(cycles: Cycles) -> tuple[CoreFigure | None, CoreFigure | None]:
    """Return the count that parts foreseen ends from missed ones best; the interval holds those with twice as many astray. And
    the cycles of foreseen ends."""
    counts = range(SHORT, LONG + 1)
    runs = dict.fromkeys((*counts, *STEADY), math.inf)
    for _ in range(PASSES):
        for count in runs:
            runs[count] = min(runs[count], *cycles("loop.1", count), math.inf)
    few, many = STEADY
    if max(runs.values()) == math.inf:
        return None, None
    turn = (runs[many] - runs[few]) / (many - few)
    ends = {count: runs[count] - count * turn for count in counts}
    usual = median(ends[count] for count in counts[:3])
    penalty = median(ends[count] for count in counts[-5:]) - usual
    if penalty < WRONG:
        return CoreFigure.exact("front.loop", LONG), _foreseen(runs, turn, LONG)
    missed = {count for count in counts if ends[count] - usual > MISSED * penalty}
    astray = {edge: sum((count > edge) != (count in missed) for count in counts) for edge in counts[:-1]}
    least = min(astray.values())
    if least > ASTRAY:
        return None, None
    best = median_low([edge for edge in astray if astray[edge] == least])
    near = [edge for edge in astray if astray[edge] <= 2 * least]
    return CoreFigure(name="front.loop", value=float(best), low=float(near[0]), high=float(near[-1])), _foreseen(runs, turn, best)


def _foreseen(runs: Mapping[int, float], turn: float, edge: int) -> CoreFigure | None:
    """Return what ends of loops take beyond their turns, up to so many of these: the first quartile of all counts. Turns take
    whole cycles: a clock that is off by 1 % would move an end by half a cycle."""
    ends = sorted(run - count * max(round(turn), 1) for count, run in runs.items() if count <= edge)
    return CoreFigure.of_samples("front.end", ends)


def _repeated(name: str, find: Callable[[], int | None]) -> CoreFigure | None:
    """Return the median of the largest counts before the one that was found, in several tries; None where one found none."""
    found = [count - 1 for count in (find() for _ in range(REPEATS)) if count is not None]
    if len(found) < REPEATS:
        return None
    return CoreFigure(name=name, value=float(median(found)), low=float(min(found)), high=float(max(found)))

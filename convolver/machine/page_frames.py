"""Whether the pages of a program fill the sets of a machine's second level unevenly, as its curve of dependent loads tells.

That level looks for physical addresses, and the kernel gives out frames in no order: of pages that together fill it, some sets
get more than they have ways for while others stay half empty. Under LRU a set with one line too many would lose all of them in
each turn of a chase; those of real levels keep most, as with replacement at random.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from convolver.machine.hierarchy import PAGE_FRAMES, Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convolver.machine.calibration import Calibration
    from convolver.machine.maps import Curve

FRAME_BYTES = 4096
EDGE = 2.0
"""Working sets that tell are those of a level's size, times or divided by this at most."""


def lines_of_page(line_bytes: int) -> int:
    """Return how many lines a page has."""
    return FRAME_BYTES // line_bytes


@lru_cache(maxsize=4096)
def lost_of_set(lines: int, ways: int) -> float:
    """Return the share of the accesses that miss where so many lines of a set are asked for in turns and replaced at random."""
    if lines <= ways:
        return 0.0
    share, kept = 1.0, 1 - 1 / ways
    for _ in range(100):  # a line stays if none of the misses until its turn comes takes its way
        share = 1 - kept ** (lines * share)
    return share


def lost_in_frames(working_set_bytes: int, level: Level) -> float:
    """Return the share of a chase's accesses that miss where pages lie in frames at random: how many pages have the sets of one
    is binomial."""
    pages, colors = working_set_bytes // FRAME_BYTES, level.sets * level.line_bytes // FRAME_BYTES
    if pages < 2 or colors < 2:
        return float(working_set_bytes > level.size_bytes)
    others = pages - 1
    chance, lost = (1 - 1 / colors) ** others, 0.0
    for more in range(pages):
        lost += chance * lost_of_set(1 + more, level.ways)
        chance *= (others - more) / (more + 1) / (colors - 1)
    return lost


def in_frames(levels: Sequence[Level], curve: Curve | None, calibration: Calibration | None) -> tuple[Level, ...] | None:
    """Return the levels with pages of the second one in frames, where that explains the curve of dependent loads better than
    pages in the order of their addresses, of which all or none fit; else None."""
    if curve is None or calibration is None or len(levels) < 3:
        return None
    first, second, *others = levels
    if second.sets & (second.sets - 1) or second.sets <= lines_of_page(second.line_bytes) or second.index != "modulo":
        return None
    near, far = calibration.latency[:2]
    points = [point for point in curve.points if 1 / EDGE < point.working_set_bytes / second.size_bytes < EDGE]
    lost = [(point.working_set_bytes, (point.seconds_per_reference - near) / (far - near)) for point in points]
    uneven = sum((share - lost_in_frames(size, second)) ** 2 for size, share in lost)
    even = sum((share - float(size > second.size_bytes)) ** 2 for size, share in lost)
    if uneven >= even:
        return None
    return (first, msgspec.structs.replace(second, index=PAGE_FRAMES, policy="random"), *others)

"""How much of a last level that others use, too, a program keeps.

Other VMs push out a line that stays unused for longer than lines live there; a probe measures which share of them lives how long.
So of the lines that a program asks of the last level, it keeps those that it asks for again in that time: as many different ones
as it asks for in it. Probes walk as fast as they can and find nearly all of the level; a program that computes between its misses
finds less. How many different lines are among the next n is a sum of miss ratios, as each of them is new to the level where it
misses in one as large as what came before (Xiang, Ding, Luo and Bao, "HOTL: a higher order theory of locality", ASPLOS 2013).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from convolver.analyzing.falls import Array, Falls

if TYPE_CHECKING:
    from convolver.machine.calibration import Calibration

BUSY = 3.0
"""Instructions a cycle that are assumed beside the waiting for lines: seconds are needed before they are predicted, and
half as many move the size by half at most."""


def assumed_seconds(instructions: float, references: Array, where: Falls, known: Calibration, cycle_seconds: float) -> float:
    """Return about how long a program of so many instructions takes, given where the references of its blocks fall."""
    lines = np.where(where.sampled[:, None, None], where.lines(references), 0.0).sum(axis=0)
    by_pattern = (known.sequential, known.sequential, known.random, known.latency)
    brought = sum(float(lines[:, pattern] @ np.array(seconds)) for pattern, seconds in enumerate(by_pattern))
    return instructions * cycle_seconds / BUSY + brought


def asked_of_last(references: Array, where: Falls) -> float:
    """Return the lines that blocks with so many references ask of the last level."""
    return float((references * where.served[:, -2:].sum(axis=1))[where.sampled].sum())


def miss_ratio(references: Array, where: Falls) -> float:
    """Return the share of the lines asked of the last level that come from memory."""
    asked = asked_of_last(references, where)
    return float((references * where.served[:, -1])[where.sampled].sum()) / asked if asked else 0.0


def kept_lines(asked: float, sizes: Sequence[float], ratios: Sequence[float]) -> float:
    """Return the different lines among so many that are asked for, given the miss ratios of last levels of increasing sizes, in
    lines: all up to the least of the sizes, and no more than the largest."""
    kept = min(asked, sizes[0])
    left = asked - kept
    steps = zip(sizes, sizes[1:], ratios, ratios[1:], strict=False)
    for size, larger, ratio, next_ratio in steps:
        if left <= 0:
            break
        slope = max((ratio + next_ratio) / 2, 1e-6)
        more = min(left * slope, larger - size)
        kept, left = kept + more, left - more / slope
    return kept


def size_shares(
    rate: float, lives: Sequence[tuple[float, float]], sizes: Sequence[float], ratios: Sequence[float]
) -> list[float]:
    """Return how much of last levels of so many lines a program finds that asks for ``rate`` lines a second.

    One share for each size, adding up to 1. ``lives`` pairs seconds with the share of lines that live so long; ``ratios`` as in
    :func:`kept_lines`.
    """
    kept = np.array([kept_lines(rate * seconds, sizes, ratios) for seconds, _ in lives])
    between = np.array([np.interp(kept, sizes, one) for one in np.eye(len(sizes))])
    return [float(share) for share in between @ np.array([share for _, share in lives])]

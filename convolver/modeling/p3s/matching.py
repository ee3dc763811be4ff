"""Which elements of two sequences are the same, in order: longest equal stretches first, then what lies before and after them.

These are Ratcliff and Obershelp's matching blocks, as Python's ``difflib`` finds them: of stretches of one length the first in
the first sequence counts, of its likes in the second one the first. The calls of a trace are few words in thousands of places,
where difflib compares every pair of equal words. Here each stretch of a power of two elements has a number, the same for equal
ones, so that two numbers name a stretch of any length, and the longest one is found by bisection.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def equal_pairs(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the places in both sequences of elements that are the same, ascending: equal ends, and matching blocks between."""
    words: dict[Hashable, int] = {}
    a, b = (np.array([words.setdefault(one, len(words)) for one in side], np.int64) for side in (first, second))
    head = _equal_ends(a, b)
    tail = _equal_ends(a[head:][::-1], b[head:][::-1])
    middle = _matching(a[head : len(a) - tail], b[head : len(b) - tail])
    pairs = [(i, i) for i in range(head)] + [(head + i + k, head + j + k) for i, j, size in middle for k in range(size)]
    return pairs + [(len(a) - i, len(b) - i) for i in range(tail, 0, -1)]


def _equal_ends(a: Numbers, b: Numbers) -> int:
    """Return how many elements are the same from the beginning on."""
    shorter = min(len(a), len(b))
    other = np.flatnonzero(a[:shorter] != b[:shorter])
    return int(other[0]) if len(other) else shorter


def _matching(a: Numbers, b: Numbers) -> list[tuple[int, int, int]]:
    """Return the matching blocks, ascending: where they begin in both, and their length."""
    stretches = _Stretches(a, b)
    found: list[tuple[int, int, int]] = []
    # No stretch between two blocks is longer than the block that parted them.
    queue = [(0, len(a), 0, len(b), min(len(a), len(b)))]
    while queue:
        low, high, least, most, longest = queue.pop()
        i, j, size = stretches.longest(low, high, least, most, longest)
        if size:
            found.append((i, j, size))
            queue += [(low, i, least, j, size), (i + size, high, j + size, most, size)]
    return sorted(found)


class _Stretches:
    """Numbers of all stretches of 1, 2, 4, ... elements in both sequences."""

    def __init__(self, a: Numbers, b: Numbers) -> None:
        self.levels = [(a, b)]
        self.count = len(a) + len(b) + 1
        step = 1
        while 2 * step <= min(len(a), len(b)):
            keys = [x[:-step] * self.count + x[step:] for x in self.levels[-1]]
            numbers = np.unique(np.concatenate(keys), return_inverse=True)[1]
            self.levels.append((numbers[: len(keys[0])], numbers[len(keys[0]) :]))
            step *= 2

    def longest(self, low: int, high: int, least: int, most: int, longest: int) -> tuple[int, int, int]:
        """Return the first longest stretch, of ``longest`` elements at most, in parts of both sequences; its length may be 0."""
        shortest, best = 0, (low, least)
        longest = min(longest, high - low, most - least)
        size = longest  # what is asked for first: often the block before has its like
        while shortest < longest:
            a, b = self._of_length(size, low, high, least, most)
            same = np.flatnonzero(np.isin(a, b))
            if len(same):
                i = int(same[0])
                shortest, best = size, (low + i, least + int(np.argmax(b == a[i])))
            else:
                longest = size - 1
            size = (shortest + longest + 1) // 2
        return *best, shortest

    def _of_length(self, size: int, low: int, high: int, least: int, most: int) -> tuple[Numbers, Numbers]:
        """Return numbers of the stretches of a length in parts of both sequences: two overlapping ones of a power of two."""
        level = size.bit_length() - 1
        rest = size - (1 << level)
        parts = ((self.levels[level][0], low, high), (self.levels[level][1], least, most))
        a, b = (x[begin : end - size + 1] * self.count + x[begin + rest : end - size + 1 + rest] for x, begin, end in parts)
        return a, b

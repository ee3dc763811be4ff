"""How often threads executed each block in each class of their work.

A sparse table in numpy alone: importing scipy's takes longer than all that is asked of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from convolver.tracing.attribution import counted_blocks
from convolver.tracing.definitions import starts

if TYPE_CHECKING:
    from convolver.tracing.reader import Trace
    from convolver.tracing.thread_log import ThreadLog

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class ClassExecutions:
    """Executions by block and class; ``classes``: how many of these there are, ``whole``: executions of each block in all."""

    def __init__(self, blocks: Integers, classes: Integers, executions: Floats, shape: tuple[int, int]) -> None:
        """Add up the executions of each pair of a block and a class; ``shape``: how many there are of both."""
        length, self.classes = shape
        pairs = blocks * self.classes + classes
        order = np.argsort(pairs, kind="stable")
        pairs = pairs[order]
        first = np.flatnonzero(np.diff(pairs, prepend=-1))
        self._executions = np.add.reduceat(executions[order], first) if len(first) else np.zeros(0)
        block, self._class = np.divmod(pairs[first], self.classes)
        self._count = np.bincount(block, minlength=length)
        self._first = starts(self._count)
        self.whole: Floats = np.bincount(block, self._executions, minlength=length).astype(float)

    @classmethod
    def of(cls, trace: Trace, log: ThreadLog) -> ClassExecutions:
        """Return the executions of a trace's blocks by the classes of its threads' work."""
        counters = max(len(trace.counters), 1)
        block, counted = counted_blocks(trace.definitions, trace.blocks, counters)
        counter, classes, counts = log.counts()
        order = np.argsort(counter, kind="stable")
        ends = np.searchsorted(counter[order], np.arange(counters + 1))
        row, place = _spread(ends[counted], ends[counted + 1] - ends[counted])
        entry = order[place]
        return cls(block[row], classes[entry], counts[entry], (len(trace.blocks), log.work_classes))

    def __len__(self) -> int:
        return len(self.whole)

    def of_blocks(self, blocks: Integers) -> tuple[Integers, Integers, Floats]:
        """Return what is known of these blocks, one after another: the place of each in ``blocks``, a class, its executions."""
        row, place = _spread(self._first[blocks], self._count[blocks])
        return row, self._class[place], self._executions[place]


def _spread(first: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Return the rows of so many consecutive places each, and these places."""
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) + (first - starts(counts))[row]

"""Cache lines that threads hand over to each other, as from one side of a barrier to the other: which blocks get them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from convolver._native.directory import LEAST_DISTANCE, LOAD, NEVER, STORE, Directory
from convolver._native.trace_decoder import SETS, WINDOW, Decoder
from convolver.simulation.group import LINE_BYTES
from convolver.simulation.level_samples import ALL, sampled

if TYPE_CHECKING:
    from convolver.tracing.reader import Trace

KINDS = (LOAD, STORE)
"""Loads of lines that another thread stored to, stores to lines that others touched since: the rows of arrays by kind."""


@dataclass(frozen=True)
class HandedLines:
    """Lines that blocks get from other threads, an element for each ``block``, ``kind`` (place in :data:`KINDS`) and pair of
    distances: ``count`` of them in the whole run. ``own`` and ``other`` are how many lines the thread itself, and the one that
    had the line, touched since they touched it (infinite: never)."""

    block: NDArray[np.uint32]
    kind: NDArray[np.uint8]
    own: NDArray[np.float64]
    other: NDArray[np.float64]
    count: NDArray[np.float64]

    def by_place(self, lines: float, blocks: int) -> NDArray[np.float64]:
        """Return how many lines each block gets where a core keeps ``lines`` of them for itself, shape (kinds, 3, blocks): those
        that both cores still have, those that only its own has, those that only the other one has."""
        found = np.zeros((len(KINDS), 3, blocks))
        own, other = self.own < lines, self.other < lines
        for place, which in enumerate((own & other, own & ~other, ~own & other)):
            np.add.at(found, (self.kind[which], place, self.block[which]), self.count[which])
        return found


def can_tell(trace: Trace) -> bool:
    """True of a trace that has all references to some lines at least, those of all threads in the order of the run: the native
    engine keeps that of each thread alone."""
    plan = trace.header.get("sampling") or {}
    holds = sampled(plan)
    return plan.get("engine") != "native" and (holds.classes > 0 or holds.windows == ALL)


def follow_lines(trace: Trace, decoder: Decoder) -> Directory | None:
    """Let a decoder of the trace tell who has which lines; None where :func:`can_tell` says no."""
    if trace.thread_log is None or not can_tell(trace):
        return None
    directory = Directory(LINE_BYTES)
    directory.join(decoder, SETS if sampled(trace.header.get("sampling")).classes else WINDOW)
    return directory


def handed_lines(trace: Trace, directory: Directory) -> HandedLines | None:
    """Return the lines that threads hand over, from the set-sampled references, or all of a trace that has them all, that a
    ``directory`` got; None where none was handed over."""
    counts = np.sort(directory.counts(), order=("owner", "kind", "own", "other"))
    if not len(counts):
        return None
    holds = sampled(trace.header.get("sampling"))
    classes = max(holds.classes, 1)
    return HandedLines(
        block=np.asarray(trace.site_blocks[counts["owner"]], dtype=np.uint32),
        kind=counts["kind"].copy(),
        own=_distances(counts["own"], classes),
        other=_distances(counts["other"], classes),
        count=counts["count"] * (classes / holds.set_share),
    )


def _distances(steps: NDArray[np.uint8], classes: int) -> NDArray[np.float64]:
    """Return the middle of steps in lines, of which one in ``classes`` was seen."""
    middle = (LEAST_DISTANCE[:-1] + LEAST_DISTANCE[1:] - 1) / 2
    known = np.minimum(steps, len(middle) - 1)
    return np.where(steps == NEVER, np.inf, classes * middle[known])

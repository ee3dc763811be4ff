"""Typed wrapper of csrc/include/cv_touches.h: who touches which words of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.layouts import layout, pointer
from convolver._native.simulator import make_refs
from convolver._native.status import check, owned
from convolver._native.trace_decoder import Decoder

COUNT = layout("cv_touch_count")
ALL, LINES, WAITS = int(lib.CV_TOUCHES_ALL), int(lib.CV_TOUCHES_LINES), int(lib.CV_TOUCHES_WAITS)
TURNS, PIECE, HOT = int(lib.CV_TOUCHES_TURNS), int(lib.CV_TOUCHES_PIECE), int(lib.CV_TOUCHES_HOT)
WORD_BITS, LINE_BITS = int(lib.CV_TOUCHES_WORD_SHIFT), int(lib.CV_TOUCHES_LINE_SHIFT)


class Touches:
    """References to lines that have many, and loads of loops that wait for another thread."""

    def __init__(self) -> None:
        self.handle: Any = owned(lib.cv_touches_new(), lib.cv_touches_free)

    def join(self, decoder: Decoder) -> None:
        """Take what a decoder decodes of windows from now on."""
        decoder.add_sink(lib.cv_trace_touch, self)

    def feed(
        self, thread: int, window: int, addresses: NDArray[np.uint64], writes: NDArray[np.bool_], sites: NDArray[np.uint32]
    ) -> None:
        """Take references of one thread in one window, in the order of the run."""
        refs = make_refs(addresses, None, writes, sites)
        check(lib.cv_touches_feed(self.handle, thread, window, refs), "Counting who touches what")

    def end(self) -> None:
        """Say that nothing more comes: only then all is counted."""
        check(lib.cv_touches_end(self.handle), "Counting who touches what")

    def counts(self, kind: int) -> NDArray[Any]:
        """Return how many references there are (:data:`COUNT`): :data:`ALL` by thread and site, :data:`LINES` by word and window
        too, :data:`WAITS` by word, thread and site."""
        rows = np.zeros(lib.cv_touches_counts(self.handle, kind, ffi.NULL, 0), dtype=COUNT)
        lib.cv_touches_counts(self.handle, kind, pointer(rows, "cv_touch_count *"), len(rows))
        return rows

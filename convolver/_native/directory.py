"""Typed wrapper of csrc/include/cv_directory.h: which lines pass from thread to thread."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.layouts import layout, pointer
from convolver._native.simulator import make_refs
from convolver._native.status import check, owned
from convolver._native.trace_decoder import SETS, Decoder

COUNT = layout("cv_handed_count")
LOAD, STORE = int(lib.CV_HANDED_LOAD), int(lib.CV_HANDED_STORE)
NEVER = int(lib.CV_DIRECTORY_NEVER)
LEAST_DISTANCE = np.array([lib.cv_directory_least(step) for step in range(lib.CV_DIRECTORY_STEPS + 1)], dtype=float)
"""The least distance of each step, in lines, and of one more."""


class Directory:
    """Last writers and sharers of the lines of threads."""

    def __init__(self, line_bytes: int) -> None:
        self.handle: Any = owned(lib.cv_directory_new(line_bytes), lib.cv_directory_free)

    def join(self, decoder: Decoder, kind: int) -> None:
        """Take what a decoder decodes from now on of windows, or of the set-sampled references."""
        decoder.add_sink(lib.cv_trace_hand_over_sets if kind == SETS else lib.cv_trace_hand_over, self)

    def feed(
        self,
        thread: int,
        addresses: NDArray[np.uint64],
        sizes: NDArray[np.uint16] | None,
        writes: NDArray[np.bool_],
        owners: NDArray[np.uint32],
    ) -> None:
        """Take references of one thread, in the order of the run."""
        refs = make_refs(addresses, sizes, writes, owners)
        check(lib.cv_directory_feed(self.handle, thread, refs), "Following lines from thread to thread")

    def counts(self) -> NDArray[Any]:
        """Return how many references of which owner got a line from another thread, and how far back both had touched it
        (:data:`COUNT`)."""
        rows = np.zeros(lib.cv_directory_counts(self.handle, ffi.NULL, 0), dtype=COUNT)
        lib.cv_directory_counts(self.handle, pointer(rows, "cv_handed_count *"), len(rows))
        return rows

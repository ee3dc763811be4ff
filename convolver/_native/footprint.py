"""Typed wrapper of csrc/include/cv_footprint.h: average footprints of windows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.simulator import make_refs
from convolver._native.status import check


class Windows(NamedTuple):
    """``lines[i]``: different lines of all windows of 2^i accesses, added up."""

    accesses: int
    distinct: int
    lines: NDArray[np.float64]


class Footprint:
    """Counts the lines that windows of a stream touch."""

    def __init__(self, line_bytes: int) -> None:
        made = ffi.new("cv_footprint **")
        check(lib.cv_footprint_new(line_bytes, made), f"Measuring working sets with lines of {line_bytes} bytes")
        self._handle: Any = ffi.gc(made[0], lib.cv_footprint_free)

    def feed(self, addresses: NDArray[np.uint64], sizes: NDArray[np.uint16] | None = None) -> None:
        """Take a batch of references: contiguous arrays of these types and of one length (not checked here)."""
        check(lib.cv_footprint_feed(self._handle, make_refs(addresses, sizes, None, None)), "Measuring working sets")

    def result(self) -> Windows:
        """Return what was counted so far."""
        accesses, distinct = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        lines = np.zeros(lib.CV_FOOTPRINT_WINDOWS)
        count = lib.cv_footprint_result(self._handle, accesses, distinct, ffi.cast("double *", lines.ctypes.data))
        return Windows(int(accesses[0]), int(distinct[0]), lines[:count])

"""Typed wrapper of csrc/include/cv_stack.h: exact LRU stack distances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.simulator import make_refs
from convolver._native.status import check


class Stack:
    """Counts the accesses of a stream by their stack distance."""

    def __init__(self, line_bytes: int) -> None:
        made = ffi.new("cv_stack **")
        check(lib.cv_stack_new(line_bytes, made), f"Measuring stack distances with lines of {line_bytes} bytes")
        self._handle: Any = ffi.gc(made[0], lib.cv_stack_free)

    def feed(self, addresses: NDArray[np.uint64], sizes: NDArray[np.uint16] | None = None) -> None:
        """Take a batch of references: contiguous arrays of these types and of one length (not checked here)."""
        check(lib.cv_stack_feed(self._handle, make_refs(addresses, sizes, None, None)), "Measuring stack distances")

    @property
    def cold(self) -> int:
        """Lines touched for the first time."""
        return int(lib.cv_stack_cold(self._handle))

    def histogram(self) -> NDArray[np.uint64]:
        """Return the number of accesses with distance 0, 1, and so on."""
        counts = ffi.new("const uint64_t **")
        length = lib.cv_stack_histogram(self._handle, counts)
        if not length:
            return np.zeros(0, dtype=np.uint64)
        return np.frombuffer(ffi.buffer(counts[0], 8 * length), dtype=np.uint64).copy()

"""Typed wrapper of csrc/include/cv_chains.h: chains of loads, forwarded and split references along executed paths."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.layouts import layout
from convolver._native.path_builder import Paths
from convolver._native.status import owned
from convolver._native.trace_decoder import Decoder, column

COUNTS = layout("cv_chain_counts")
STRETCH: int = lib.CV_CHAIN_STRETCH
"""Instructions that are taken to be in flight together."""


class Chains:
    """Walks all paths that are built from now on."""

    def __init__(self, decoder: Decoder, paths: Paths) -> None:
        self._trace = decoder.handle  # not the decoder: it keeps this, and a cycle would keep both
        self._handle: Any = owned(lib.cv_chains_new(decoder.handle), lib.cv_chains_free)
        paths.add_sink(lib.cv_chains_sink, self._handle, self)

    def counts(self) -> NDArray[Any]:
        """Return the counts of each site (:data:`COUNTS`), for the sites known at the last piece; to be called at the end."""
        lib.cv_chains_finish(self._handle)
        return column(lib.cv_chains_counts, self._handle, COUNTS)

    def totals(self) -> dict[str, int]:
        """Return instructions and loads walked, and the sum of the longest chains of all stretches (``chained``)."""
        totals = ffi.new("uint64_t[3]")
        lib.cv_chains_totals(self._handle, totals, totals + 1, totals + 2)
        return dict(zip(("instructions", "loads", "chained"), map(int, totals), strict=True))

"""Typed wrapper of csrc/include/cv_detailed.h: one hierarchy, simulated reference by reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.enums import enum_names
from convolver._native.simulator import NativeSimulator, Simulator, make_refs
from convolver._native.status import check

COUNTS = enum_names("cv_detailed_count", "CV_COUNT_", "_")[: lib.CV_DETAILED_COUNTS]
"""Columns of the counts, in the order of enum cv_detailed_count."""


class DetailedGeometry(NamedTuple):
    """One level as the C core sees it, in the order of cv_detailed_level; names are numbers (see convolver.machine.hierarchy)."""

    sets: int
    line_bytes: int
    sector_bytes: int
    seed: int
    ways: int
    policy: int
    inclusion: int = 0
    write_through: bool = False
    no_allocate: bool = False
    combining: int = 0
    index_by: int = 0
    slices: int = 1
    prefetcher: int = 0
    degree: int = 1
    entries: int = 1
    shared: bool = False
    classify: bool = False


class DetailedSimulator(NativeSimulator):
    """One hierarchy of caches and TLBs, for one core or several; ``handle`` is the ``cv_detailed *``."""

    functions = "cv_detailed"

    def __init__(
        self,
        levels: Sequence[DetailedGeometry],
        tlbs: Sequence[DetailedGeometry] = (),
        *,
        cores: int = 1,
        semantics: int = 0,
    ) -> None:
        caches, pages = (ffi.new("cv_detailed_level[]", [tuple(level) for level in chain]) for chain in (levels, tlbs))
        made = ffi.new("cv_detailed **")
        status = lib.cv_detailed_new(caches, len(levels), pages, len(tlbs), cores, semantics, made)
        check(status, "Making a detailed cache simulator")
        self.handle: Any = ffi.gc(made[0], lib.cv_detailed_free)
        self.levels = len(levels) + len(tlbs)

    def warm(self, on: bool) -> None:
        """Let what is fed from now on fill the caches without being counted, or count again."""
        lib.cv_detailed_warm(self.handle, on)

    def feed(
        self,
        addresses: NDArray[np.uint64],
        sizes: NDArray[np.uint16] | None = None,
        writes: NDArray[np.bool_] | None = None,
        owners: NDArray[np.uint32] | None = None,
        *,
        core: int = 0,
    ) -> None:
        """Simulate a batch of references of one core: contiguous arrays of exactly these types and of one length."""
        self._fed(lib.cv_detailed_feed(self.handle, core, make_refs(addresses, sizes, writes, owners)))

    def counts(self, level: int) -> NDArray[np.uint64]:
        """Return the counts of a level (caches, then TLBs), shape (owners, len(COUNTS))."""
        return self.grouped_counts(level).sum(axis=1, dtype=np.uint64)

    def grouped_counts(self, level: int) -> NDArray[np.uint64]:
        """Return the same by group, shape (owners, groups, len(COUNTS))."""
        rows = np.zeros((self.owners, self.groups, len(COUNTS)), dtype=np.uint64)
        check(lib.cv_detailed_counts(self.handle, level, ffi.cast("uint64_t *", rows.ctypes.data)), "Reading the counters")
        return rows


AnySimulator = Simulator | DetailedSimulator
"""What references can be fed to."""

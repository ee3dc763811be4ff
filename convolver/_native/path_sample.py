"""Typed wrapper of csrc/include/cv_path_sample.h: windows of executed path, spread evenly over the run, and walks of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.branch_predictor import Branches
from convolver._native.core_walk import Core
from convolver._native.layouts import copied, layout, pointer
from convolver._native.path_builder import Paths
from convolver._native.status import check, owned
from convolver._native.trace_decoder import Decoder, column

ABOUT, FOUND = layout("cv_sample_window"), layout("cv_block_cycles")


class SamplePlan(NamedTuple):
    """What a window is: ``counted`` instructions after (on average) ``warm`` ones that fill the pipeline. ``most`` windows,
    and as many more for code that the others show in fewer than ``shown`` visits."""

    counted: int
    warm: int
    most: int
    shown: int


class PathSample:
    """Gathers windows of the paths that are built from now on; ``branches`` must read the same paths already.

    ``owners``: the block of each site, one of ``blocks``.
    """

    def __init__(
        self, decoder: Decoder, paths: Paths, branches: Branches, plan: SamplePlan, owners: NDArray[np.uint32], blocks: int
    ) -> None:
        numbers = np.ascontiguousarray(owners, dtype=np.uint32)
        of_sites = ffi.new("cv_site_owners *", (len(numbers), blocks, ffi.cast("void *", numbers.__array_interface__["data"][0])))
        self.handle: Any = owned(
            lib.cv_path_sample_new(decoder.handle, branches.handle, ffi.new("cv_sample_plan *", plan._asdict()), of_sites),
            lib.cv_path_sample_free,
        )
        self._kept = (decoder.handle, branches)
        paths.add_sink(lib.cv_path_sample_sink, self.handle)

    def __len__(self) -> int:
        return int(lib.cv_path_sample_count(self.handle))

    @property
    def stretches(self) -> int:
        """Stretches of path that windows were chosen from."""
        return int(lib.cv_path_sample_stretches(self.handle))

    def windows(self) -> NDArray[Any]:
        """Return what is known of each window (:data:`ABOUT`): those chosen at random by time, then the rare ones."""
        windows = np.zeros(len(self), dtype=ABOUT)
        first = pointer(windows, "cv_sample_window *")
        for number in range(len(windows)):
            lib.cv_path_sample_window(self.handle, number, first + number)
        return windows

    def visits(self, window: int) -> NDArray[np.uint32]:
        """Return the segments whose visits a window counts."""
        segments = ffi.new("const uint32_t **")
        count = lib.cv_path_sample_visits(self.handle, window, segments)
        return copied(segments[0], count, np.dtype(np.uint32))

    def showing(self, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which windows count visits of segments that are wanted; ``wanted``: one a segment."""
        given, shows = np.ascontiguousarray(wanted, dtype=np.uint8), np.zeros(len(self), dtype=np.uint8)
        lib.cv_path_sample_showing(self.handle, pointer(given, "uint8_t *"), pointer(shows, "uint8_t *"))
        return shows.astype(np.bool_)


class SampleWalk:
    """Walks of a sample's windows through a core. ``blocks``: that of each operation; ``counted``: whether its executions are."""

    def __init__(
        self, sample: PathSample, core: Core, blocks: NDArray[np.uint32], counted: NDArray[np.bool_], total: int
    ) -> None:
        arrays = np.ascontiguousarray(blocks, dtype=np.uint32), np.ascontiguousarray(counted, dtype=np.uint8)
        pointers = [ffi.cast("void *", array.__array_interface__["data"][0]) for array in arrays]
        self.handle: Any = owned(
            lib.cv_sample_walk_new(sample.handle, core.handle, ffi.new("cv_block_map *", (len(arrays[0]), total, *pointers))),
            lib.cv_sample_walk_free,
        )
        self._core, self._kept = core, (sample, arrays)
        core.blame(arrays[0], total)

    def walk(self, windows: NDArray[np.uint32]) -> None:
        """Walk these windows."""
        numbers = np.ascontiguousarray(windows, dtype=np.uint32)
        check(lib.cv_sample_walk_windows(self.handle, pointer(numbers, "uint32_t *"), len(numbers)), "Walking windows of a path")

    @property
    def causes(self) -> NDArray[np.uint64]:
        """What the cycles of blocks in all windows walked so far were spent on: :attr:`Core.causes`."""
        return self._core.causes

    def found(self) -> NDArray[Any]:
        """Return what all windows walked so far show of blocks (:data:`FOUND`), window by window."""
        return column(lib.cv_sample_walk_found, self.handle, FOUND)

"""Typed wrapper of csrc/include/cv_paths.h: executed paths, the visits of a trace's windows with their references."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.layouts import pointer
from convolver._native.status import check, owned
from convolver._native.trace_decoder import Decoder

UNKNOWN: int = lib.CV_PATH_UNKNOWN
"""In place of a segment that is not known."""


class PathWindow(NamedTuple):
    """A piece of the path that one thread executed within one window (burst).

    Visit ``i`` executed segment ``segments[i]`` with the references ``first_references[i]`` to ``first_references[i + 1]`` of
    ``addresses`` and ``sites``; masked references that did not happen are left out. The segment of visit ``i + 1`` is what the
    thread executed next; after the last visit it is ``following``, or :data:`UNKNOWN`. ``continues``: the piece goes on where
    the thread's last piece ended. The first ``warm_visits`` are warm-up.
    """

    window: int
    thread: int
    continues: bool
    following: int
    warm_visits: int
    segments: NDArray[np.uint32]
    first_references: NDArray[np.uint32]
    addresses: NDArray[np.uint64]
    sites: NDArray[np.uint32]

    def native(self) -> tuple[Any, list[NDArray[Any]]]:
        """Return the piece as a ``cv_path``, and the arrays that it points to."""
        kinds = {"uint32_t": np.uint32, "uint64_t": np.uint64}
        names = ("uint32_t", "uint32_t", "uint64_t", "uint32_t")
        kept = [np.ascontiguousarray(array, kinds[name]) for array, name in zip(self[5:], names, strict=True)]
        pointers = [pointer(array, f"const {name} *") for array, name in zip(kept, names, strict=True)]
        sizes = (len(self.segments), len(self.addresses), self.warm_visits)
        return ffi.new("cv_path *", (self.window, self.thread, self.continues, self.following, *sizes, *pointers)), kept


class Paths:
    """Builds paths from all that a decoder decodes from now on, in pieces of at most ``max_visits`` visits.

    ``warmup``: windows begin with a warm-up whose end is marked. ``handle`` and ``add_sink`` are for other wrappers.
    """

    def __init__(self, decoder: Decoder, max_visits: int, *, warmup: bool = False) -> None:
        self.handle: Any = owned(lib.cv_paths_new(max(1, max_visits), warmup), lib.cv_paths_free)
        self._kept: list[Any] = []
        decoder.build_paths(self)

    def thin(self, whole: int, every: int) -> None:
        """After the first ``whole`` pieces of a window, build only one in ``every``."""
        lib.cv_paths_thin(self.handle, whole, every)

    def add_sink(self, sink: Any, context: Any, *owners: object) -> None:
        """Hand every piece to a C function with ``context``; it and its ``owners`` are kept alive."""
        self._kept.append((context, owners))
        check(lib.cv_paths_add_sink(self.handle, sink, context), "Reading paths")

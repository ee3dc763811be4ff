"""Pieces of executed path as Python reads them: what no product code needs, whose readers are in C."""

from __future__ import annotations

import numpy as np
from convolver._native._core import ffi, lib

from convolver._native.branch_predictor import Branches
from convolver._native.layouts import copied, pointer
from convolver._native.path_builder import Paths, PathWindow


class PathCollector:
    """Keeps copies of the pieces that are built from now on, until they are taken."""

    def __init__(self, paths: Paths) -> None:
        self._pieces: list[PathWindow] = []
        self._keep = ffi.callback("cv_path_sink", self._add)
        paths.add_sink(self._keep, ffi.NULL, self)

    def _add(self, _context, path) -> int:
        words, longs = np.dtype(np.uint32), np.dtype(np.uint64)
        about = (path.window, path.thread, bool(path.continues), path.following, path.warm_visits)
        segments, firsts = copied(path.segments, path.visits, words), copied(path.first_reference, path.visits + 1, words)
        addresses, sites = copied(path.addresses, path.references, longs), copied(path.sites, path.references, words)
        self._pieces.append(PathWindow(*about, segments, firsts, addresses, sites))
        return lib.CV_OK

    def take(self) -> list[PathWindow]:
        """Return the pieces kept since the last call."""
        taken, self._pieces = self._pieces, []
        return taken


def pieces_of(trace, max_visits: int = 65_536) -> list[PathWindow]:
    """Return what each thread of a trace executed in each window, in pieces of at most so many visits."""
    kept = []
    warmup = bool((trace.header.get("sampling") or {}).get("warmup"))
    trace.walk(lambda decoder, _: kept.append(PathCollector(Paths(decoder, max_visits, warmup=warmup))))
    return kept[0].take()


def walk(branches: Branches, piece: PathWindow) -> list[int]:
    """Walk one piece; return a flag for every visit."""
    flags = np.zeros(len(piece.segments), dtype=np.uint8)
    path, _kept = piece.native()
    assert lib.cv_branches_walk(branches.handle, path, pointer(flags, "uint8_t *")) == lib.CV_OK
    return flags.tolist()

"""Reads what the traced program executed in the bursts between its MPI calls (``rank-NNNNN.cvb``, csrc/mpi/cv_bursts.h)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from convolver.errors import FormatError
from convolver.foreign_text import readable

MAGIC = b"CVBURST1"
COUNT_BITS = 40
_HEADER = struct.Struct("<8sII")
_CHUNK = struct.Struct("<QQQ")


@dataclass(frozen=True)
class BurstCounts:
    """Counters by groups of adjacent bursts of one rank.

    Group g covers the bursts before the records ``first[g]`` to ``last[g]`` of the rank's recording; its executions are
    ``counts[k]`` of counter ``counters[k]`` for k from ``bounds[g]`` to ``bounds[g + 1]``.
    """

    rank: int
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    bounds: NDArray[np.int64]
    counters: NDArray[np.int64]
    counts: NDArray[np.int64]

    def groups_of(self, records: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the group of each record number, -1 where none covers it."""
        if not len(self.first):
            return np.full(len(records), -1)
        at = np.searchsorted(self.first, records, side="right") - 1
        inside = (at >= 0) & (records <= self.last[np.maximum(at, 0)])
        return np.where(inside, at, -1)


def read_bursts(path: str | Path) -> BurstCounts:
    """Read one file; a cut-off end is left out. Raises :class:`FormatError` for a damaged one, naming file, chunk and reason."""
    path = Path(path)
    with readable(path):
        content = path.read_bytes()
    if len(content) < _HEADER.size or content[:8] != MAGIC:
        raise FormatError(f"{path} is no file of bursts: its first bytes are wrong.")
    rank = _HEADER.unpack_from(content)[1]
    ranges, words = _chunks(content, path)
    whole = np.concatenate(words) if words else np.zeros(0, np.uint64)
    bounds = np.cumsum([0, *map(len, words)], dtype=np.int64)
    counts = (whole & np.uint64((1 << COUNT_BITS) - 1)).astype(np.int64)
    first, last = np.array(ranges, np.int64).reshape(-1, 2).T
    return BurstCounts(rank, first, last, bounds, (whole >> np.uint64(COUNT_BITS)).astype(np.int64), counts)


def _chunks(content: bytes, path: Path) -> tuple[list[tuple[int, int]], list[NDArray[np.uint64]]]:
    """Return the ranges of records and the words of each; chunks of one range (a long one is written in parts) become one."""
    ranges: list[tuple[int, int]] = []
    words: list[NDArray[np.uint64]] = []
    at, number = _HEADER.size, 0
    while at + _CHUNK.size <= len(content):
        first, last, count = _CHUNK.unpack_from(content, at)
        at += _CHUNK.size
        if first > last or last >= 1 << 62 or (ranges and first < ranges[-1][0]) or count >= 1 << 32:
            raise FormatError(f"{path}: chunk {number} is damaged: {count} words for the records {first} to {last}.")
        if at + 8 * count > len(content):
            break
        part = np.frombuffer(content, "<u8", count, at)
        if ranges and ranges[-1] == (first, last):
            words[-1] = np.concatenate([words[-1], part])
        else:
            ranges.append((first, last))
            words.append(part)
        at, number = at + 8 * count, number + 1
    return ranges, words

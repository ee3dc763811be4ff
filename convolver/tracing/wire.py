"""Makes the tracer's stream (cv_wire.h) from references that another tool recorded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convolver._native.layouts import packed
from convolver._native.trace_decoder import MAGIC, VERSION, WIRE
from convolver.tracing.definitions import CONTINUED, STORE

Key = tuple[int, int, int, int]
"""Address of the instruction, its length, bytes of the reference, 1 for a write; a size of 0 is the instruction itself."""


def _words(*words: int) -> bytes:
    return np.array(words, "<u8").tobytes()


def _record(kind: str, payload: bytes) -> bytes:
    return _words(WIRE["CONTROL"] | WIRE[kind] << 56 | len(payload) // 8) + payload


def beginning() -> bytes:
    """Return the beginning of a stream with one module: code outside every file."""
    return _words(MAGIC, VERSION) + _record("MODULE", packed("struct cv_wire_module"))


def ending() -> bytes:
    """Return the record of a normal end."""
    return _record("END", packed("struct cv_wire_end"))


class WireWriter:
    """One segment for each instruction and for each kind of reference of an instruction, with the exact number of each.

    ``counted`` tells whether executed instructions are recorded themselves; otherwise each reference stands for one.
    """

    def __init__(self, counted: bool) -> None:
        self._counted = counted
        self._segments: dict[Key, int] = {}
        self._sites = 0
        self._counts: list[int] = []
        self._thread = -1

    @property
    def counters(self) -> bytes:
        """The execution counters, one for each segment."""
        return np.array(self._counts, dtype="<u8").tobytes()

    def _define(self, key: Key) -> bytes:
        pc, length, size, write = key
        number, sites = len(self._segments), int(size > 0)
        self._segments[key] = number
        self._counts.append(0)
        place = {"address": pc, "file_offset": pc, "id": number, "counter": number, "first_site": self._sites}
        payload = packed("struct cv_wire_segment", **place, words=sites, sites=sites, instructions=1)
        payload += packed("struct cv_wire_instruction", length=length, flags=CONTINUED if self._counted and sites else 0)
        if sites:
            payload += packed("struct cv_wire_site", size_bytes=size, flags=STORE if write else 0)
        self._sites += sites
        return _record("SEGMENT", payload)

    def records(self, keys: list[Key], addresses: NDArray[np.uint64], thread: int = 1) -> bytes:
        """Return the records of references in execution order; ``addresses`` of keys of size 0 are left out."""
        parts = []
        if thread != self._thread:
            parts.append(_words(WIRE["CONTROL"] | WIRE["THREAD"] << 56 | thread))
            self._thread = thread
        parts += [self._define(key) for key in dict.fromkeys(keys) if key not in self._segments]
        numbers = np.array([self._segments[key] for key in keys], dtype=np.uint64)
        for number, count in zip(*np.unique(numbers, return_counts=True), strict=True):
            self._counts[int(number)] += int(count)
        recorded = np.array([key[2] > 0 for key in keys], dtype=bool)
        words = np.empty((int(recorded.sum()), 2), dtype="<u8")
        words[:, 0] = numbers[recorded] | np.uint64(WIRE["VISIT"])
        words[:, 1] = addresses[recorded]
        return b"".join(parts) + words.tobytes()

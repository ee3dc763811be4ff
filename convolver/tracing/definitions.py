"""The code that a trace saw: modules, segments, instructions, sites, as the tracer defined them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import lib
from convolver._native.trace_decoder import Decoder
from convolver.tracing.branch_code import LONGEST, Codes

STORE: int = lib.CV_WIRE_STORE
GUARDED: int = lib.CV_WIRE_GUARDED
DEPENDENT: int = lib.CV_WIRE_DEPENDENT
ATOMIC: int = lib.CV_WIRE_ATOMIC
PREFETCH: int = lib.CV_WIRE_PREFETCH
CONTINUED: int = lib.CV_WIRE_CONTINUED
"""Flag of a segment's first instruction that the segment before has already counted; those above are of sites."""


def starts(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Return where each of the consecutive groups of these sizes begins."""
    result = np.zeros(len(counts), dtype=np.int64)
    np.cumsum(counts[:-1], dtype=np.int64, out=result[1:])
    return result


@dataclass(frozen=True)
class Definitions:
    """Arrays as in :mod:`convolver._native.trace_decoder`; instructions, sites and code lie one segment after another."""

    modules: NDArray[Any]
    paths: list[str]
    segments: NDArray[Any]
    instructions: NDArray[Any]
    sites: NDArray[Any]
    code: NDArray[np.uint8]

    @classmethod
    def of(cls, decoder: Decoder) -> Definitions:
        """Copy what a decoder knows now."""
        return cls(
            decoder.modules(),
            decoder.module_paths(),
            decoder.segments(),
            decoder.instructions(),
            decoder.sites(),
            decoder.code(),
        )

    @cached_property
    def segment_of_instruction(self) -> NDArray[np.int64]:
        """Segment of each instruction."""
        return np.repeat(np.arange(len(self.segments)), self.segments["instructions"])

    @cached_property
    def segment_of_site(self) -> NDArray[np.int64]:
        """Segment of each site."""
        return np.repeat(np.arange(len(self.segments)), self.segments["sites"])

    @cached_property
    def instruction_of_site(self) -> NDArray[np.int64]:
        """Instruction (number in :attr:`instructions`) of each site."""
        return np.asarray(starts(self.segments["instructions"])[self.segment_of_site] + self.sites["instruction"])

    @cached_property
    def first_code(self) -> NDArray[np.int64]:
        """Where the code of each segment begins in :attr:`code`."""
        return starts(self.segments["code_bytes"])

    def codes_of(self, instructions: NDArray[np.int64]) -> Codes:
        """Return the code of some instructions, with length 0 where the tracer did not send it."""
        segment = self.segment_of_instruction[instructions]
        begin = self.instructions["offset"][instructions].astype(np.int64)
        length = self.instructions["length"][instructions].astype(np.int64)
        length = np.where(begin + length <= self.segments["code_bytes"][segment], np.minimum(length, LONGEST), 0)
        inside = np.arange(LONGEST) < length[:, None]
        places = np.where(inside, (self.first_code[segment] + begin)[:, None] + np.arange(LONGEST), 0)
        rows = self.code[places] if len(self.code) else np.zeros(places.shape, dtype=np.uint8)
        return Codes(np.where(inside, rows, 0).astype(np.uint8), length)


def guard_executions(definitions: Definitions, counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return how often each site was executed: its own counter where it is masked, its segment's otherwise."""
    sites = definitions.sites
    executed = counter_values(counters, definitions.segments["counter"])[definitions.segment_of_site]
    guarded = (sites["flags"] & GUARDED) != 0
    return np.where(guarded, counter_values(counters, sites["guard_counter"]), executed)


def counter_values(counters: NDArray[np.uint64], numbers: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the counters of these numbers; 0 for numbers past the end, which were never counted."""
    if not len(counters):
        return np.zeros(len(numbers), dtype=np.uint64)
    inside = numbers < len(counters)
    return np.where(inside, counters[np.where(inside, numbers, 0)], 0).astype(np.uint64)

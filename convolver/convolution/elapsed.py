"""Elapsed time of a program with several threads: what a replay of them (:mod:`convolver.convolution.elapsed_replay`) answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver.convolution.block_times import BlockTimes
from convolver.convolution.lost_time import FEWER, LEAST_LOST, MUCH_LOST, SHARING


@dataclass(frozen=True)
class Elapsed:
    """One replay: seconds from start to end, the ends of their interval, processor seconds of all threads, and what was lost.

    ``draws`` are elapsed seconds in the order of those of the block times, None without these. ``lost`` are core seconds that
    the program had no use for, by cause.
    """

    machine: str
    cores: int
    threads: int
    events: int
    seconds: float
    interval: tuple[float, float]
    processor_seconds: float
    draws: NDArray[np.float64] | None
    lost: Mapping[str, float]
    locks: Sequence[Mapping[str, Any]]
    lines: Sequence[Mapping[str, Any]]
    regions: Sequence[Mapping[str, Any]]
    spins: Sequence[Mapping[str, Any]]
    forced: int
    assumptions: Sequence[str]

    @property
    def speedup(self) -> float:
        """Processor seconds that passed in one second."""
        return self.processor_seconds / self.seconds if self.seconds else 1.0

    @property
    def limit(self) -> str:
        """What keeps more cores from being used, as a phrase."""
        fewer = self.lost.get(FEWER, 0.0)
        cause, seconds = max(((name, one) for name, one in self.lost.items() if name != FEWER), key=lambda one: one[1])
        had = self.cores * self.seconds - fewer
        if fewer > seconds and seconds < MUCH_LOST * had:
            cause, seconds = FEWER, fewer
        if seconds < LEAST_LOST * had:
            return "nothing: all cores are busy"
        if cause == "locks" and self.locks:
            return f"locks, most of all {self.locks[0]['name']}"
        if cause == SHARING and self.lines:
            return str(self.lines[0]["name"])
        return cause

    def document(self) -> dict[str, Any]:
        """Return it as a JSON-able document."""
        return {
            "cores": self.cores,
            "threads": self.threads,
            "events": self.events,
            "seconds": self.seconds,
            "interval_seconds": list(self.interval),
            "processor_seconds": self.processor_seconds,
            "draws_seconds": None if self.draws is None else self.draws.tolist(),
            "speedup": self.speedup,
            "limit": self.limit,
            "lost_seconds": dict(self.lost),
            "locks": [dict(one) for one in self.locks],
            "lines": [dict(one) for one in self.lines],
            "regions": [dict(one) for one in self.regions],
            "spin_loops": [dict(one) for one in self.spins],
            "forced_waits": self.forced,
            "assumptions": list(self.assumptions),
        }


def of_one_thread(times: BlockTimes, cores: int) -> Elapsed:
    """Return the elapsed time of a program with one thread."""
    seconds, low, high = times.total
    lost = {"serial parts": 0.0, FEWER: (cores - 1) * seconds}
    return Elapsed(times.machine, cores, 1, 0, seconds, (low, high), seconds, None, lost, (), (), (), (), 0, ())

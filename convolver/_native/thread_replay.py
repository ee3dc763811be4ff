"""The replay of threads on numpy arrays: packing the events of a run, running them on a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.enums import enum_names
from convolver._native.layouts import layout
from convolver._native.status import check

RECORD = layout("struct cv_thread_record")
LOCK = layout("cv_threads_lock")
REGION = layout("cv_threads_region")
INTERVAL = layout("cv_threads_interval")
TOUCH = layout("cv_threads_touch")
CAUSES = enum_names("cv_threads_cause", "CV_THREADS_")[: lib.CV_THREADS_CAUSES]
CLASS_RECORD, NAME_RECORD, MOST_RECORDS = (int(lib.CV_THREADS_CLASS), int(lib.CV_THREADS_NAME), int(lib.CV_THREADS_MOST))
PINNINGS = COMPACT, SCATTER = enum_names("cv_threads_pinning", "CV_THREADS_")[1:]
"""How threads are pinned: to both processors of a core first, or to one of each core first."""
COSTS = tuple(name for name, _ in ffi.typeof("cv_threads_costs").fields)


@dataclass(frozen=True)
class ThreadRun:
    """What one run gives: totals by name, seconds that each thread waited (a column for each of :data:`CAUSES`), the locks, each
    thread's seconds of work, the thread seconds lost at each line that several threads touch, the parallel regions, and what
    threads do when, where that was asked."""

    totals: dict[str, float]
    waits: NDArray[np.float64]
    locks: NDArray[Any]
    busy: NDArray[np.float64]
    lines: NDArray[np.float64]
    regions: NDArray[Any]
    intervals: NDArray[Any]

    @property
    def waited(self) -> dict[str, float]:
        """Seconds that all threads waited, by cause."""
        return self.waited_by(np.ones(len(self.waits), np.bool_))

    def waited_by(self, threads: NDArray[np.bool_]) -> dict[str, float]:
        """Return the seconds that some threads waited, by cause."""
        return dict(zip(CAUSES, self.waits[threads].sum(axis=0).tolist(), strict=True))


class Complexes(NamedTuple):
    """Cores that share a last level, so many of these: thread t is on number t // adjacent % many. Bytes a second that 1, 2, ...
    busy cores of one get from memory and from the last level; empty: no limit."""

    many: int
    adjacent: int
    capacity: NDArray[np.float64]
    near_capacity: NDArray[np.float64]


class NearWork(NamedTuple):
    """By class of work: the part of its seconds that waits for the last level (0..1), and bytes that an instruction moves from
    there."""

    share: NDArray[np.float64]
    moved: NDArray[np.float64]


def _doubles(values: NDArray[np.float64]) -> Any:
    """Return a copy as C has it."""
    return ffi.new("double[]", values.tolist())


class PackedThreads:
    """Events of threads packed for the replay: once, and once more for each run at the same time as others."""

    def __init__(self, records: NDArray[Any]) -> None:
        """Take records in the order of the trace; raises :class:`FormatError` for an unknown kind."""
        self._records = np.ascontiguousarray(records, dtype=RECORD)
        self._free = [self._pack()]

    def _pack(self) -> Any:
        out = ffi.new("cv_threads **")
        start = ffi.from_buffer("struct cv_thread_record[]", self._records) if len(self._records) else ffi.NULL
        check(lib.cv_threads_new(start, len(self._records), out), "events of threads")
        return ffi.gc(out[0], lib.cv_threads_free)

    def run(
        self,
        seconds: NDArray[np.float64],
        memory: NDArray[np.float64],
        bytes_moved: NDArray[np.float64],
        *,
        cores: int,
        capacity: NDArray[np.float64],
        costs: Mapping[str, float],
        touches: NDArray[Any] | None = None,
        pairs: int = 0,
        sibling: float = 1.0,
        pinning: str | None = None,
        least: float | None = None,
        complexes: Complexes | None = None,
        near: NearWork | None = None,
        handed: NDArray[np.float64] | None = None,
    ) -> ThreadRun:
        """Replay on ``cores`` cores. By class of work: seconds of an instruction alone, the part of them that waits for memory
        (0..1), bytes that it moves. ``capacity``: bytes a second that 1, 2, ... busy cores get; empty: no limit. ``touches``:
        what threads do to lines that others touch, ordered by class. ``pairs`` of the cores are two threads of one, each
        ``sibling`` times slower while both are busy. ``pinning``: one of :data:`PINNINGS`. ``least``: keep intervals of so
        many seconds. ``complexes``: cores that share a last level; ``near``: what each class of work asks of it; ``handed``:
        seconds that an instruction takes in addition for lines that other threads had."""
        columns = [np.ascontiguousarray(column, dtype=float) for column in (seconds, memory, bytes_moved, capacity)]
        first, second, third, fourth = (ffi.from_buffer("double[]", one) if len(one) else ffi.NULL for one in columns)
        work = ffi.new("cv_threads_work *", {"classes": len(seconds), "seconds": first, "memory": second, "bytes": third})
        if touches is not None and len(touches):
            touches = np.ascontiguousarray(touches, dtype=TOUCH)
            work.touches = touched = ffi.from_buffer("cv_threads_touch[]", touches)
            work.n_touches, work.lines = len(touched), int(touches["line"].max()) + 1
        machine = ffi.new("cv_threads_machine *", {"cores": cores, "capacities": len(capacity), "capacity": fourth})
        machine.pairs, machine.sibling = pairs, sibling
        kept = []  # what the structures point to
        if complexes is not None:
            machine.complexes, machine.adjacent = complexes.many, complexes.adjacent
            kept += [_doubles(complexes.capacity), _doubles(complexes.near_capacity)]
            machine.complex_capacities, machine.near_capacities = map(len, kept)
            machine.complex_capacity, machine.near_capacity = kept
        if near is not None:
            kept += [_doubles(near.share), _doubles(near.moved)]
            work.near, work.near_bytes = kept[-2:]
        if handed is not None:
            kept.append(_doubles(handed))
            work.handed = kept[-1]
        machine.pinning = 0 if pinning is None else 1 + PINNINGS.index(pinning)
        for name in COSTS:
            setattr(machine.costs, name, costs[name])
        try:
            handle = self._free.pop()
        except IndexError:
            handle = self._pack()
        try:
            return _run(handle, work, machine, -1.0 if least is None else least)
        finally:
            self._free.append(handle)


def _run(handle: Any, work: Any, machine: Any, least: float) -> ThreadRun:
    totals = ffi.new("cv_threads_totals *")
    lib.cv_threads_keep_intervals(handle, least)
    check(lib.cv_threads_run(handle, work, machine, totals), "a replay of threads")
    busy = np.zeros(int(totals.threads))
    lib.cv_threads_busy(handle, ffi.from_buffer("double[]", busy) if len(busy) else ffi.NULL, len(busy))
    lines = np.zeros(int(work.lines))
    lib.cv_threads_lines(handle, ffi.from_buffer("double[]", lines) if len(lines) else ffi.NULL, len(lines))
    waits = np.zeros((len(busy), len(CAUSES)))
    lib.cv_threads_waited(handle, ffi.from_buffer("double[]", waits) if len(busy) else ffi.NULL, len(busy))
    by_name = {name: getattr(totals, name) for name, _ in ffi.typeof("cv_threads_totals").fields}
    return ThreadRun(
        *(by_name, waits, _rows(handle, lib.cv_threads_locks, LOCK)),
        *(busy, lines),
        *(_rows(handle, lib.cv_threads_regions, REGION), _rows(handle, lib.cv_threads_intervals, INTERVAL)),
    )


def _rows(handle: Any, function: Any, kind: np.dtype[Any]) -> NDArray[Any]:
    """Return what a function of the replay says of its last run."""
    rows = np.zeros(function(handle, ffi.NULL, 0), dtype=kind)
    if len(rows):
        function(handle, ffi.cast(ffi.typeof(function).args[1], ffi.from_buffer(rows)), len(rows))
    return rows

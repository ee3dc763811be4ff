"""The replay of threads behind numpy: packing the events of a run, running them on a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.layouts import layout
from convolver._native.status import check

RECORD = layout("struct cv_thread_record")
LOCK = layout("cv_threads_lock")
TOUCH = layout("cv_threads_touch")
CAUSES = ("fork", "barrier", "lock", "condition", "join")
CLASS_RECORD, NAME_RECORD = int(lib.CV_THREADS_CLASS), int(lib.CV_THREADS_NAME)
COSTS = tuple(name for name, _ in ffi.typeof("cv_threads_costs").fields)


@dataclass(frozen=True)
class ThreadRun:
    """What one run gives: totals by name, seconds waited by cause, the locks, each thread's seconds of work, and the thread
    seconds lost at each line that several threads touch."""

    totals: dict[str, float]
    waited: dict[str, float]
    locks: NDArray[Any]
    busy: NDArray[np.float64]
    lines: NDArray[np.float64]


class PackedThreads:
    """Events of threads packed for the replay; one run at a time."""

    def __init__(self, records: NDArray[Any]) -> None:
        """Take records in the order of the trace; raises :class:`FormatError` for an unknown kind."""
        self._records = np.ascontiguousarray(records, dtype=RECORD)
        out = ffi.new("cv_threads **")
        start = ffi.from_buffer("struct cv_thread_record[]", self._records) if len(self._records) else ffi.NULL
        check(lib.cv_threads_new(start, len(self._records), out), "events of threads")
        self._handle = ffi.gc(out[0], lib.cv_threads_free)

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
    ) -> ThreadRun:
        """Replay on ``cores`` cores. By class of work: seconds of an instruction alone, the part of them that waits for memory
        (0..1), bytes that it moves. ``capacity``: bytes a second that 1, 2, ... busy cores get; empty: no limit. ``touches``:
        what threads do to lines that others touch, ordered by class. ``pairs`` of the cores are two threads of one, each
        ``sibling`` times slower while both are busy."""
        columns = [np.ascontiguousarray(column, dtype=float) for column in (seconds, memory, bytes_moved, capacity)]
        first, second, third, fourth = (ffi.from_buffer("double[]", one) if len(one) else ffi.NULL for one in columns)
        work = ffi.new("cv_threads_work *", {"classes": len(seconds), "seconds": first, "memory": second, "bytes": third})
        if touches is not None and len(touches):
            touches = np.ascontiguousarray(touches, dtype=TOUCH)
            work.touches = touched = ffi.from_buffer("cv_threads_touch[]", touches)
            work.n_touches, work.lines = len(touched), int(touches["line"].max()) + 1
        machine = ffi.new("cv_threads_machine *", {"cores": cores, "capacities": len(capacity), "capacity": fourth})
        machine.pairs, machine.sibling = pairs, sibling
        for name in COSTS:
            setattr(machine.costs, name, costs[name])
        totals = ffi.new("cv_threads_totals *")
        check(lib.cv_threads_run(self._handle, work, machine, totals), "a replay of threads")
        locks = np.zeros(lib.cv_threads_locks(self._handle, ffi.NULL, 0), dtype=LOCK)
        lib.cv_threads_locks(self._handle, ffi.from_buffer("cv_threads_lock[]", locks) if len(locks) else ffi.NULL, len(locks))
        busy = np.zeros(int(totals.threads))
        lib.cv_threads_busy(self._handle, ffi.from_buffer("double[]", busy) if len(busy) else ffi.NULL, len(busy))
        lines = np.zeros(int(work.lines))
        lib.cv_threads_lines(self._handle, ffi.from_buffer("double[]", lines) if len(lines) else ffi.NULL, len(lines))
        names = [name for name, _ in ffi.typeof("cv_threads_totals").fields if name != "waited"]
        waited = {name: float(totals.waited[number]) for number, name in enumerate(CAUSES)}
        return ThreadRun({name: getattr(totals, name) for name in names}, waited, locks, busy, lines)

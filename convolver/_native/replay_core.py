"""The replay core on numpy arrays: packing events, running them on a network, parsing .dim text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.layouts import copied, layout, pointer
from convolver._native.status import check
from convolver.errors import FormatError

COLUMNS = {
    "kind": np.uint8,
    "flags": np.uint8,
    "op": np.uint8,
    "partner": np.int32,
    "tag": np.int32,
    "comm": np.int32,
    "bytes": np.int64,
    "extra": np.int64,
    "seconds": np.float64,
}
"""Event columns and their types (see :mod:`convolver.mpi.events`)."""

INTERVAL = layout("cv_replay_interval")
MESSAGE = layout("cv_replay_message")
RANK = layout("cv_replay_rank")
FAULTS = {
    lib.CV_REPLAY_FAULT_PARTNER: "names a task that does not exist",
    lib.CV_REPLAY_FAULT_MEMBER: "uses a communicator that the task does not belong to",
    lib.CV_REPLAY_FAULT_NO_POST: "waits for a non-blocking collective that was never started",
    lib.CV_REPLAY_FAULT_MISMATCH: "calls another operation than the other members of its communicator",
    lib.CV_REPLAY_FAULT_KIND: "has an unknown kind, operation or communicator, or a negative quantity",
}
DIM_ERRORS = {
    lib.CV_DIM_KIND: "unknown record kind",
    lib.CV_DIM_NUMBER: "a field is not a number",
    lib.CV_DIM_FIELDS: "wrong number of fields",
    lib.CV_DIM_TASK: "no such task",
    lib.CV_DIM_THREAD: "no such thread (traces with more than one thread a task are not supported)",
    lib.CV_DIM_RANGE: "a number is out of range",
    lib.CV_DIM_WILDCARD: "a wildcard source must be resolved when the trace is made",
    lib.CV_DIM_COMM: "no such communicator",
    lib.CV_DIM_OP: "unknown collective operation",
    lib.CV_DIM_SYNC: "invalid synchronization field",
}


_CTYPES = {np.uint8: "uint8_t *", np.int32: "int32_t *", np.int64: "int64_t *", np.float64: "double *"}


@dataclass(frozen=True)
class RunResult:
    """What one run gives: per-rank totals, intervals and messages (empty unless recorded), events processed."""

    ranks: NDArray[Any]
    intervals: NDArray[Any]
    messages: NDArray[Any]
    events: int
    deadlock: bool


class PackedEvents:
    """Events packed for the replay core; one run at a time.

    ``columns`` holds the arrays of :data:`COLUMNS` for all ranks, rank after rank; ``first`` (int64, ranks + 1) delimits
    them; ``member_first`` and ``members`` hold the tasks of each communicator. Raises :class:`FormatError` for a
    trace that contradicts itself.
    """

    def __init__(
        self,
        columns: Mapping[str, NDArray[Any]],
        first: NDArray[np.int64],
        member_first: NDArray[np.int64],
        members: NDArray[np.int32],
        where: str = "the trace",
    ) -> None:
        self._kept = {name: np.ascontiguousarray(columns[name], dtype) for name, dtype in COLUMNS.items()}
        self._kept |= {
            "first": np.ascontiguousarray(first, np.int64),
            "member_first": np.ascontiguousarray(member_first, np.int64),
            "members": np.ascontiguousarray(members, np.int32),
        }
        self.ranks = len(first) - 1
        self.records = int(first[-1])
        trace = ffi.new("cv_replay_trace *", {"ranks": self.ranks, "communicators": len(member_first) - 1})
        for name, array in self._kept.items():
            setattr(trace, name, pointer(array, _CTYPES[array.dtype.type]))
        handle, fault = ffi.new("cv_replay **"), ffi.new("cv_replay_fault *")
        status = lib.cv_replay_new(trace, handle, fault)
        if fault.kind:
            raise FormatError(f"Record {fault.record} of task {fault.rank} in {where} {FAULTS[fault.kind]}.")
        check(status, "packing MPI events")
        self._handle = ffi.gc(handle[0], lib.cv_replay_free)

    @property
    def memory(self) -> dict[str, int]:
        """Return the bytes the packed trace occupies and its numbers of channels and collective instances."""
        numbers = ffi.new("uint64_t[3]")
        lib.cv_replay_size_of(self._handle, numbers, numbers + 1, numbers + 2)
        return {"bytes": numbers[0], "channels": numbers[1], "instances": numbers[2]}

    def scale(
        self,
        rank_ratio: NDArray[np.float64] | None = None,
        burst_ratio: NDArray[np.float64] | None = None,
        modules: Sequence[tuple[int, int, float]] = (),
    ) -> None:
        """Set the duration of every burst: recorded / module ratio / burst ratio (one a record) / rank ratio.

        ``modules`` are type, value and ratio of regions; a ratio of 0 makes instantaneous, a negative one of a module is a fixed
        duration, which the other ratios still divide.
        """
        seconds = self._kept["seconds"]
        if modules:
            ratios = self._module_ratios(modules)
            seconds = np.where(ratios < 0, -ratios, _divided(seconds, ratios))
        if burst_ratio is not None:
            seconds = _divided(seconds, burst_ratio)
        if rank_ratio is not None:
            seconds = _divided(seconds, np.repeat(rank_ratio, np.diff(self._kept["first"])))
        lib.cv_replay_durations(self._handle, pointer(np.ascontiguousarray(seconds), "double *"))

    def _module_ratios(self, modules: Sequence[tuple[int, int, float]]) -> NDArray[np.float64]:
        """Return the ratio of the innermost region around each record, 1 outside.

        A region begins at an event of its type and value and ends at the next one of the type with value 0 that ends no region
        within it. Values of a type in ``modules`` that are not listed begin regions without effect.
        """
        listed = {(kind, value): ratio for kind, value, ratio in reversed(modules)}
        kinds, first, types, values = (self._kept[name] for name in ("kind", "first", "bytes", "extra"))
        events = np.flatnonzero((kinds == lib.CV_REPLAY_EVENT) & np.isin(types, [kind for kind, _ in listed]))
        changes = {int(begin): 1.0 for begin in first[:-1]}
        stack: list[tuple[int, float]] = []
        rank = -1
        owners = np.searchsorted(first, events, side="right") - 1
        for at, owner, kind, value in np.stack([events, owners, types[events], values[events]], axis=1).tolist():
            stack, rank = (stack if owner == rank else []), owner
            if value:
                stack.append((kind, listed.get((kind, value), stack[-1][1] if stack else 1.0)))
            elif kind in (own := [one for one, _ in stack]):
                del stack[len(own) - 1 - own[::-1].index(kind)]
            changes[at] = stack[-1][1] if stack else 1.0
        begins = sorted(changes)
        return np.repeat([changes[at] for at in begins], np.diff([*begins, self.records]))

    def run(self, network: Mapping[str, Any], record: bool) -> RunResult:
        """Replay on a network: scalars and per-node arrays by the names of ``cv_replay_network``."""
        native, kept = ffi.new("cv_replay_network *"), []
        for name, value in network.items():
            if isinstance(value, np.ndarray):
                kept.append(value)
                value = pointer(value, _CTYPES[value.dtype.type])
            setattr(native, name, value)
        result = ffi.new("cv_replay_result *")
        check(lib.cv_replay_run(self._handle, native, int(record), result), "replaying MPI events")
        try:
            return RunResult(
                copied(result.ranks, self.ranks, RANK),
                copied(result.intervals, result.interval_count, INTERVAL),
                copied(result.messages, result.message_count, MESSAGE),
                result.events,
                bool(result.deadlock),
            )
        finally:
            lib.cv_replay_result_free(result)


def _divided(seconds: NDArray[np.float64], ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        return np.where(ratio == 0, 0.0, seconds / ratio)


class DimParser:
    """Parses .dim records chunk by chunk; communicator ids become indices into ``comm_ids`` (rising)."""

    def __init__(self, tasks: int, comm_ids: NDArray[np.int32]) -> None:
        self._tasks = tasks
        self._comm_ids = np.ascontiguousarray(comm_ids, np.int32)

    def parse(self, text: bytes) -> tuple[dict[str, NDArray[Any]], int, str | None]:
        """Parse whole lines; return the columns (with ``task``), the number of good lines and what is wrong with the next one."""
        capacity = text.count(b"\n")
        columns: dict[str, NDArray[Any]] = {name: np.empty(capacity, dtype) for name, dtype in COLUMNS.items()}
        columns["task"] = np.empty(capacity, np.int32)
        native = ffi.new("cv_dim_columns *", {"capacity": capacity, "tasks": self._tasks})
        native.communicators = len(self._comm_ids)
        native.comm_ids = pointer(self._comm_ids, "int32_t *")
        for name, array in columns.items():
            setattr(native, name, pointer(array, _CTYPES[array.dtype.type]))
        consumed, lines = ffi.new("size_t *"), ffi.new("size_t *")
        error = lib.cv_dim_parse(ffi.from_buffer(text), len(text), native, consumed, lines)
        return {name: array[: native.count] for name, array in columns.items()}, lines[0], DIM_ERRORS.get(error)

"""Work of a traced program's threads: times of blocks, given to the classes of work between the events of its threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.thread_replay import TOUCH
from convolver.analyzing.known_lines import known_lines
from convolver.convolution.block_times import HIT_RATE, BlockTimes
from convolver.convolution.handed_time import COSTS, handed_seconds
from convolver.errors import UsageError
from convolver.heavy import pl
from convolver.machine.profile import MachineProfile
from convolver.tracing.class_executions import ClassExecutions
from convolver.tracing.reader import Trace
from convolver.tracing.thread_log import MOST_RECORDS
from convolver.tracing.unmixed_classes import unmixed

LINE_BYTES = 64


@dataclass(frozen=True)
class ClassWork:
    """By block: seconds of its threads as they are placed, without those in which they wait in loops of the program, over all of
    its seconds. By class of work: seconds of all of it, bytes that one instruction brings from memory and from the last level,
    and seconds that lines from other threads add to it, a row for each of the costs that they follow (:data:`COSTS`). Then
    seconds of a call, of a page and of the kernel before the second thread began."""

    worked: NDArray[np.float64]
    seconds: NDArray[np.float64]
    moved: NDArray[np.float64]
    near: NDArray[np.float64]
    handed: NDArray[np.float64]
    call: float
    fault: float
    rest: float

    def drawn(self, seconds: NDArray[np.float64], system: float) -> ClassWork:
        """Return it with other seconds, and so many times the time in the kernel."""
        return replace(self, seconds=seconds, call=self.call * system, fault=self.fault * system, rest=self.rest * system)


@dataclass(frozen=True)
class TimesApart:
    """A program on a machine with its threads on several complexes, or several on a core: how many times slower each block is
    than where each has a core of one complex, and its times there."""

    slower: NDArray[np.float64]
    times: BlockTimes


class ThreadWork:
    """What the threads of a trace do between their events: ``log``, its ``records``, and what they do to lines that others touch
    (``touched``, and ``touches`` for one instruction of each class)."""

    def __init__(self, trace: Trace) -> None:
        """Raises :class:`UsageError` for a trace of one thread, of a run whose end was not recorded, or whose log is full."""
        log = trace.thread_log
        if log is None:
            raise UsageError(f"{trace.path} has one thread, or was made before Convolver recorded threads; trace it again.")
        if not log.classes:
            raise UsageError(f"{trace.path} was cut off before its threads' work was written; let the program end.")
        if log.full:
            raise UsageError(
                f"The threads of {trace.path} met more than {MOST_RECORDS:,} times; trace a shorter run for elapsed times."
            )
        self.log = log = unmixed(log)
        self.records = log.records.copy()
        self.records[0]["faults"] = 0  # those of the program's start, most of them Valgrind's: see _system
        self._known_system = trace.signature.header.get("system") or {}
        self._executions = ClassExecutions.of(trace, log)
        self._instructions = np.zeros(self._executions.classes)
        known = log.instructions()
        self._instructions[: len(known)] = known
        self._inside = log.instructions_inside(self._executions.classes)
        self.touched, self._handed = known_lines(trace)
        self._table = trace.signature.table
        self.touches = self._touches_by_class(trace)
        self._waits = np.zeros(self.blocks)
        """Share of each block's executions in which a thread waits for another."""
        for one in self.touched.spins if self.touched is not None else ():
            self._waits[one.block] = one.share

    @property
    def blocks(self) -> int:
        """How many blocks the program has."""
        return len(self._executions)

    def of(
        self, machine: MachineProfile, times: BlockTimes, apart: TimesApart | None, costs: Mapping[str, float], apart_share: float
    ) -> ClassWork:
        """Return the work with the times of blocks on a machine, and those of threads on several complexes of its cores;
        ``costs`` of lines from other threads, which are on other cores for a part of the time."""
        here = times if apart is None else apart.times
        worked = (1 - self._waits) * (1.0 if apart is None else apart.slower)
        blocks = times.table["block"].to_numpy().astype(np.intp)
        seconds = self._by_class(blocks, worked[blocks] * times.table["seconds"].to_numpy())
        moved, near = (self._moved(here, level) for level in (-1, -2))
        handed = apart_share * self._handed_by_class(machine, worked, times, costs)
        return ClassWork(worked, seconds, moved, near, handed, *self._system(times))

    def _handed_by_class(
        self, machine: MachineProfile, worked: NDArray[np.float64], times: BlockTimes, costs: Mapping[str, float]
    ) -> NDArray[np.float64]:
        """Return the seconds that lines from other threads take of an instruction of each class, by the cost that they follow."""
        found = np.zeros((len(COSTS), len(self._instructions)))
        if self._handed is None:
            return found
        blocks = np.arange(self.blocks)
        seconds = np.zeros(self.blocks)
        seconds[times.table["block"].to_numpy().astype(np.intp)] = times.table["seconds"].to_numpy()
        for row, each in zip(found, handed_seconds(self._handed, self._table, machine, worked * seconds, costs), strict=True):
            by_class = self._by_class(blocks, each)
            np.divide(by_class, self._instructions, out=row, where=self._instructions > 0)
        found[:, 0] = 0  # before the second thread began
        return found

    def each(self, work: ClassWork) -> NDArray[np.float64]:
        """Return the seconds of one instruction of each class; what no class has belongs to the first."""
        idle = self._instructions == 0  # classes whose few instructions all went to others
        each = np.divide(work.seconds, self._instructions, out=np.zeros_like(work.seconds), where=~idle)
        each[0] += (work.rest + work.seconds[idle].sum()) / max(self._instructions[0], 1.0)
        return each

    def processor_seconds(self, work: ClassWork, totals: Mapping[str, float]) -> float:
        """Return the seconds of all intervals of a replay, and of what runs within calls of the runtime."""
        return float(totals["work"] + self.each(work) @ self._inside)

    def drawn_seconds(self, times: BlockTimes, worked: NDArray[np.float64], chosen: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the seconds of each class in chosen draws, shape (classes, draws): those of the blocks with most of the time by
        themselves, the others together."""
        assert times.draws is not None
        known = times.block_draws
        blocks = times.table["block"].to_numpy().astype(np.intp)
        seconds = times.table["seconds"].to_numpy()
        others = np.where(np.isin(blocks, list(known)), 0.0, seconds)
        single = np.stack([*known.values(), np.zeros(len(times.draws))])
        left = np.maximum(times.draws - single.sum(axis=0), 0.0) / max(others.sum(), 1e-300)
        found = np.outer(self._by_class(blocks, worked[blocks] * others), left[chosen])
        for block, drawn in known.items():
            one = np.array([block])
            found += np.outer(self._by_class(one, worked[one]), drawn[chosen])
        return found

    def _touches_by_class(self, trace: Trace) -> NDArray[Any] | None:
        """Return what threads do to lines that others touch, for one instruction of each class."""
        if self.touched is None or self.touched.touches is None:
            return None
        rows = self.touched.touches.with_row_index("row")
        executions = trace.blocks.counts["executions"].astype(float)
        each = np.divide(trace.block_memops, executions, out=np.zeros_like(executions), where=executions > 0)
        blocks = rows["block"].to_numpy().astype(np.intp)
        row, classes, executed = self._executions.of_blocks(blocks)
        instructions = np.maximum(self._instructions, 1.0)
        rates = executed * each[blocks][row] / instructions[classes]
        found = pl.DataFrame({"row": row.astype(np.uint32), "work_class": classes.astype(np.uint32), "rate": rates})
        pairs = pl.DataFrame({"work_class": self.records["work_class"], "serial": self.records["thread"].astype(np.uint32)})
        of = ("work_class", "serial", "number")
        kinds = ("loads", "atomics", "stores")
        table = (
            found.join(rows, on="row")
            .join(pairs.unique(), on=("work_class", "serial"))
            .group_by(of)
            .agg((pl.col(kind) * pl.col("rate")).sum() for kind in kinds)
            .sort(of)
        )
        touches = np.zeros(len(table), TOUCH)
        for name, column in zip(("work_class", "thread", "line", *kinds), (*of, *kinds), strict=True):
            touches[name] = table[column].to_numpy()
        return touches

    def _by_class(self, blocks: NDArray[np.intp], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share values of blocks out to classes, by executions; what no class executed belongs to the first."""
        whole = self._executions.whole[blocks]
        each = np.divide(values, whole, out=np.zeros_like(values), where=whole > 0)
        row, classes, executed = self._executions.of_blocks(blocks)
        shared = np.bincount(classes, executed * each[row], minlength=self._executions.classes).astype(float)
        shared[0] += float(values[whole == 0].sum())
        return shared

    def _moved(self, times: BlockTimes, level: int) -> NDArray[np.float64]:
        """Return the bytes that an instruction of each class brings from beyond a level (-1: the last, -2: the one before)."""
        if len(times.levels) < -level:
            return np.zeros(len(self._instructions))
        table = times.table
        blocks = table["block"].to_numpy().astype(np.intp)
        hits = table[HIT_RATE + times.levels[level]].fill_null(1.0).fill_nan(1.0).to_numpy()
        moved = self._by_class(blocks, LINE_BYTES * np.maximum(1 - hits, 0) * table["memops"].to_numpy())
        return np.divide(moved, self._instructions, out=np.zeros_like(moved), where=self._instructions > 0)

    def _system(self, times: BlockTimes) -> tuple[float, float, float]:
        """Return seconds of a call and of a page after the second thread began, and the system time before."""
        if times.system is None:
            return 0.0, 0.0, 0.0
        records, known = self.records, self._known_system
        calls, pages = float(records["calls"].sum()), float(records["faults"].sum())
        all_calls = max(calls, float(sum(entry["calls"] for entry in known.get("calls", ()))), 1.0)
        all_pages = max(
            pages, float(sum((known.get("pages") or {}).get(name, 0) for name in ("anonymous", "shared", "windows"))), 1.0
        )
        call, fault = times.system.parts["call_seconds"] / all_calls, times.system.parts["page_seconds"] / all_pages
        return call, fault, times.system.seconds - calls * call - pages * fault

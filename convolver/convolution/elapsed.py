"""Elapsed time of a program with several threads: block times given to the intervals between its events, and a replay of these.

The sum over intervals is the predicted processor time; the replay says how much of it runs at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.thread_replay import COMPACT, TOUCH, Complexes, NearWork, PackedThreads, ThreadRun
from convolver.analyzing.analyze import analyze
from convolver.analyzing.known_touches import known_touches
from convolver.convolution.block_times import HIT_RATE, BlockTimes
from convolver.convolution.convolve import convolve
from convolver.convolution.thread_costs import (
    NORMAL_90,
    SEED,
    complex_capacity,
    drawn_capacity,
    drawn_costs,
    last_level_capacity,
    memory_capacity,
    thread_costs,
)
from convolver.convolution.uncertainty import QUANTILES
from convolver.errors import UsageError
from convolver.machine.complexes import Placement, complex_cpus, has_siblings, placed, placement
from convolver.machine.profile import MachineProfile
from convolver.machine.siblings import beside_sibling
from convolver.tracing.attribution import executions_by_counter
from convolver.tracing.reader import Trace

LINE_BYTES = 64
LEAST_REPLAYS, REPLAYED_EVENTS = 20, 4e6
"""Draws of the interval are replayed one by one while they have so many events together, and so many at least."""
LOCKS_SHOWN = LINES_SHOWN = 5
REGIONS_SHOWN = 10
SHARING, MEMORY, SIBLINGS = "lines that several threads write", "memory bandwidth", "threads that share a core"
LAST = "the last level's bandwidth"
FEWER = "fewer threads than cores"
LEAST_LOST, MUCH_LOST = 0.02, 0.1
"""Share of the cores' time that a cause must take to be named; of those that threads could use, to be named first."""
LEAST_BUSY = 0.15
"""A thread that works for so much of what the threads do in the mean could use a core of its own."""
INTERVALS = 5000
"""Intervals of a thread in a timeline, about, at most."""


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
        if fewer > seconds and seconds < MUCH_LOST * (self.cores * self.seconds - fewer):
            cause, seconds = FEWER, fewer
        if seconds < LEAST_LOST * self.cores * self.seconds:
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


@dataclass(frozen=True)
class _Work:
    """By block: seconds of its threads as they are placed, without those in which they wait in loops of the program, over all of
    its seconds. By class of work: seconds of all of it, bytes that one instruction brings from memory and from the last level.
    Then seconds of a call, of a page and of the kernel before the second thread began."""

    worked: NDArray[np.float64]
    seconds: NDArray[np.float64]
    moved: NDArray[np.float64]
    near: NDArray[np.float64]
    call: float
    fault: float
    rest: float

    def drawn(self, seconds: NDArray[np.float64], system: float) -> _Work:
        """Return it with other seconds, and so many times the time in the kernel."""
        return replace(self, seconds=seconds, call=self.call * system, fault=self.fault * system, rest=self.rest * system)


@dataclass(frozen=True)
class _Node:
    """What threads share and what events cost them."""

    cores: int
    capacity: NDArray[np.float64]
    costs: Mapping[str, float]
    pairs: int
    sibling: float
    pinning: str | None
    complexes: Complexes


@dataclass(frozen=True)
class _Apart:
    """A program on a machine with its threads on several complexes: how many times slower each block is than on one, and its
    times there."""

    slower: NDArray[np.float64]
    times: BlockTimes


def core_pairs(machine: MachineProfile, cores: int) -> int:
    """Return how many cores have two of the machine's CPUs each, where probes saw that they share one or the profile says so;
    else 0."""
    return max(int(machine.cpu.get("cpus", 1)), cores) // 2 if has_siblings(machine) else 0


class ThreadReplay:
    """A traced program with several threads, to be replayed on machines."""

    def __init__(self, trace: Trace) -> None:
        """Raises :class:`UsageError` for a trace of one thread, or of a run whose end was not recorded."""
        log = trace.thread_log
        if log is None:
            raise UsageError(f"{trace.path} has one thread, or was made before Convolver recorded threads; trace it again.")
        if not log.classes:
            raise UsageError(f"{trace.path} was cut off before its threads' work was written; let the program end.")
        self._log, self._trace = log, trace
        self._siblings: dict[str, float] = {}
        self._known_apart: dict[tuple[str, Placement], _Apart] = {}
        self._records = log.records.copy()
        self._known_system = trace.signature.header.get("system") or {}
        self._records[0]["faults"] = 0  # those of the program's start, most of them Valgrind's: see _system
        self._packed = PackedThreads(self._records)
        counts = log.counts(len(trace.counters))
        matrix = executions_by_counter(trace.definitions, trace.blocks, counts.shape[0])
        self._executions = (matrix @ counts).tocsr()  # blocks by classes
        self._instructions = np.zeros(counts.shape[1])
        known = log.instructions()
        self._instructions[: len(known)] = known
        self._inside = log.instructions_inside(counts.shape[1])
        self._touched = known_touches(trace)
        self._touches = self._touches_by_class(trace)
        self._waits = np.zeros(self._executions.shape[0])
        """Share of each block's executions in which a thread waits for another."""
        for one in self._touched.spins if self._touched is not None else ():
            self._waits[one.block] = one.share

    @classmethod
    def of(cls, program: object) -> ThreadReplay | None:
        """Return the replay of a program; None for one that is no trace, had one thread or was cut off."""
        log = program.thread_log if isinstance(program, Trace) else None
        return cls(program) if isinstance(program, Trace) and log is not None and log.classes else None

    @property
    def threads(self) -> int:
        """How many threads ran."""
        return self._log.threads

    def cores(self, machine: MachineProfile) -> int:
        """Return how many cores the program has on a machine: as many as it has threads, where the profile does not say."""
        return int(machine.cpu.get("cpus", self.threads))

    def added(
        self, machine: MachineProfile, times: BlockTimes, cores: int | None = None, pinning: str | None = None
    ) -> BlockTimes:
        """Return block times with the elapsed time of :meth:`on`."""
        return times.with_elapsed(self.on(machine, times, cores=cores, pinning=pinning).document())

    def _touches_by_class(self, trace: Trace) -> NDArray[Any] | None:
        """Return what threads do to lines that others touch, for one instruction of each class."""
        if self._touched is None or self._touched.touches is None:
            return None
        import polars as pl

        rows = self._touched.touches.with_row_index("row")
        executions = trace.blocks.counts["executions"].astype(float)
        each = np.divide(trace.block_memops, executions, out=np.zeros_like(executions), where=executions > 0)
        blocks = rows["block"].to_numpy().astype(np.intp)
        known = self._executions[blocks].tocoo()
        instructions = np.maximum(self._instructions, 1.0)
        rates = known.data * each[blocks][known.row] / instructions[known.col]
        found = pl.DataFrame({"row": known.row.astype(np.uint32), "work_class": known.col.astype(np.uint32), "rate": rates})
        pairs = pl.DataFrame({"work_class": self._records["work_class"], "serial": self._records["thread"].astype(np.uint32)})
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
        part = self._executions[blocks]
        whole = np.asarray(part.sum(axis=1)).ravel()
        each = np.divide(values, whole, out=np.zeros_like(values), where=whole > 0)
        shared = np.asarray(part.T @ each).ravel()
        shared[0] += float(values[whole == 0].sum())
        return shared

    def _work(self, machine: MachineProfile, times: BlockTimes, cores: int, pinning: str | None) -> _Work:
        apart = self._apart(machine, cores, pinning)
        here = times if apart is None else apart.times
        worked = (1 - self._waits) * (1.0 if apart is None else apart.slower)
        blocks = times.table["block"].to_numpy().astype(np.intp)
        seconds = self._by_class(blocks, worked[blocks] * times.table["seconds"].to_numpy())
        return _Work(worked, seconds, self._moved(here, -1), self._moved(here, -2), *self._system(times))

    def _moved(self, times: BlockTimes, level: int) -> NDArray[np.float64]:
        """Return the bytes that an instruction of each class brings from beyond a level (-1: the last, -2: the one before)."""
        if len(times.levels) < -level:
            return np.zeros(len(self._instructions))
        table = times.table
        blocks = table["block"].to_numpy().astype(np.intp)
        hits = table[HIT_RATE + times.levels[level]].fill_null(1.0).fill_nan(1.0).to_numpy()
        moved = self._by_class(blocks, LINE_BYTES * np.maximum(1 - hits, 0) * table["memops"].to_numpy())
        return np.divide(moved, self._instructions, out=np.zeros_like(moved), where=self._instructions > 0)

    def _apart(self, machine: MachineProfile, cores: int, pinning: str | None) -> _Apart | None:
        """Return what the program does where its threads are on several complexes of cores; None where they are on one."""
        where = placement(machine, cores, pinning == COMPACT)
        where = where._replace(complexes=min(where.complexes, -(-self.threads // where.adjacent)))
        if where.complexes < 2:
            return None
        key = machine.id, where
        if key not in self._known_apart:
            other = placed(machine, where)
            analysis = analyze(self._trace, [machine, other])
            one, two = convolve(analysis, machine), convolve(analysis, other)
            slower = np.ones(self._executions.shape[0])
            known = dict(zip(one.table["block"].to_list(), one.table["seconds"].to_list(), strict=True))
            for block, seconds in zip(two.table["block"].to_list(), two.table["seconds"].to_list(), strict=True):
                if known.get(block):
                    slower[block] = seconds / known[block]
            self._known_apart[key] = _Apart(slower, two)
        return self._known_apart[key]

    def _each(self, work: _Work) -> NDArray[np.float64]:
        """Return the seconds of one instruction of each class; what no class has belongs to the first."""
        idle = self._instructions == 0  # classes whose few instructions all went to others
        each = np.divide(work.seconds, self._instructions, out=np.zeros_like(work.seconds), where=~idle)
        each[0] += (work.rest + work.seconds[idle].sum()) / max(self._instructions[0], 1.0)
        return each

    def _processor_seconds(self, work: _Work, totals: Mapping[str, float]) -> float:
        """Return the seconds of all intervals of a replay, and of what runs within calls of the runtime."""
        return float(totals["work"] + self._each(work) @ self._inside)

    def _system(self, times: BlockTimes) -> tuple[float, float, float]:
        """Return seconds of a call and of a page after the second thread began, and the system time before."""
        if times.system is None:
            return 0.0, 0.0, 0.0
        records, known = self._records, self._known_system
        calls, pages = float(records["calls"].sum()), float(records["faults"].sum())
        all_calls = max(calls, float(sum(entry["calls"] for entry in known.get("calls", ()))), 1.0)
        all_pages = max(
            pages, float(sum((known.get("pages") or {}).get(name, 0) for name in ("anonymous", "shared", "windows"))), 1.0
        )
        call, fault = times.system.parts["call_seconds"] / all_calls, times.system.parts["page_seconds"] / all_pages
        return call, fault, times.system.seconds - calls * call - pages * fault

    def on(self, machine: MachineProfile, times: BlockTimes, *, cores: int | None = None, pinning: str | None = None) -> Elapsed:
        """Replay on a machine with ``cores`` cores (default: the profile's). ``times`` are the program's block times there;
        threads stay on a CPU with a ``pinning`` (:data:`convolver._native.thread_replay.PINNINGS`)."""
        unsaid = cores is None and "cpus" not in machine.cpu
        cores = cores or self.cores(machine)
        work = self._work(machine, times, cores, pinning)
        node, notes = self._node(machine, cores, pinning)
        if unsaid:
            notes.append(f"there are {cores} CPUs for the program, as many as it has threads (--cores)")
        run = self._run(work, node)
        seconds = float(run.totals["elapsed"])
        draws = self._draws(machine, times, work, node, run.totals)
        low, high = _ends(seconds, draws, times)
        spins = self._spins(times)
        if spins:
            high = max(high, self._processor_seconds(work, run.totals))  # of threads that all wait for each other
            share = sum(one["seconds"] for one in spins) / max(times.seconds, 1e-300)
            notes.append(
                f"threads wait in a loop of the program, {spins[0]['name']}, for {share:.0%} of the CPU time, as traced:"
                " that is no work, and nobody waits there in the replay"
            )
        return Elapsed(
            machine.name,
            cores,
            self.threads,
            int(run.totals["events"]),
            seconds,
            (low, high),
            self._processor_seconds(work, run.totals),
            draws,
            _lost(run, cores),
            self._locks(run),
            self._lines(run),
            self._regions(run, cores),
            spins,
            int(run.totals["forced"]),
            notes,
        )

    def intervals(
        self, machine: MachineProfile, times: BlockTimes, *, cores: int | None = None, pinning: str | None = None
    ) -> ThreadRun:
        """Replay and keep what each thread does when, some :data:`INTERVALS` each; twice, where the times know no elapsed one."""
        cores = cores or self.cores(machine)
        work = self._work(machine, times, cores, pinning)
        node = self._node(machine, cores, pinning)[0]
        known = times.elapsed["seconds"] if times.elapsed is not None else self._run(work, node).totals["elapsed"]
        return self._run(work, node, float(known) / INTERVALS)

    def _node(self, machine: MachineProfile, cores: int, pinning: str | None) -> tuple[_Node, list[str]]:
        """Return what threads share on a machine, and what is assumed of it."""
        costs, notes = thread_costs(machine)
        capacity, more = memory_capacity(machine, cores)
        pairs = core_pairs(machine, cores)
        most = 1 if pinning == COMPACT else pairs  # threads that certainly have cores of their own
        sibling = self._beside_sibling(machine) if pairs > 0 and most < min(cores, self.threads) else 1.0
        where = placement(machine, cores, pinning == COMPACT)
        each = min(complex_cpus(machine) or cores, cores)
        through = complex_capacity(machine, each) if where.complexes > 1 else np.zeros(0)
        complexes = Complexes(*where, through, last_level_capacity(machine, each))
        if where.complexes > 1:
            spread = "fill one after the other of" if pinning == COMPACT else "are spread over"
            more.append(f"threads {spread} {where.complexes} complexes of {each} CPUs, each with a last level of its own")
        return _Node(cores, capacity, costs, pairs, sibling, pinning, complexes), [*notes, *more]

    def _beside_sibling(self, machine: MachineProfile) -> float:
        """Return how many times slower the program is as one of two on a core."""
        if machine.id not in self._siblings:
            shared = beside_sibling(machine)
            analysis = analyze(self._trace, [machine, shared])
            slower = convolve(analysis, shared).seconds / max(convolve(analysis, machine).seconds, 1e-300)
            self._siblings[machine.id] = max(slower, 1.0)
        return self._siblings[machine.id]

    def _run(self, work: _Work, node: _Node, least: float | None = None) -> ThreadRun:
        each = self._each(work)
        # The parts of its time in which a thread must have the memory bus, and the last level, at least.
        memory = _share(work.moved, node.capacity, each)
        near = np.minimum(_share(work.near, node.complexes.near_capacity, each), 1 - memory)
        return self._packed.run(
            each,
            memory,
            work.moved,
            cores=node.cores,
            capacity=node.capacity,
            costs={**node.costs, "call": work.call, "fault": work.fault},
            touches=self._touches,
            pairs=node.pairs,
            sibling=node.sibling,
            pinning=node.pinning,
            least=least,
            complexes=node.complexes,
            near=NearWork(near, work.near),
        )

    def _draws(
        self, machine: MachineProfile, times: BlockTimes, work: _Work, node: _Node, totals: Mapping[str, float]
    ) -> NDArray[np.float64] | None:
        """Return elapsed seconds, drawn: replays with the drawn times of blocks, of the kernel and of events.

        Where replays take long, fewer are made; the other draws take their elapsed over processor time in turn.
        """
        if times.draws is None or not totals["work"]:
            return None
        count = len(times.draws)
        replays = min(count, max(LEAST_REPLAYS, int(REPLAYED_EVENTS / max(totals["events"], 1))))
        system, seconds = _system_draws(times, count), self._drawn_seconds(times, work.worked, replays)
        costs, capacity = drawn_costs(machine, replays), drawn_capacity(machine, node.cores, replays)
        stretch = np.empty(replays)
        for i in range(replays):
            costs_of_it = {name: cost[i] for name, cost in costs.items()}
            part = node.complexes
            through = part._replace(capacity=capacity[i] * part.capacity, near_capacity=capacity[i] * part.near_capacity)
            drawn = replace(node, capacity=capacity[i] * node.capacity, costs=costs_of_it, complexes=through)
            drawn_work = work.drawn(seconds[:, i], system[i])
            found = self._run(drawn_work, drawn).totals
            stretch[i] = found["elapsed"] / self._processor_seconds(drawn_work, found)
        blocks, user = times.table["block"].to_numpy().astype(np.intp), times.table["seconds"].to_numpy()
        worked = (work.worked[blocks] * user).sum() / max(user.sum(), 1e-300)
        whole = worked * times.draws + system * (times.system.seconds if times.system is not None else 0.0)
        return np.asarray(whole * np.resize(stretch, count))

    def _drawn_seconds(self, times: BlockTimes, worked: NDArray[np.float64], draws: int) -> NDArray[np.float64]:
        """Return the seconds of each class in the first draws, shape (classes, draws): those of the blocks with most of the time
        by themselves, the others together."""
        assert times.draws is not None
        known = times.block_draws
        blocks = times.table["block"].to_numpy().astype(np.intp)
        seconds = times.table["seconds"].to_numpy()
        others = np.where(np.isin(blocks, list(known)), 0.0, seconds)
        single = np.stack([*known.values(), np.zeros(len(times.draws))])
        left = np.maximum(times.draws - single.sum(axis=0), 0.0) / max(others.sum(), 1e-300)
        found = np.outer(self._by_class(blocks, worked[blocks] * others), left[:draws])
        for block, drawn in known.items():
            one = np.array([block])
            found += np.outer(self._by_class(one, worked[one]), drawn[:draws])
        return found

    def _locks(self, run: ThreadRun) -> list[dict[str, Any]]:
        """Return the locks that were waited for most."""
        found = [{name: one[name].item() for name in ("object", "taken", "contended", "held", "waited")} for one in run.locks]
        found = sorted((one for one in found if one["waited"] > 0), key=lambda one: -float(one["waited"]))[:LOCKS_SHOWN]
        return [{"name": self._lock_name(int(one.pop("object"))), **one} for one in found]

    def _lines(self, run: ThreadRun) -> list[dict[str, Any]]:
        """Return the lines at which most was lost."""
        if self._touched is None:
            return []
        most = [int(one) for one in np.argsort(-run.lines)[:LINES_SHOWN] if run.lines[one] > 0]
        lines = self._touched.lines
        return [{"name": lines[one].label, "address": lines[one].address, "lost": float(run.lines[one])} for one in most]

    def _spins(self, times: BlockTimes) -> list[dict[str, Any]]:
        """Return the program's own loops in which threads wait, where that takes :data:`LEAST_LOST` of the time together."""
        if self._touched is None or not self._touched.spins:
            return []
        seconds = dict(zip(times.table["block"].to_list(), times.table["seconds"].to_list(), strict=True))
        found = [{"name": one.label, "seconds": one.share * seconds.get(one.block, 0.0)} for one in self._touched.spins]
        enough = sum(float(one["seconds"]) for one in found) >= LEAST_LOST * sum(seconds.values())
        return sorted(found, key=lambda one: -float(one["seconds"]))[:LINES_SHOWN] if enough else []

    def _regions(self, run: ThreadRun, cores: int) -> list[dict[str, Any]]:
        """Return the parallel regions that take longest, by the place that begins them."""
        places = self._log.records["place"][run.regions["record"]]
        found: list[dict[str, Any]] = []
        for place in np.unique(places):
            rows = run.regions[places == place]
            threads = int(rows["threads"].max())
            seconds, work = float(rows["seconds"].sum()), float(rows["work"].sum())
            whole = float((rows["seconds"] * np.minimum(np.maximum(rows["threads"], 1), cores)).sum())
            lost = {MEMORY: rows["saturated"].sum(), SHARING: rows["contended"].sum(), SIBLINGS: rows["paired"].sum()}
            idle = max(whole - work - sum(lost.values()), 0.0)
            lost["locks"] = min(rows["locks"].sum(), idle)
            lost["imbalance"] = idle - lost["locks"]
            cause = max(lost, key=lambda one: lost[one])
            found.append(
                {
                    "name": self._log.places.get(int(place), "a place without a name"),
                    "times": len(rows),
                    "threads": threads,
                    "seconds": seconds,
                    "work_seconds": work,
                    "efficiency": work / whole if whole else 1.0,
                    "limit": cause if lost[cause] > LEAST_LOST * whole else "nothing",
                }
            )
        return sorted(found, key=lambda one: -float(one["seconds"]))[:REGIONS_SHOWN]

    def _lock_name(self, lock: int) -> str:
        if lock == 1:
            return "the critical section without a name"
        if lock in self._log.objects:
            return self._log.objects[lock]
        records = self._log.records
        first = np.flatnonzero((records["object"] == lock) & (records["place"] > 0))
        where = self._log.places.get(int(records["place"][first[0]])) if len(first) else None
        known = where not in (None, "?")  # of older traces
        return f"a lock taken in {where} (at {lock:#x})" if known else f"a lock at {lock:#x}"


def _share(moved: NDArray[np.float64], capacity: NDArray[np.float64], each: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the part of ``each`` instruction's seconds in which one core moves its bytes; none where there is no limit."""
    single = capacity[0] if len(capacity) else np.inf
    return np.clip(np.divide(moved / single, each, out=np.zeros_like(each), where=each > 0), 0, 1)


def _system_draws(times: BlockTimes, count: int) -> NDArray[np.float64]:
    """Return factors of the time in the kernel, which errs alike on all machines."""
    if times.system is None or not 0 < times.system.low <= times.system.high:
        return np.ones(count)
    deviation = np.log(times.system.high / times.system.low) / 2 / NORMAL_90
    return np.asarray(np.exp(deviation * np.random.default_rng([SEED, 2]).standard_normal(count)))


def _ends(seconds: float, draws: NDArray[np.float64] | None, times: BlockTimes) -> tuple[float, float]:
    """Return the ends of the interval: of the draws, else as far apart as those of processor time."""
    if draws is not None:
        low, high = np.quantile(draws, QUANTILES)
        return min(float(low), seconds), max(float(high), seconds)
    whole, low, high = times.total
    return (seconds * low / whole, seconds * high / whole) if whole else (seconds, seconds)


def _lost(run: ThreadRun, cores: int) -> dict[str, float]:
    """Return the core seconds without work by cause. Waiting counts only where a core was free for it that a thread could use: in
    proportion."""
    totals, waited = run.totals, run.waited
    lost = sum(totals[name] for name in ("saturated", "near", "contended", "paired"))
    busy = run.busy
    usable = min(cores, int(np.count_nonzero(busy >= LEAST_BUSY * busy.mean()))) if busy.any() else cores
    free = max(usable * totals["elapsed"] - totals["work"] - lost, 0.0)
    causes = {
        "serial parts": waited["fork"] + waited["join"],
        "imbalance": waited["barrier"],
        "locks": waited["lock"],
        "waiting for other threads": waited["condition"],
    }
    whole = sum(causes.values())
    return {
        **{name: free * value / whole if whole else 0.0 for name, value in causes.items()},
        FEWER: (cores - usable) * totals["elapsed"],
        MEMORY: totals["saturated"],
        LAST: totals["near"],
        SHARING: totals["contended"],
        SIBLINGS: totals["paired"],
    }

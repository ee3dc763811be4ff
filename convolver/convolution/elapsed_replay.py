"""Replays of a program's threads on machines, for its elapsed time.

The sum over the intervals between events is the predicted processor time; the replay says how much of it runs at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.thread_replay import COMPACT, Complexes, NearWork, PackedThreads, ThreadRun
from convolver.analyzing.analyze import analyze
from convolver.analyzing.program_analysis import Analysis
from convolver.convolution.block_times import BlockTimes
from convolver.convolution.convolve import convolve
from convolver.convolution.elapsed import Elapsed
from convolver.convolution.handed_time import COSTS
from convolver.convolution.lost_time import contended_lines, lost_seconds, parallel_regions, spin_loops, waited_locks
from convolver.convolution.spanning import spanning
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
from convolver.convolution.thread_work import ClassWork, ThreadWork, TimesApart
from convolver.convolution.uncertainty import interval_ends
from convolver.machine.catalog import MachineName
from convolver.machine.contention import complex_cpus, has_siblings, placed, placement
from convolver.machine.memory_system import Placement
from convolver.machine.profile import MachineProfile
from convolver.machine.project import beside_sibling
from convolver.simulation.handed_lines import can_tell
from convolver.tracing.reader import Trace
from convolver.units import format_share

LEAST_REPLAYS, MOST_REPLAYS, REPLAYED_EVENTS = 12, 60, 4e6
"""Draws of the interval are replayed until they have so many events together, and so many at least and at most."""
MOST_AT_ONCE = 8
"""Replays on as many processors: each holds all events."""
INTERVALS = 5000
"""Intervals of a thread in a timeline, about, at most."""


@dataclass(frozen=True)
class _Node:
    """What threads share, what events cost them, and how many times more than that lines from other threads do."""

    cores: int
    capacity: NDArray[np.float64]
    costs: Mapping[str, float]
    dearer: Mapping[str, float]
    pairs: int
    sibling: float
    pinning: str | None
    complexes: Complexes


def core_pairs(machine: MachineProfile, cores: int) -> int:
    """Return how many cores have two of the machine's CPUs each, where probes saw that they share one or the profile says so;
    else 0."""
    return max(int(machine.cpu.get("cpus", 1)), cores) // 2 if has_siblings(machine) else 0


def larger_than_known(machine: MachineProfile, cores: int) -> str | None:
    """Return a sentence, without a full stop, where no machine with so many CPUs of this kind is known; else None."""
    most = 0 if "cpus" in machine.cpu else machine.known_cpus
    return f"the largest machine known with its CPU has {most} CPUs, not {cores}" if 0 < most < cores else None


class ThreadReplay:
    """A traced program with several threads, to be replayed on machines."""

    def __init__(self, trace: Trace) -> None:
        """Raises :class:`UsageError` as :class:`ThreadWork` does."""
        self._trace, self._program = trace, ThreadWork(trace)
        self._siblings: dict[str, float] = {}
        self._known_apart: dict[tuple[str, Placement], TimesApart] = {}
        self._packed = PackedThreads(self._program.records)

    @classmethod
    def of(cls, program: object) -> ThreadReplay | None:
        """Return the replay of a program; None for one that is no trace, had one thread or was cut off."""
        log = program.thread_log if isinstance(program, Trace) else None
        return cls(program) if isinstance(program, Trace) and log is not None and log.classes and not log.full else None

    @property
    def threads(self) -> int:
        """How many threads ran."""
        return self._program.log.threads

    def cores(self, machine: MachineProfile) -> int:
        """Return how many cores the program has on a machine: those that were probed, else as many as it has threads and the
        largest machine known has."""
        return int(machine.cpu.get("cpus", min(self.threads, machine.known_cpus or self.threads)))

    def added(
        self, machine: MachineProfile, times: BlockTimes, cores: int | None = None, pinning: str | None = None
    ) -> BlockTimes:
        """Return block times with the elapsed time of :meth:`on`."""
        return times.with_elapsed(self.on(machine, times, cores=cores, pinning=pinning).document())

    def _work(self, machine: MachineProfile, times: BlockTimes, cores: int, pinning: str | None) -> ClassWork:
        apart = 1 - 1 / cores if self.threads > cores else 1.0  # of the time: who had a line ran on another core
        return self._program.of(machine, times, self._apart(machine, cores, pinning), thread_costs(machine)[0], apart)

    def _apart(self, machine: MachineProfile, cores: int, pinning: str | None) -> TimesApart | None:
        """Return what the program does where its threads are on several complexes of cores; None where each has a core of one."""
        where = placement(machine, cores, pinning == COMPACT)
        if where.adjacent >= self.threads:
            where = Placement()
        where = where._replace(complexes=min(where.complexes, -(-self.threads // where.adjacent)))
        if round(self._program.log.at_once) > cores and can_tell(self._trace):
            where = where._replace(cores=cores)
        if where == Placement():
            return None
        key = machine.id, where
        if key not in self._known_apart:
            other = placed(machine, where)
            analysis = analyze(self._trace, [machine, other])
            one, two = convolve(analysis, machine), convolve(analysis, other)
            slower = np.ones(self._program.blocks)
            known = dict(zip(one.table["block"].to_list(), one.table["seconds"].to_list(), strict=True))
            for block, seconds in zip(two.table["block"].to_list(), two.table["seconds"].to_list(), strict=True):
                if known.get(block):
                    slower[block] = seconds / known[block]
            self._known_apart[key] = TimesApart(slower, two)
        return self._known_apart[key]

    def on(self, machine: MachineProfile, times: BlockTimes, *, cores: int | None = None, pinning: str | None = None) -> Elapsed:
        """Replay on a machine with ``cores`` cores (default: the profile's). ``times`` are the program's block times there;
        threads stay on a CPU with a ``pinning`` (:data:`convolver._native.thread_replay.PINNINGS`)."""
        unsaid = cores is None and "cpus" not in machine.cpu
        cores = cores or self.cores(machine)
        work = self._work(machine, times, cores, pinning)
        node, notes = self._node(machine, cores, pinning)
        if unsaid:
            why = "as many as it has threads" if cores == self.threads else "those of the largest machine known"
            notes.append(f"there are {cores} CPUs for the program, {why} (--cores)")
        elif too_large := larger_than_known(machine, cores):
            notes.append(too_large)
        if not can_tell(self._trace):
            notes.append("lines that threads hand over at barriers cost nothing: the trace has no order of all threads")
        run = self._run(work, node)
        seconds = float(run.totals["elapsed"])
        draws = self._draws(machine, times, work, node, run.totals)
        low, high = _ends(seconds, draws, times)
        spins = spin_loops(times, self._program.touched)
        if spins:
            high = max(high, self._program.processor_seconds(work, run.totals))  # of threads that all wait for each other
            share = sum(one["seconds"] for one in spins) / max(times.seconds, 1e-300)
            notes.append(
                f"threads wait in a loop of the program, {spins[0]['name']}, for {format_share(share)} of the CPU time, as "
                "traced: that is no work, and nobody waits there in the replay"
            )
        return Elapsed(
            machine.name,
            cores,
            self.threads,
            int(run.totals["events"]),
            seconds,
            (low, high),
            self._program.processor_seconds(work, run.totals),
            draws,
            lost_seconds(run, cores),
            waited_locks(run, self._program.log),
            contended_lines(run, self._program.touched),
            parallel_regions(run, cores, self._program.log),
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
        complexes = Complexes(where.complexes, where.adjacent, through, last_level_capacity(machine, each))
        if where.complexes > 1:
            spread = "fill one after the other of" if pinning == COMPACT else "are spread over"
            more.append(f"threads {spread} {where.complexes} complexes of {each} CPUs, each with a last level of its own")
        dearer = dict.fromkeys(COSTS, 1.0)
        return _Node(cores, capacity, costs, dearer, pairs, sibling, pinning, complexes), [*notes, *more]

    def _beside_sibling(self, machine: MachineProfile) -> float:
        """Return how many times slower the program is as one of two on a core."""
        if machine.id not in self._siblings:
            shared = beside_sibling(machine)
            analysis = analyze(self._trace, [machine, shared])
            slower = convolve(analysis, shared).seconds / max(convolve(analysis, machine).seconds, 1e-300)
            self._siblings[machine.id] = max(slower, 1.0)
        return self._siblings[machine.id]

    def _run(self, work: ClassWork, node: _Node, least: float | None = None) -> ThreadRun:
        each = self._program.each(work)
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
            touches=self._program.touches,
            pairs=node.pairs,
            sibling=node.sibling,
            pinning=node.pinning,
            least=least,
            complexes=node.complexes,
            near=NearWork(near, work.near),
            handed=np.array([node.dearer[name] for name in COSTS]) @ work.handed,
        )

    def _draws(
        self, machine: MachineProfile, times: BlockTimes, work: ClassWork, node: _Node, totals: Mapping[str, float]
    ) -> NDArray[np.float64] | None:
        """Return elapsed seconds, drawn: replays with the drawn times of blocks, of the kernel and of events.

        Where replays take long, fewer are made: the draws, ordered by their seconds, fall into as many parts, and all of a part
        have the elapsed over processor time of one.
        """
        if times.draws is None or not totals["work"]:
            return None
        count = len(times.draws)
        replays = min(count, MOST_REPLAYS, max(LEAST_REPLAYS, int(REPLAYED_EVENTS / max(totals["events"], 1))))
        part_of = np.empty(count, np.intp)
        part_of[np.argsort(times.draws, kind="stable")] = np.arange(count) * replays // count
        chosen = np.unique(part_of, return_index=True)[1]
        system, seconds = _system_draws(times, count), self._program.drawn_seconds(times, work.worked, chosen)
        costs, capacity = drawn_costs(machine, replays), drawn_capacity(machine, node.cores, replays)

        def stretch(i: int) -> float:
            part = node.complexes
            through = part._replace(capacity=capacity[i] * part.capacity, near_capacity=capacity[i] * part.near_capacity)
            costs_of_it = {name: cost[i] for name, cost in costs.items()}
            dearer = {name: costs_of_it[name] / node.costs[name] for name in COSTS}
            drawn = replace(node, capacity=capacity[i] * node.capacity, costs=costs_of_it, dearer=dearer, complexes=through)
            drawn_work = work.drawn(seconds[:, i], system[chosen[i]])
            found = self._run(drawn_work, drawn).totals
            return float(found["elapsed"]) / self._program.processor_seconds(drawn_work, found)

        pool = ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), MOST_AT_ONCE))
        try:
            stretches = np.array(list(pool.map(stretch, range(replays))))
        finally:
            pool.shutdown(cancel_futures=True)
        blocks, user = times.table["block"].to_numpy().astype(np.intp), times.table["seconds"].to_numpy()
        worked = (work.worked[blocks] * user).sum() / max(user.sum(), 1e-300)
        whole = worked * times.draws + system * (times.system.seconds if times.system is not None else 0.0)
        return np.asarray(whole * stretches[part_of])


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
        low, high = interval_ends(draws)
        return min(float(low), seconds), max(float(high), seconds)
    whole, low, high = times.total
    return (seconds * low / whole, seconds * high / whole) if whole else (seconds, seconds)


def times_on(
    analysis: Analysis,
    machine: MachineProfile,
    threads: ThreadReplay | None = None,
    cores: int | None = None,
    pinning: str | None = None,
    *,
    beside: MachineName | None = None,
    waiting_seconds: float | None = None,
    **how: Any,
) -> BlockTimes:
    """Return a program's times on a machine: convolved as ``how`` says, and its ``threads``, where it has some, replayed.

    ``beside``: the machine in another state, which the interval then includes.
    """
    found = convolve(analysis, machine, waiting_seconds=waiting_seconds, **how)
    if beside is not None:
        found = spanning(found, convolve(analysis, beside, **how))
    return found if threads is None else threads.added(machine, found, cores, pinning)

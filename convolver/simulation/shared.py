"""Threads or ranks on cores of one machine: each has the private levels for itself, all share the others, and they take turns.

Threads of a trace share an address space. Traces of several processes do not: their lines differ, but fall into the sets that
their virtual addresses name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from convolver._native.simulator import Counts
from convolver._native.trace_decoder import WINDOW
from convolver.errors import SimulationError, UsageError
from convolver.progress import SILENT, Progress, step
from convolver.simulation.detailed import DetailedMachine, Details
from convolver.simulation.group import BlockSums
from convolver.simulation.hit_rate_table import SimulatedRuns
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.level_samples import BURSTS, sampled
from convolver.simulation.targets import MachineLike, Target, targets

if TYPE_CHECKING:
    from convolver.tracing.reader import Trace

SPACE_BIT = 56
"""Address bits from here on tell processes apart; user space ends far below."""


class CoreThread(NamedTuple):
    """What a core runs: one thread of one of the traces."""

    trace: int
    thread: int


class _Stream:
    """The references of one core, cut into turns. ``costs``: what a reference of each site uses up of a turn."""

    def __init__(self, trace: Trace, core: CoreThread, first_owner: int, costs: NDArray[np.float64]) -> None:
        self._batches = (batch for batch in trace.batches() if batch.kind == WINDOW and batch.thread == core.thread)
        self._space = np.uint64(core.trace << SPACE_BIT)
        self._first_owner = np.uint32(first_owner)
        self._costs = costs
        self._rest: list[NDArray[Any]] = []
        self._used = np.zeros(0)
        self._before = 0.0
        self._warm, self._burst = False, 0

    def _next(self) -> bool:
        """Make sure that there is a reference; False at the end."""
        while not len(self._used):
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._rest = [batch.addresses ^ self._space, batch.sizes, batch.writes, batch.sites + self._first_owner]
            self._used, self._before = np.cumsum(self._costs[batch.sites]), 0.0
            self._warm, self._burst = bool(batch.warm), batch.window
        return True

    def turn(self, length: float) -> Iterator[tuple[bool, int, list[NDArray[Any]]]]:
        """Yield references that use up ``length``, at least one, or what is left: are they warm-up, their burst, their arrays."""
        while length > 0 and self._next():
            count = min(int(np.searchsorted(self._used, self._before + length)) + 1, len(self._used))
            yield self._warm, self._burst, [np.ascontiguousarray(array[:count]) for array in self._rest]
            length -= float(self._used[count - 1]) - self._before
            self._before = float(self._used[count - 1])
            self._rest, self._used = [array[count:] for array in self._rest], self._used[count:]


class _Part:
    """The counts of one of the traces: a stretch of the owners."""

    def __init__(self, machine: DetailedMachine, owners: slice) -> None:
        self._machine, self._owners = machine, owners

    def grouped_counts(self, machine: Target, level: int) -> Counts:
        return Counts(*(array[self._owners] for array in self._machine.grouped_counts(level)))

    def more_counts(self, machine: Target, level: int) -> dict[str, NDArray[np.uint64]]:
        return {name: array[self._owners] for name, array in self._machine.more_counts(level).items()}


def cores_of(traces: Sequence[Trace]) -> list[CoreThread]:
    """Return the cores that the threads of the traces need, in order; raises :class:`SimulationError` where there are none."""
    found = []
    for place, trace in enumerate(traces):
        if sampled(trace.header.get("sampling")).windows is None:
            raise SimulationError("Shared caches need references in order; record the trace with bursts or in full.")
        threads = sorted({batch.thread for batch in trace.batches() if batch.kind == WINDOW})
        found += [CoreThread(place, thread) for thread in threads]
    if not found:
        raise SimulationError("The traces hold no references; nothing shares a cache.")
    return found


def _take_turns(machine: DetailedMachine, streams: Sequence[_Stream], turn: float, whole: int, progress: Progress) -> None:
    running = dict(enumerate(streams))
    with step(progress, "Simulating cores in turn", float(whole) if whole else None, unit="references"):
        while running:
            for core, stream in list(running.items()):
                pieces = 0
                for warm, burst, (addresses, sizes, writes, owners) in stream.turn(turn):
                    machine.simulator.warm(warm)
                    machine.simulator.burst(burst)
                    machine.simulator.feed(addresses, sizes, writes, owners, core=core)
                    progress.advance(len(addresses))
                    pieces += 1
                if not pieces:
                    del running[core]


def _sharing(target: Target) -> Target:
    """Return a machine with the levels marked that its cores share; raises :class:`UsageError` where there are none."""
    levels, private = target.hierarchy, target.system.private_levels
    if private == len(levels):
        raise UsageError(f"'{target.name}' has one level, which is private; mark it with \"shared\": true.")
    shared = (msgspec.structs.replace(level, shared=True) for level in levels[private:])
    return target._replace(system=target.system._replace(hierarchy=(*levels[:private], *shared)))


def simulate_shared(
    traces: Sequence[Trace],
    machine: MachineLike,
    *,
    turn: float = 1000,
    costs: Sequence[NDArray[np.float64]] | None = None,
    progress: Progress = SILENT,
) -> list[HitRates]:
    """Simulate every thread of the traces on a core of its own and return the hit rates of each trace.

    The cores take turns of ``turn`` references, or, with ``costs`` (per trace, for each site), of references that cost as much:
    instructions per reference make turns of so many instructions. Of a machine that marks no level as shared it is the last.
    Raises :class:`UsageError` where that is the only one.
    """
    target = _sharing(*targets(machine))
    if not 0 < turn < math.inf:
        raise UsageError(f"A turn of {turn} is not possible; it takes at least one reference or instruction.")
    cores = cores_of(traces)
    sites = [len(trace.site_blocks) for trace in traces]
    first = np.concatenate([[0], np.cumsum(sites)]).astype(int)
    used = costs if costs is not None else [np.ones(count) for count in sites]
    simulated = DetailedMachine(target.system, Details(), cores=len(cores))
    if any(sampled(trace.header.get("sampling")).windows == BURSTS for trace in traces):
        simulated.simulator.group_bursts()
    streams = [_Stream(traces[core.trace], core, int(first[core.trace]), used[core.trace]) for core in cores]
    whole = sum(int(trace.header.get("recorded_references") or 0) for trace in traces)
    _take_turns(simulated, streams, turn, whole, progress)
    sharing = {"cores": len(cores), "turn": turn, "by": "references" if costs is None else "instructions"}
    return [_rates(trace, target, simulated, slice(first[k], first[k + 1]), sharing) for k, trace in enumerate(traces)]


def _rates(trace: Trace, target: Target, machine: DetailedMachine, owners: slice, sharing: dict[str, Any]) -> HitRates:
    part = _Part(machine, owners)
    blocks = BlockSums(np.asarray(trace.site_blocks, dtype=np.uint32), owners.stop - owners.start)
    runs = SimulatedRuns(sampled(trace.header.get("sampling")), part, None, blocks)
    references = sum(len(batch.addresses) for batch in trace.batches() if batch.kind == WINDOW and not batch.warm)
    return runs.hit_rates([target], references, {"trace": trace.id}, trace.header.get("sampling"), {"sharing": sharing})


def instructions_per_reference(trace: Any) -> NDArray[np.float64]:
    """Return for each site of a trace the instructions of its block per memory reference: ``costs`` for turns of instructions."""
    table = trace.signature.table
    memops = np.maximum(table["memops"].to_numpy().astype(float), 1)
    per_block = np.maximum(table["instructions"].to_numpy() / memops, 1e-3)
    return np.asarray(per_block[trace.site_blocks])

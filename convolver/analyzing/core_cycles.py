"""Cycles of blocks on the cores of machines, along the executed paths of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from convolver._native.path_sample import PathSample
from convolver.analyzing.core_causes import Causes, core_causes
from convolver.analyzing.falls import DEPENDENT, RANDOM, Array, Falls
from convolver.errors import PredictionError
from convolver.execution.core_time import FarLevels, Walk, WalkedCore, core_table, core_times
from convolver.execution.sampled_walk import CORE_ERROR
from convolver.heavy import pl
from convolver.machine.maps import MEMORY
from convolver.machine.profile import MachineProfile
from convolver.progress import SILENT, Progress
from convolver.tracing.reader import Trace

MOST_CYCLES = 60_000
"""Latencies are kept in 16 bits."""


def far_levels(where: Falls, machine: MachineProfile) -> FarLevels:
    """Return the farther levels of a calibrated machine; a line whose page's translation is not near adds the walk's latency.
    On cores that follow steps of any length, nothing waits for lines in long strides; on those that follow late, the first lines
    of a stream take the second level's latency, since those from farther away are prefetched up to there.

    Raises :class:`PredictionError` for a profile without a calibration or a cycle.
    """
    calibration = machine.calibration
    if calibration is None:
        raise PredictionError(f"'{machine.name}' is not calibrated, so the latencies of its levels are not known.")
    cycle = machine.throughput("cycle").seconds
    by_pattern = where.lines(np.ones(len(where.sampled)))
    lines = np.where(where.sampled[:, None], np.minimum(by_pattern[:, :, RANDOM:].sum(axis=2), 1.0), 0.0)
    pages = where.page_misses
    walks = pages[:, RANDOM] + pages[:, DEPENDENT]
    walked = np.minimum(walks / np.maximum(lines.sum(axis=1), 1e-12), 1.0) * calibration.walk_latency
    core = core_table(machine)[0]
    if where.long_strides is not None and core.follows_long_strides:
        lines = np.maximum(lines - by_pattern[:, :, RANDOM] * where.long_strides, 0.0)
    if where.early is not None and core.follows_late:
        lines[:, 0] += (by_pattern[:, :, :RANDOM].sum(axis=2) * np.minimum(where.early, 1.0)).sum(axis=1)
    walk, far = (
        np.minimum(np.rint(seconds / cycle), MOST_CYCLES).astype(np.uint16)
        for seconds in (walked, np.broadcast_to(calibration.latency, lines.shape))
    )
    return FarLevels(lines.astype(np.float32), far, walk)


@dataclass(frozen=True)
class CoreCycles:
    """Cycles of each block (row of the signature) in the whole run, shape (blocks), along executed paths.

    ``near``: all data in the first level. ``waiting``: lines that come out of order are as far away as they are; the same as
    ``near`` for a machine without a calibration. ``cycle_seconds``: how long the cycles of ``waiting`` beyond ``near`` take,
    which another clock of the core does not change. ``errors``: relative standard error of each block's cycles, between the
    windows that were walked (None: not known); ``error``: that of the whole program's. ``near_causes`` and ``waiting_causes``:
    what the cycles of each were spent on, which add up to them (empty: not known).
    """

    near: Array
    waiting: Array
    cycle_seconds: float
    errors: Array | None = None
    error: float | None = None
    near_causes: Causes = field(default_factory=dict)
    waiting_causes: Causes = field(default_factory=dict)

    def of_rows(self, rows: NDArray[np.intp], factor: Array) -> CoreCycles:
        """Return the cycles of these blocks, each times its factor."""
        errors = None if self.errors is None else self.errors[rows]
        near, waiting = (
            {name: values[rows] * factor for name, values in causes.items()} for causes in (self.near_causes, self.waiting_causes)
        )
        return CoreCycles(
            self.near[rows] * factor, self.waiting[rows] * factor, self.cycle_seconds, errors, self.error, near, waiting
        )


def cycle_seconds(machine: MachineProfile) -> float | None:
    """Return how long a cycle takes at the clock of the profile's near figures; None where the profile does not say."""
    try:
        return machine.throughput("cycle").seconds
    except PredictionError:
        return None


def has_paths(trace: Any) -> TypeGuard[Trace]:
    """True for a stored trace in which each visit is followed by what was executed next."""
    return isinstance(trace, Trace) and trace.whole_paths and len(trace.definitions.segments) > 0


def core_cycles(
    trace: Any,
    machines: Sequence[tuple[MachineProfile, Falls]],
    sample: PathSample | None = None,
    progress: Progress = SILENT,
    core_error: float = CORE_ERROR,
) -> list[CoreCycles | None]:
    """Return the cycles of a trace's blocks on each machine, given where its lines are found, and a sample of its paths.

    ``core_error``: relative standard error of the program's cycles at which the walk ends. None for a machine whose profile does
    not say how long a cycle takes, and for all where the trace holds no executed paths (counts alone, a trace of another tool, a
    run that was not stored).
    """
    cycles = [cycle_seconds(machine) for machine, _ in machines]
    if not has_paths(trace):
        return [None] * len(machines)
    machine_walks = []
    for (machine, where), cycle in zip(machines, cycles, strict=True):
        if cycle is None:
            continue
        near = Walk(core_table(machine)[0], machine.hierarchy[0].line_bytes, target=core_error)
        machine_walks.append([near] if machine.calibration is None else [near, near._replace(far=far_levels(where, machine))])
    walked = iter(core_times(trace, machine_walks, progress, sample=sample) if machine_walks else [])
    counts = trace.signature.table.select("executions", "instructions")
    found: list[CoreCycles | None] = []
    for (machine, _), cycle in zip(machines, cycles, strict=True):
        found.append(None if cycle is None else _cycles(next(walked), counts, cycle, machine))
    return found


def _totals(walked: WalkedCore, counts: pl.DataFrame) -> Array:
    """Return the cycles of each block of a signature; of those that only another pass counted (they follow after the walked ones)
    by their instructions, each of which takes as long as one of the others."""
    each = walked.table["cycles_per_execution"].to_numpy()
    instructions = counts["instructions"].to_numpy().astype(float)
    cycles = each * counts["executions"].to_numpy()[: len(each)]
    per_instruction = cycles.sum() / max(instructions[: len(each)].sum(), 1.0)
    return np.concatenate([cycles, per_instruction * instructions[len(each) :]])


def _cycles(walked: Sequence[WalkedCore], counts: pl.DataFrame, cycle: float, machine: MachineProfile) -> CoreCycles:
    levels = [*(level.level for level in machine.hierarchy), MEMORY]
    totals = [_totals(one, counts) for one in walked]
    unwalked = counts.height - len(walked[-1].causes)
    causes = [
        core_causes(total, np.pad(one.causes, ((0, unwalked), (0, 0))), one.walk, levels)
        for total, one in zip(totals, walked, strict=True)
    ]
    errors = np.pad(walked[-1].table["error"].to_numpy(), (0, unwalked))
    return CoreCycles(totals[0], totals[-1], cycle, errors, walked[-1].error, causes[0], causes[-1])

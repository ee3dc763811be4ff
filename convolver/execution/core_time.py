"""Core time: cycles of a block when its data are near, from executed paths or, where no window shows it, from its code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from convolver._native.branch_predictor import Branches
from convolver._native.core_walk import Core
from convolver.execution.calibrated import calibrated_core
from convolver.execution.core_parameters import core_parameters
from convolver.execution.program import Operations, operations, program_code
from convolver.execution.static import static_cycles
from convolver.machine.cores import CoreTable, choose_core
from convolver.progress import SILENT, Progress
from convolver.tracing.definitions import CONTINUED

if TYPE_CHECKING:
    import polars as pl

    from convolver.machine.profile import MachineProfile
    from convolver.tracing.reader import Trace

WINDOW, STATIC = "window", "static"
LEAST_EXECUTIONS = 3
"""A block that the windows show more rarely is estimated from its code: the first execution in a window fills the pipeline."""


class Places(NamedTuple):
    """For each block and farther place the share of the block's references that bring a line from there out of order, and the
    cycles until it is there: arrays (blocks, places). ``walks``: cycles until the page of such a line is translated, one a
    block."""

    rates: NDArray[np.float32]
    latencies: NDArray[np.uint16]
    walks: NDArray[np.uint16]


class Walk(NamedTuple):
    """One walk: a core with lines of so many bytes, and how far away its data are (None: all in the first level)."""

    table: CoreTable
    line_bytes: int
    places: Places | None = None


def core_table(machine: MachineProfile) -> tuple[CoreTable, str]:
    """Return the core table of a machine, with what its probes measured, and how the table was found (:func:`choose_core`)."""
    table, how = choose_core(machine.cpu)
    return calibrated_core(table, machine)[0], how


def core_time(
    trace: Trace, machine: MachineProfile, *, table: CoreTable | None = None, progress: Progress = SILENT
) -> pl.DataFrame:
    """Return one row a block of the trace's signature: ``block``, ``cycles_per_execution``, ``how``, ``share``.

    ``how`` is "window" (walked through the core model along executed paths, with predicted branches) or "static" (its code alone:
    the larger of ports and loop-carried dependence), ``share`` the part of its executions that windows show. All loads hit the
    first level. ``table`` replaces the machine's core.
    """
    walk = Walk(table or core_table(machine)[0], machine.hierarchy[0].line_bytes)
    return core_times(trace, [walk], progress)[0]


def core_times(trace: Trace, walks: Sequence[Walk], progress: Progress = SILENT) -> list[pl.DataFrame]:
    """Return what :func:`core_time` does for each of several walks, from one pass through the trace."""
    operated: dict[bytes, Operations] = {}
    keys = [msgspec.json.encode(walk.table) for walk in walks]
    for key, walk in zip(keys, walks, strict=True):
        operated[key] = operated.get(key) or operations(trace.definitions, walk.table)
    prepared = [(walk, operated[key]) for key, walk in zip(keys, walks, strict=True)]
    models: list[Core] = []
    if trace.whole_paths and len(trace.definitions.instructions):
        models = [_model(trace, *one) for one in prepared]
        trace.walk(lambda decoder, paths: _attach(models, decoder, paths), progress)
    static: dict[bytes, NDArray[np.float64]] = {}  # the code alone knows nothing of where data are: once a table
    frames = []
    for number, (key, (walk, ops)) in enumerate(zip(keys, prepared, strict=True)):
        cycles, seen = _by_block(trace, models[number] if models else None)
        if key not in static:
            unseen = (seen < LEAST_EXECUTIONS) & (trace.blocks.counts["executions"] > 0)
            static[key] = static_cycles(trace.definitions, trace.blocks, ops, walk.table, np.flatnonzero(unseen))
        frames.append(_frame(trace, cycles, seen, static[key]))
    return frames


def _model(trace: Trace, walk: Walk, ops: Operations) -> Core:
    parameters = core_parameters(walk.table, walk.line_bytes)
    model = Core(parameters, ops.classes, program_code(trace.definitions, ops))
    if walk.places is not None:
        model.places(trace.site_blocks, *walk.places)
    return model


def _attach(models: Sequence[Core], decoder: Any, paths: Any) -> None:
    branches = Branches(decoder)
    branches.attach(paths)
    for model in models:
        model.attach(paths, branches)


def _frame(trace: Trace, cycles: NDArray[np.float64], seen: NDArray[np.float64], static: NDArray[np.float64]) -> pl.DataFrame:
    import polars as pl

    blocks = trace.blocks
    executions = blocks.counts["executions"].astype(float)
    window = seen >= LEAST_EXECUTIONS
    return pl.DataFrame(
        {
            "block": np.arange(len(blocks), dtype=np.uint32),
            "cycles_per_execution": np.where(window, cycles / np.maximum(seen, 1e-9), static),
            "how": np.where(window, WINDOW, STATIC),
            "share": np.where(window, np.minimum(seen / np.maximum(executions, 1), 1.0), 0.0),
        }
    )


def _by_block(trace: Trace, model: Core | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return cycles and executions of each block in the windows, none where nothing was walked."""
    blocks = trace.blocks
    if model is None:
        return np.zeros(len(blocks)), np.zeros(len(blocks))
    of = blocks.instruction_blocks
    cycles = np.bincount(of, weights=model.cycles.astype(float), minlength=len(blocks))
    own = (trace.definitions.instructions["flags"] & CONTINUED) == 0
    walked = np.bincount(of[own], weights=model.executions[own].astype(float), minlength=len(blocks))
    executions = blocks.counts["executions"].astype(float)
    length = np.divide(blocks.counts["instructions"], executions, out=np.ones(len(blocks)), where=executions > 0)
    return cycles.astype(float), np.asarray(walked / np.maximum(length, 1.0))

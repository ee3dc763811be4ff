"""Core time: cycles of a block when its data are near, from executed paths or, where no window shows it, from its code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native.branches import Branches
from convolver._native.core import Core
from convolver.execution.calibrated import calibrated_core
from convolver.execution.core_parameters import core_parameters
from convolver.execution.program import operations, program_code
from convolver.execution.static import static_cycles
from convolver.machine.cores import CoreTable, choose_core
from convolver.progress import SILENT, Progress
from convolver.tracing.definitions import CONTINUED
from convolver.tracing.windows import walk_paths

if TYPE_CHECKING:
    import polars as pl

    from convolver.machine.profile import MachineProfile
    from convolver.tracing.reader import Trace

WINDOW, STATIC = "window", "static"
LEAST_EXECUTIONS = 3
"""A block that the windows show more rarely is estimated from its code: the first execution in a window fills the pipeline."""


class Places(NamedTuple):
    """Where the loads of each site are served, beyond the first level: shares and cycles, arrays (sites, places)."""

    rates: NDArray[np.float32]
    latencies: NDArray[np.uint16]


def core_table(machine: MachineProfile) -> tuple[CoreTable, str]:
    """Return the core table of a machine, with what its probes measured, and how the table was found (:func:`choose_core`)."""
    table, how = choose_core(machine.cpu)
    return calibrated_core(table, machine)[0], how


def core_time(
    trace: Trace,
    machine: MachineProfile,
    hit_levels: Places | None = None,
    *,
    table: CoreTable | None = None,
    progress: Progress = SILENT,
) -> pl.DataFrame:
    """Return one row a block of the trace's signature: ``block``, ``cycles_per_execution``, ``how``, ``share``.

    ``how`` is "window" (walked through the core model along executed paths, with predicted branches) or "static" (its code alone:
    the larger of ports and loop-carried dependence), ``share`` the part of its executions that windows show. With ``hit_levels``
    loads take the time of the place that serves them; all hit the first level otherwise. ``table`` replaces the machine's core.
    """
    import polars as pl

    core = table or core_table(machine)[0]
    definitions, blocks = trace.definitions, trace.blocks
    ops = operations(definitions, core)
    cycles, seen = np.zeros(len(blocks)), np.zeros(len(blocks))
    if trace.whole_paths and len(ops.op):
        line = machine.hierarchy[0].line_bytes
        model = Core(core_parameters(core, line), ops.classes, program_code(definitions, ops))
        if hit_levels is not None:
            model.places(*hit_levels)
        walk_paths(trace, lambda decoder, paths: _attach(model, decoder, paths), progress=progress)
        cycles, seen = _by_block(trace, model)
    executions = blocks.counts["executions"].astype(float)
    window = seen >= LEAST_EXECUTIONS
    static = static_cycles(definitions, blocks, ops, core, np.flatnonzero(~window & (executions > 0)))
    return pl.DataFrame(
        {
            "block": np.arange(len(blocks), dtype=np.uint32),
            "cycles_per_execution": np.where(window, cycles / np.maximum(seen, 1e-9), static),
            "how": np.where(window, WINDOW, STATIC),
            "share": np.where(window, np.minimum(seen / np.maximum(executions, 1), 1.0), 0.0),
        }
    )


def _attach(model: Core, decoder: Any, paths: Any) -> None:
    branches = Branches(decoder)
    branches.attach(paths)
    model.attach(paths, branches)


def _by_block(trace: Trace, model: Core) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return cycles and executions of each block in the windows."""
    blocks = trace.blocks
    of = blocks.instruction_blocks
    cycles = np.bincount(of, weights=model.cycles.astype(float), minlength=len(blocks))
    own = (trace.definitions.instructions["flags"] & CONTINUED) == 0
    walked = np.bincount(of[own], weights=model.executions[own].astype(float), minlength=len(blocks))
    executions = blocks.counts["executions"].astype(float)
    length = np.divide(blocks.counts["instructions"], executions, out=np.ones(len(blocks)), where=executions > 0)
    return cycles.astype(float), np.asarray(walked / np.maximum(length, 1.0))

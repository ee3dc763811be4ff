"""Core time in seconds, for the convolution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from convolver.errors import PredictionError
from convolver.execution.core_time import core_table, core_time
from convolver.progress import SILENT, Progress
from convolver.tracing.reader import Trace

if TYPE_CHECKING:
    from convolver.machine.profile import MachineProfile


def core_seconds(
    trace: Any, machines: Iterable[MachineProfile], progress: Progress = SILENT
) -> dict[str, NDArray[np.float64]] | None:
    """Return the seconds of each block (row of the signature) with all its data near, by the id of the machine.

    None where they are not known for all the machines alike: the trace holds no executed paths (counts alone, a trace of another
    tool, a run that was not stored), or a profile does not say how long a cycle takes.
    """
    if not isinstance(trace, Trace) or not trace.whole_paths or not len(trace.definitions.segments):
        return None
    walked: dict[bytes, NDArray[np.float64]] = {}
    found = {}
    for machine in machines:
        try:
            cycle = machine.throughput("cycle").seconds
        except PredictionError:
            return None
        table = core_table(machine)[0]
        key = msgspec.json.encode((table, machine.hierarchy[0].line_bytes))
        if key not in walked:
            cycles = core_time(trace, machine, table=table, progress=progress)["cycles_per_execution"].to_numpy()
            walked[key] = cycles * trace.blocks.counts["executions"].astype(float)
        found[machine.id] = walked[key] * cycle
    return found

"""Core time in seconds, for the convolution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from convolver.convolution.core_seconds import CoreSeconds
from convolver.convolution.falls import falls
from convolver.convolution.waiting import places_of
from convolver.errors import PredictionError
from convolver.execution.core_time import Walk, core_table, core_times
from convolver.progress import SILENT, Progress
from convolver.tracing.reader import Trace

if TYPE_CHECKING:
    from convolver.machine.profile import MachineProfile
    from convolver.simulation.hit_rates import HitRates


def core_seconds(
    trace: Any, machines: Iterable[MachineProfile], progress: Progress = SILENT, *, rates: HitRates | None = None
) -> dict[str, CoreSeconds] | None:
    """Return the seconds of each block (row of the signature) on the core, by the id of the machine.

    With the ``rates`` of the machines' caches the blocks of calibrated ones are also walked with their lines as far away as they
    are; without, :attr:`CoreSeconds.waiting` is the time with all data near. The core runs at its usual clock
    (:attr:`MachineProfile.usual_cycle`).

    None where they are not known for all the machines alike: the trace holds no executed paths (counts alone, a trace of another
    tool, a run that was not stored), or a profile does not say how long a cycle takes.
    """
    if not isinstance(trace, Trace) or not trace.whole_paths or not len(trace.definitions.segments):
        return None
    cycles: dict[str, float] = {}
    clocks: dict[str, float] = {}
    walks: dict[bytes, Walk] = {}
    keys: dict[str, tuple[bytes, bytes]] = {}
    for machine in machines:
        try:
            cycles[machine.id] = machine.throughput("cycle").seconds
        except PredictionError:
            return None
        clocks[machine.id] = 1 / machine.usual_cycle
        near = Walk(core_table(machine)[0], machine.hierarchy[0].line_bytes)
        key = msgspec.json.encode((near.table, near.line_bytes))
        walks.setdefault(key, near)
        keys[machine.id] = (key, key)
        if rates is not None and machine.calibration is not None:
            places = places_of(falls(trace.signature, rates, machine), machine)
            own = key + machine.id.encode()
            walks.setdefault(own, near._replace(places=places))
            keys[machine.id] = (key, own)
    walked = dict(zip(walks, core_times(trace, list(walks.values()), progress), strict=True))
    executions = trace.blocks.counts["executions"].astype(float)
    totals = {key: one.table["cycles_per_execution"].to_numpy() * executions for key, one in walked.items()}
    found = {}
    for name, (key, own) in keys.items():
        errors, error = walked[own].table["error"].to_numpy(), walked[own].error
        seconds = CoreSeconds(totals[key] * cycles[name], totals[own] * cycles[name], errors, error)
        found[name] = seconds.faster(clocks[name])
    return found

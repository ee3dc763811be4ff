"""A machine of which several CPUs are busy: as one rank on a busy node sees it, and with a last level for each complex of cores.

Two things are measured. Curves of several *threads*: every CPU runs the same kernel on a working set of its own. Curves *beside*
a stream: the other CPUs copy memory as fast as they can, whatever the measured kernel does (loaded latency). A kernel without
such a curve is slowed down as the nearest kernel with one, at the same working set.

The curves of a rank are slowed down as much as the other CPUs slowed down the probe.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from convolver.errors import PredictionError
from convolver.machine.cores import choose_core
from convolver.machine.hierarchy import Level
from convolver.machine.maps import Curve, Point
from convolver.machine.memory_system import Placement
from convolver.machine.profile import PLACED, MachineProfile

_SHARED_CORE = 1.25
"""A CPU that slows instructions down by more than this factor uses the same core."""


def shares_core(slowdown: float) -> bool:
    """Tell whether two CPUs are threads of one core, by how much one slows down the other's instructions."""
    return slowdown > _SHARED_CORE


def busy_counts(machine: MachineProfile, *, loaded: bool) -> list[int]:
    """Return the thread counts for which the machine has curves of a busy node."""
    return sorted({curve.threads for curve in machine.maps if curve.threads > 1 and bool(curve.beside) == loaded})


def contended(machine: MachineProfile, threads: int | None = None, *, loaded: bool = False) -> MachineProfile:
    """Return the machine as one of ``threads`` busy CPUs sees it (default: as many as were measured), ``loaded``: beside streams.

    The result is a profile of single-thread curves, to be used like any other, and to be calibrated again. Raises
    :class:`PredictionError` when the machine was not probed with several threads, or not with nearly as many.
    """
    counts = busy_counts(machine, loaded=loaded)
    if not counts:
        raise PredictionError(
            f"The machine '{machine.name}' has no curves of busy CPUs; run `convolver probe --full` on it and use that profile."
        )
    count = min(counts, key=lambda one: abs(math.log(one / (threads or counts[-1]))))
    if threads and threads > 2 * count:
        raise PredictionError(f"The machine '{machine.name}' was probed with {count} busy CPUs at most, not with {threads}.")
    busy = [curve for curve in machine.maps if curve.threads == count and bool(curve.beside) == loaded]
    single = [curve for curve in machine.maps if curve.threads == 1 and not curve.beside]
    slowdown = _core_slowdown(machine, count)
    return msgspec.structs.replace(
        machine,
        name=f"{machine.name}+{count}{'loaded' if loaded else 'threads'}",
        hierarchy=_hierarchy(machine, count, loaded),
        hierarchy_reported=machine.hierarchy_reported or machine.hierarchy,
        maps=tuple(_slowed(curve, single, busy) for curve in single),
        floating_point=tuple(
            msgspec.structs.replace(entry, seconds=entry.seconds * slowdown, samples_seconds=())
            for entry in machine.floating_point
        ),
        calibration=None,
        derived_from={"name": machine.name, "id": machine.id},
        changes=(*machine.changes, f"one of {count} busy CPUs{', the others streaming' if loaded else ''}"),
    )


def _hierarchy(machine: MachineProfile, count: int, loaded: bool) -> tuple[Level, ...]:
    """Return the caches that one of the busy CPUs was seen to have; the idle ones' where that was not seen."""
    for entry in machine.contention:
        if entry.threads == count and bool(entry.beside) == loaded:
            return entry.hierarchy
    return machine.hierarchy


def _core_slowdown(machine: MachineProfile, count: int) -> float:
    """Return how much slower instructions run: where threads of one core must both be busy, by as much as was measured."""
    shared = [one.slowdown for one in machine.neighbours if shares_core(one.slowdown)]
    cores = int(machine.cpu.get("cpus", 1)) / (len(shared) + 1)
    return max(shared) if shared and count > cores else 1.0


def _likeness(curve: Curve, other: Curve) -> tuple[bool, bool, bool, float, float]:
    """Order curves by how alike their demands on memory are; the least is the most alike."""
    waits = ("chase", "chase_sequential", "chase_restarted")
    scattered = ("random", "gather", "random_hot", "random_hot_15")
    return (
        (curve.pattern in waits) != (other.pattern in waits),
        (curve.pattern in scattered) != (other.pattern in scattered),
        curve.operation != other.operation,
        abs(math.log(curve.chains / other.chains)),
        abs(math.log(curve.width_bytes / other.width_bytes)),
    )


def _slowed(curve: Curve, single: Sequence[Curve], busy: Sequence[Curve]) -> Curve:
    """Return the curve with each point as much slower as the most similar kernel's was on the busy machine."""
    idle = {one.kernel: one for one in single}
    known = [one for one in busy if one.kernel in idle]
    if not known:
        return curve
    pattern = min(known, key=lambda one: (one.kernel != curve.kernel, *_likeness(curve, one)))
    return msgspec.structs.replace(curve, points=tuple(_point(point, idle[pattern.kernel], pattern) for point in curve.points))


def _point(point: Point, idle: Curve, busy: Curve) -> Point:
    alone, together = idle.at(point.working_set_bytes), busy.at(point.working_set_bytes)
    # Noise can make a busy machine look faster; it is not.
    factor = max(1.0, together.seconds_per_reference / alone.seconds_per_reference)
    spread = max(point.spread, together.spread)
    return Point(
        working_set_bytes=point.working_set_bytes,
        seconds_per_reference=point.seconds_per_reference * factor,
        spread=spread,
        stable=point.stable and spread < 0.05,
    )


LAST_LEVEL_CPUS = "last_level_cpus"
"""Field of a profile's CPU: how many CPUs the system says share a last level."""
THREADS_PER_CORE = "threads_per_core"
"""Field of a derived CPU."""


def has_siblings(machine: MachineProfile) -> bool:
    """Tell whether two CPUs share a core, where probes saw that or the profile says so."""
    return any(shares_core(one.slowdown) for one in machine.neighbours) or machine.cpu.get(THREADS_PER_CORE, 1) > 1


def complex_cpus(machine: MachineProfile) -> int:
    """Return how many CPUs share a last level; 0: all, as far as is known.

    The system says it where it shows several complexes. A virtual machine often has a part of one: then its core's table does.
    """
    reported, cpus = int(machine.cpu.get(LAST_LEVEL_CPUS, 0)), int(machine.cpu.get("cpus", 0))
    if 0 < reported < cpus:
        return reported
    table, _ = choose_core(machine.cpu)
    known = table.complex_cores if machine.cpu.get("vendor") == table.vendor else 0
    return known * (2 if has_siblings(machine) else 1)


def placement(machine: MachineProfile, cores: int, compact: bool) -> Placement:
    """Return where threads are on so many cores: one complex after the other is filled, or they are spread over all, which is
    what systems do with threads that may go anywhere."""
    each = complex_cpus(machine)
    complexes = -(-cores // each) if each else 1
    return Placement(complexes, each if compact else 1) if complexes > 1 else Placement()


def placed(machine: MachineProfile, where: Placement) -> MachineProfile:
    """Return the machine with a last level for each of the complexes, and private levels that threads of a core share."""
    if where == Placement():
        return machine
    name = f"{machine.name}+{where.complexes}complexes" + (f"+{where.cores}cores" if where.cores else "")
    changes = (*machine.changes, f"threads on {where.complexes} complexes")
    return msgspec.structs.replace(machine, name=name, cpu={**machine.cpu, PLACED: list(where)}, changes=changes)

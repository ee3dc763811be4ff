"""Core complexes: cores that share a last level. A machine with several has as many last levels."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from convolver.machine.contention import shares_core
from convolver.machine.cores import choose_core
from convolver.machine.profile import PLACED, MachineProfile

LAST_LEVEL_CPUS = "last_level_cpus"
"""Field of a profile's CPU: how many CPUs the system says share a last level."""
THREADS_PER_CORE = "threads_per_core"
"""Field of a derived CPU."""


class Placement(NamedTuple):
    """On which of so many complexes a program's threads are: thread t on number t // adjacent % complexes."""

    complexes: int = 1
    adjacent: int = 1


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
    """Return the machine with a last level for each of the complexes."""
    if where.complexes < 2:
        return machine
    name = f"{machine.name}+{where.complexes}complexes"
    changes = (*machine.changes, f"threads on {where.complexes} complexes")
    return msgspec.structs.replace(machine, name=name, cpu={**machine.cpu, PLACED: list(where)}, changes=changes)

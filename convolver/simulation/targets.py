"""What can be simulated: anything with a name and a cache hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

from convolver.errors import UsageError
from convolver.machine.hierarchy import Level, check_levels
from convolver.machine.memory_system import MemorySystem, parse_system


@runtime_checkable
class HasHierarchy(Protocol):
    """A machine as the simulator needs it; :class:`convolver.machine.profile.MachineProfile` is one."""

    @property
    def name(self) -> str:
        """Name of the machine."""

    @property
    def hierarchy(self) -> Sequence[Level]:
        """Its cache levels, nearest first."""


class Target(NamedTuple):
    """One machine to simulate; ``last_alone``: only what its last level counts is wanted."""

    name: str
    system: MemorySystem
    last_alone: bool = False

    @property
    def hierarchy(self) -> tuple[Level, ...]:
        """Its cache levels, nearest first."""
        return self.system.hierarchy

    @property
    def wanted(self) -> range:
        """The numbers of the levels whose counts are wanted."""
        levels = len(self.hierarchy)
        return range(levels - 1 if self.last_alone else 0, levels)

    @property
    def hierarchy_id(self) -> str:
        """Id of the memory system."""
        return self.system.id

    def to_document(self) -> dict[str, Any]:
        """Return the machine as a JSON-able document."""
        return {"machine": self.name, "hierarchy_id": self.hierarchy_id, **self.system.to_document()}


MachineLike = HasHierarchy | Mapping[str, Any] | Sequence[Level] | str | Path
"""A machine profile, a machine document, the bare levels, a machine's name or the path of its file."""


def _target(machine: MachineLike, number: int) -> Target:
    if isinstance(machine, (str, Path)):
        from convolver.machine.catalog import find_machine

        machine = find_machine(machine)
    if isinstance(machine, Target):
        return machine
    if isinstance(machine, Mapping):
        name = str(machine.get("name") or f"machine-{number}")
        return Target(name, parse_system(machine, name))
    if isinstance(machine, HasHierarchy):
        own = getattr(machine, "system", None)
        return Target(machine.name, own if own is not None else MemorySystem(check_levels(machine.hierarchy)))
    if isinstance(machine, Sequence) and all(isinstance(level, Level) for level in machine):
        return Target(f"machine-{number}", MemorySystem(check_levels(cast("Sequence[Level]", machine))))
    raise UsageError(f"{type(machine).__name__} is no machine; give a profile, its name or path, or a list of cache levels.")


def targets(machines: MachineLike | Iterable[MachineLike]) -> list[Target]:
    """Return the machines in the given order; a single machine may stand for a list of one.

    Raises :class:`UsageError` for no machine, for something that is none and for a name that stands twice, and
    :class:`MachineError` for an unknown name or an impossible hierarchy.
    """
    single = isinstance(machines, (str, Path, Mapping, HasHierarchy))
    if not single and isinstance(machines, Sequence) and machines and all(isinstance(item, Level) for item in machines):
        single = True
    found = [_target(machine, i) for i, machine in enumerate([machines] if single else machines, 1)]  # type: ignore[arg-type]
    if not found:
        raise UsageError("No machine is given; name at least one to simulate.")
    names = [target.name for target in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"The machine name '{name}' is given {names.count(name)} times; rename one of the profiles.")
    return found

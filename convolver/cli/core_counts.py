"""``predict --scaling``: the numbers of cores that elapsed times are wanted for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from convolver.errors import UsageError

if TYPE_CHECKING:
    from convolver.machine.profile import MachineProfile

MOST_CORES = 4096
WHOLE = "all"
"""Stands for 1, 2, 4, ... up to all CPUs of a machine."""


class CoreCounts(NamedTuple):
    """Numbers of cores as a user gave them; ``whole``: those of each machine."""

    given: tuple[int, ...] = ()
    whole: bool = False

    @classmethod
    def parse(cls, text: str | None) -> CoreCounts:
        """Return the numbers of a list with commas; raises :class:`UsageError` for one that is none of cores."""
        if text == WHOLE:
            return cls(whole=True)
        try:
            found = [int(one) for one in text.split(",")] if text else []
        except ValueError:
            found = [0]
        if any(not 0 < one <= MOST_CORES for one in found):
            raise UsageError(f"'{text}' is no list of cores; write it as 1,2,4,8, or {WHOLE}.")
        return cls(tuple(found))

    @property
    def wanted(self) -> bool:
        """Whether there are any."""
        return self.whole or bool(self.given)

    def on(self, machine: MachineProfile, threads: int | None = None) -> list[int]:
        """Return them on a machine; for a program with ``threads`` threads, whatever the cores, a whole machine ends at two for
        each: more change nothing."""
        if not self.whole:
            return list(self.given)
        most = min(machine.known_cpus or MOST_CORES, 2 * threads if threads else machine.known_cpus or 1)
        return [*(1 << power for power in range((most - 1).bit_length())), most]

    def on_any(self, machines: Sequence[MachineProfile]) -> list[int]:
        """Return all that are wanted on one of the machines."""
        return sorted({count for machine in machines for count in self.on(machine)})

"""What a machine's kernel takes, by name: see docs/formats/machine.md, "The kernel"."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from convolver.errors import SchemaError


class KernelCost(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one piece of the kernel's work, and the interval that its samples leave.

    Names: ``page.*`` (one fault, and giving the page back), ``call.*`` (one system call), ``byte.*`` (one byte moved),
    ``start.*`` (a process or a thread, from its making to its end), ``thread.*`` (elapsed time of what two
    threads do to each other).
    """

    name: str
    seconds: float
    low: float
    high: float

    def at(self, clock: float) -> KernelCost:
        """Return the cost at a clock that is so many times as fast."""
        return KernelCost(name=self.name, seconds=self.seconds / clock, low=self.low / clock, high=self.high / clock)


def check_kernel_costs(costs: Iterable[KernelCost]) -> None:
    """Raise :class:`SchemaError` for a cost that is no positive time within its interval."""
    for cost in costs:
        if not 0 < cost.low <= cost.seconds <= cost.high < math.inf:
            raise SchemaError(f"the kernel cost '{cost.name}' is no positive time within its interval")

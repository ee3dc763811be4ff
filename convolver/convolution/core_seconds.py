"""Seconds of each block on the core, from executed paths."""

from __future__ import annotations

from typing import NamedTuple

from convolver.analyzing.core_causes import Causes, in_proportion
from convolver.analyzing.core_cycles import CoreCycles, cycle_seconds
from convolver.analyzing.falls import Array
from convolver.machine.profile import MachineProfile


class CoreSeconds(NamedTuple):
    """Seconds per block along executed paths: ``near`` with all data in the first level, ``waiting`` with lines that come out of
    order as far away as they are (where that is not known: the same). ``errors``: relative standard error of each block's,
    between the windows that were walked (None: not known); ``error``: that of the whole program's. ``near_causes`` and
    ``waiting_causes``: seconds by cause, which add up to the two (None: not known)."""

    near: Array
    waiting: Array
    errors: Array | None = None
    error: float | None = None
    near_causes: Causes | None = None
    waiting_causes: Causes | None = None

    @classmethod
    def of_cycles(cls, core: CoreCycles, machine: MachineProfile) -> CoreSeconds:
        """Return the seconds on a machine, at its core's usual clock (:attr:`MachineProfile.usual_cycle`).

        What is waited for takes as long as on the machine that was analyzed, whatever the clock.
        """
        near = core.near * (cycle_seconds(machine) or core.cycle_seconds)
        waited = core.waiting * core.cycle_seconds - core.near * core.cycle_seconds
        clock = 1 / machine.usual_cycle
        near, waiting = near / clock, near / clock + waited
        causes = [
            in_proportion(*pair) if pair[1] else None for pair in ((near, core.near_causes), (waiting, core.waiting_causes))
        ]
        return cls(near, waiting, core.errors, core.error, *causes)

"""Typed wrapper of csrc/include/cv_relay.h: several simulators that one decoder feeds, each on a thread of its own."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from typing import Any

from convolver._native._core import ffi, lib
from convolver._native.simulator import Simulator
from convolver._native.status import check

_running: set[Relay] = set()
"""Those whose threads run: kept from the collector, which would free them and the simulators that they use in any order."""


@atexit.register
def _end_all() -> None:
    for relay in [*_running]:
        relay.close()


class Relay:
    """Hands every reference of a decoder's windows to all ``simulators``; ``handle`` is the context of its sink. Its threads run
    until :meth:`close`."""

    def __init__(self, simulators: Sequence[Simulator]) -> None:
        self._simulators = simulators
        made = ffi.new("cv_relay **")
        handles = ffi.new("cv_sim *[]", [simulator.handle for simulator in simulators])
        check(lib.cv_relay_new(handles, len(simulators), made), "Starting simulators on threads")
        self.handle: Any = ffi.gc(made[0], lib.cv_relay_free)
        _running.add(self)

    def drain(self) -> None:
        """Wait until every reference so far is simulated; raises what a simulator failed with."""
        check(lib.cv_relay_drain(self.handle), "Simulating references on threads")

    def close(self) -> None:
        """End the threads, in the middle of their work if need be; what is fed from then on is refused."""
        lib.cv_relay_stop(self.handle)
        _running.discard(self)

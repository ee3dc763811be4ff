"""Does another thread share the core just now?

The hypervisor of a virtual machine may run somebody else's thread on the same core, for seconds at a time. Nothing that a guest
can read shows it: not its own load, not stolen time, not the processor time of its programs, which take up to twice as long.
A loop of taken branches shows it: two threads of a core take turns in predicting them, so that each costs twice as many cycles,
while a chain of dependent instructions, which says how long a cycle is, hardly changes.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from convolver.machine.profile import MachineProfile
from convolver.probing.runner import check_alive, probe_binary, start
from convolver.probing.samples import Line

SHARED = 1.1
"""Factor by which a taken branch must cost more cycles than on the core alone for the core to count as shared at a look."""
SHARED_RUN = 1.02
"""The same in the mean of a run's looks. Small programs take up to a tenth more at 1.03, a third more at 1.1."""
PATIENCE_SECONDS = 1.0
"""How long a run waits for the core to be alone."""
_OTHER_CLOCK = 1.05
"""Factor from which a clock counts as another."""
_LOOK = ("--sample", "0.0005", "--limit", "0.004", "--warmup", "0.0005", "--precision", "0.01", "--least", "3", "--most", "5")
_PAUSE_SECONDS = 0.05


def witness_cycles(cpu: int) -> float:
    """Return the cycles that a turn of the probe's taken branches takes on a CPU now (a look of 6 ms); 0 where the probe does not
    tell."""
    return look(cpu)[0]


def look(cpu: int) -> tuple[float, float]:
    """Return :func:`witness_cycles` and the seconds of a cycle now; zeros where the probe does not tell."""
    command = [str(probe_binary()), "--cpu", str(cpu), *_LOOK]
    try:
        done = subprocess.run(command, input="branch 0 1\n", capture_output=True, text=True, timeout=10, check=False)
        line = msgspec.json.decode(done.stdout, type=Line)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError):
        return 0.0, 0.0
    if line.cycle_seconds <= 0:
        return 0.0, 0.0
    return min(line.samples_seconds, default=0.0) / line.cycle_seconds, line.cycle_seconds


class Watch(msgspec.Struct):
    """What was seen of the core while a program ran on it: how often one looked, and the cycles of a taken branch in the mean."""

    looks: int = 0
    witness_cycles: float = 0.0


@contextmanager
def watched(cpu: int) -> Iterator[Watch]:
    """Look at the core every 3 ms while the body runs, for 10 us, from the same CPU; the result is filled in after the body.

    Other VMs come and go within a run, so that looks before and after it miss half of them. Nothing is seen where the probe
    does not run; raises :class:`ProbeKilledError` where it was killed meanwhile.
    """
    seen = Watch()
    try:
        process = start("--cpu", str(cpu), "--watch")
    except OSError:
        yield seen
        return
    with process:
        try:
            yield seen
            check_alive(process.poll(), "watched the core")
        finally:
            process.terminate()
            line, _ = process.communicate()
            with suppress(msgspec.MsgspecError):
                found = msgspec.json.decode(line, type=Watch)
                seen.looks, seen.witness_cycles = found.looks, found.witness_cycles


def is_shared(cycles: float, alone: float, limit: float = SHARED) -> bool:
    """Tell whether the core is shared, given the cycles of a taken branch now, or in the mean of a run (:data:`SHARED_RUN`), and
    on the core alone; either is 0 if unknown."""
    return alone > 0 and cycles > limit * alone


def differences(machine: MachineProfile, cpu: int) -> list[str]:
    """Return as phrases how a CPU of this computer differs now from what its profile says: another clock, a shared core."""
    cycles, cycle_seconds = look(cpu)
    known = {one.kernel: one.seconds for one in machine.floating_point}
    found: list[str] = []
    if not cycles or "cycle" not in known:
        return found
    clock = known["cycle"] / cycle_seconds
    if not 1 / _OTHER_CLOCK < clock < _OTHER_CLOCK:
        found.append(f"the clock is {1e-9 / cycle_seconds:.2f} GHz now and was {1e-9 / known['cycle']:.2f} GHz in the profile")
    if is_shared(cycles, alone := known.get("branch", 0.0) / known["cycle"]):
        found.append(f"the core is shared with another thread (a taken branch takes {cycles:.2f} cycles now, {alone:.2f} alone)")
    return found


def wait_until_alone(cpu: int, alone: float) -> float:
    """Wait until nothing shares the core, or as long as patience lasts; return what a taken branch takes then."""
    end = time.monotonic() + PATIENCE_SECONDS
    while is_shared(cycles := witness_cycles(cpu), alone) and time.monotonic() < end:
        time.sleep(_PAUSE_SECONDS)
    return cycles

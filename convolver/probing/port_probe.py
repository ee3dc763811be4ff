"""The ports of a core: the probe mixes every two kinds of instructions, and what the mixes take says which ports they share."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import msgspec

from convolver.machine.core_figures import MixedKind
from convolver.probing.port_fit import Mix, fit_ports, kind_cycles
from convolver.probing.runner import check_alive, probe_binary
from convolver.progress import SILENT, Progress

SLOT = "slot"
"""What takes a slot and no port; a piece has :data:`AMONG` of them beside the one whose slots are asked for."""
AMONG = 23
WHOLE = 0.4
"""Slots must lie so near a whole number."""
LONGEST = 2.1
"""Cycles of a kind whose ports are looked for: what takes longer keeps a unit busy."""
ISSUED = 1.1
"""Times what the issue width allows: ports of a kind that is as fast are not seen."""
LEAST_SHARE = 0.9
"""Of a kind's mixes that must have been seen undisturbed."""
EXPLAINED = 0.3
"""Share of a kind's own cycles by which its ports may err."""
PATIENCE_SECONDS = 60


def measure_ports(cpu: int, progress: Progress = SILENT) -> tuple[MixedKind, ...]:
    """Measure which ports the kinds of instructions share on the core of a CPU, some 5 seconds.

    Empty where code cannot be made at run time, the CPU lacks AVX2, or others kept the core busy all the time. Raises
    :class:`ProbeKilledError`.
    """
    progress.start(f"probing the ports of CPU {cpu}")
    command = [str(probe_binary()), "--ports", "--cpu", str(cpu)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        check_alive(error.returncode, "measured the ports")
        return ()
    except (OSError, subprocess.SubprocessError):
        return ()
    finally:
        progress.finish()
    return port_figures(map(json.loads, done.stdout.splitlines()))


def port_figures(lines: Iterable[Mapping[str, Any]]) -> tuple[MixedKind, ...]:
    """Return the kinds of a core from what its probe printed."""
    cycles = {str(line["name"]): sorted(map(float, line["cycles"])) for line in lines}
    seen = {name: median(samples) for name, samples in cycles.items() if samples}
    alone = {name.partition(".")[2]: value for name, value in seen.items() if name.startswith("alone.")}
    slot = alone.pop(SLOT, 0.0)
    if not slot:
        return ()
    slots = {kind: _slots(cycles.get(f"slots.{kind}", []), slot, alone[kind]) for kind in alone}
    asked = [name.split(".") for name in cycles if name.startswith("mix.")]
    mixed = {kind: alone[kind] for kind in alone if ISSUED * slot < alone[kind] < LONGEST and _seen(kind, asked, seen)}
    mixes = [
        Mix(kind, int(count), other, int(others), seen[".".join((mix, kind, count, other, others))])
        for mix, kind, count, other, others in asked
        if kind in mixed and other in mixed and ".".join((mix, kind, count, other, others)) in seen
    ]
    fit = fit_ports(mixed, mixes, {kind: slots[kind] or 1 for kind in mixed}, round(1 / slot)) if mixes else None
    found = []
    for kind, value in alone.items():
        one = MixedKind(name=kind, cycles=round(value, 3), slots=slots[kind])
        if fit is not None and kind in mixed and abs(kind_cycles(fit.ports[kind]) / value - 1) < EXPLAINED:
            ports = tuple(tuple(port for port in range(mask.bit_length()) if mask >> port & 1) for mask in fit.ports[kind])
            one = msgspec.structs.replace(one, ports=ports)
        found.append(one)
    return tuple(found)


def _slots(samples: Sequence[float], slot: float, alone: float) -> int:
    """Return how many slots one takes beside so many others, 0 where that is no whole number or more than it takes alone."""
    exact = median(samples) / slot - AMONG if samples else 0.0
    whole = round(exact) if abs(exact - round(exact)) < WHOLE else 0
    return whole if 1 <= whole < alone / slot + WHOLE else 0


def _seen(kind: str, asked: Sequence[Sequence[str]], seen: Mapping[str, float]) -> bool:
    own = [mix for mix in asked if kind in (mix[1], mix[3])]
    return bool(own) and sum(".".join(mix) in seen for mix in own) >= LEAST_SHARE * len(own)

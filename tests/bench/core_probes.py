"""Probes of a core as they were seen, kept in a file, and how far what follows from two of them lies apart."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec

from convolver.execution.calibrated import calibrated_core
from convolver.machine.core_figures import CoreFigure
from convolver.machine.cores import CoreTable
from convolver.machine.profile import MachineProfile
from convolver.probing.core_probe import measure_core
from convolver.probing.machine_probe import default_cpu
from convolver.probing.moments import quiet_moments, quietest_figures
from convolver.probing.port_probe import least_taken, port_figures, port_samples

Seen = dict[str, Any]
"""What a probe saw at each moment, the figures of the core (``core``) and samples of mixes (``ports``), and its ``seconds``."""


def looked(one: Seen) -> tuple[list[list[CoreFigure]], float]:
    """Return the core's figures at each moment, and the cycles of a taken branch on the core alone."""
    moments = [msgspec.convert(moment, list[CoreFigure]) for moment in one["core"]]
    return moments, least_taken(moments, one["ports"])


def probe_core(cpu: int, moments: int) -> Seen:
    """Look at a core at so many moments, and once more where it was shared at all of them."""
    begin = time.monotonic()
    seen: Seen = {"core": [], "ports": []}
    for _ in range(moments):
        seen["core"].append(msgspec.to_builtins(measure_core(cpu)))
        seen["ports"].append(port_samples(cpu))
    if not quiet_moments(*looked(seen)):
        seen["core"].append(msgspec.to_builtins(measure_core(cpu)))
    return {**seen, "seconds": round(time.monotonic() - begin, 1)}


def kept_probes(kept: Path, count: int, moments: int) -> list[Seen]:
    """Return so many probes: those in the file, and new ones, which are added to it."""
    found: list[Seen] = json.loads(kept.read_text()) if kept.exists() else []
    while len(found) < count:
        found.append(probe_core(default_cpu(), moments))
        kept.write_text(json.dumps(found))
    return found[:count]


def probed(seed: CoreTable, base: MachineProfile, one: Seen) -> tuple[CoreTable, int]:
    """Return a seed's table with one probe over it, and how many of its numbers that probe gives."""
    moments, alone = looked(one)
    figures, ports = quietest_figures(moments, alone), port_figures(one["ports"], alone)
    profile = msgspec.structs.replace(base, core=figures, core_ports=ports)
    table, used = calibrated_core(seed, profile)
    return table, len(used)


def distances(first: dict[str, float], second: dict[str, float]) -> list[float]:
    """Return how far two predictions of each function lie apart, relative to their mean, in order."""
    common = [(first[name], second[name]) for name in first if first[name] > 0 and second.get(name, 0) > 0]
    return sorted(abs(one - other) / ((one + other) / 2) for one, other in common)

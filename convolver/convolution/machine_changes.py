"""What would help: a program's time on a machine with one property changed, each from simulation and convolution.

A variant is a projection of the machine (:mod:`convolver.machine.project`), and is analyzed and convolved as any machine is; all
of them in one pass over the trace. So interactions count: with a larger L3 fewer lines use the memory's bandwidth.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from convolver.analyzing.analyze import PredictableTrace, analyze, load_program
from convolver.convolution.block_times import BlockTimes
from convolver.convolution.choice import compared
from convolver.convolution.elapsed_replay import ThreadReplay, times_on
from convolver.convolution.verdict import verdict
from convolver.errors import HierarchyError
from convolver.machine.catalog import MachineName, as_machine
from convolver.machine.maps import MEMORY
from convolver.machine.profile import MachineProfile
from convolver.machine.project import Changes, project
from convolver.progress import SILENT, Progress
from convolver.signature.signature import Signature
from convolver.simulation.hit_rates import HitRates

AS_IS = "as it is"


class MachineChange(NamedTuple):
    """One change in words, and what it does to the machine; ``speed``: to its coefficients alone, so that no trace is needed."""

    label: str
    changes: Changes
    speed: bool = False


class WhatIf(NamedTuple):
    """A program's time with one change: ``seconds`` with their 90 % ``interval``; ``ratio``: time as it is / this time, with its
    ``ratio_interval`` and what that says. None where only a trace would tell. Of a program with several threads these are
    elapsed times, and ``processor_seconds`` those of all threads, else None."""

    change: str
    seconds: float | None
    interval: tuple[float, float] | None
    ratio: float | None
    ratio_interval: tuple[float, float] | None
    verdict: str | None
    processor_seconds: float | None = None


def changes(machine: MachineProfile) -> list[MachineChange]:
    """Return the changes that are tried: larger caches, a faster memory, a faster and a wider core, huge pages."""
    sizes = {level.level: level.size_bytes for level in machine.hierarchy[1:]}
    found = [MachineChange(f"{name} x 2", Changes(sizes={name: 2 * size})) for name, size in sizes.items()]
    found += [MachineChange(f"{name} x 4", Changes(sizes={name: 4 * size})) for name, size in list(sizes.items())[-1:]]
    found.append(MachineChange("memory bandwidth x 1.5", Changes(scales={(MEMORY, "bandwidth"): 1.5}), speed=True))
    found.append(MachineChange("memory latency x 0.7", Changes(scales={(MEMORY, "latency"): 0.7})))
    found.append(MachineChange("clock x 1.2", Changes(clock=1.2)))
    found.append(MachineChange("core's width and buffers x 1.5", Changes(width=1.5)))
    if machine.calibration is not None and machine.calibration.page_entries:
        found.append(MachineChange("huge pages", Changes(huge_pages=True)))
    return found


def variants(machine: MachineProfile) -> dict[str, MachineProfile]:
    """Return the machine with each of the changes that its geometry allows, by the words of the change."""
    found = {}
    for one in changes(machine):
        try:
            found[one.label] = project(machine, f"{machine.name}, {one.label}", one.changes)
        except HierarchyError:
            continue
    return found


def what_if(
    program: PredictableTrace | Signature | str | Path,
    machine: MachineName,
    *,
    hits: HitRates | str | Path | None = None,
    cores: int | None = None,
    pinning: str | None = None,
    progress: Progress = SILENT,
) -> list[WhatIf]:
    """Return the time on a machine as it is, first, and with each change, the shortest time first.

    ``program`` and ``hits`` as :func:`convolver.analyzing.analyze.analyze` takes them. From a signature only what needs no
    simulation is known: it is the same as from the trace, and the others are None. ``cores``: for a program with several threads,
    default those of the machine; twice as many are tried, too; ``pinning``: its threads stay on a CPU each.
    """
    machine = as_machine(machine)
    others = variants(machine)
    if isinstance(program, (str, Path)):
        program = load_program(program)
    if hits is not None:
        analysis = analyze(program, machine, hits=hits, progress=progress)
        known = {one.label: project(machine, machine.name, one.changes) for one in changes(machine) if one.speed}
        from_trace = [label for label in others if label not in known]
    else:
        analysis = analyze(program, [machine, *others.values()], progress=progress)
        known, from_trace = others, []
    known = {AS_IS: machine, **known}
    threads = ThreadReplay.of(program)
    cores = cores or (threads.cores(machine) if threads else 1)
    times = {label: times_on(analysis, one, threads, cores, pinning) for label, one in known.items()}
    if threads is not None:
        times[f"{2 * cores} cores"] = threads.added(machine, times[AS_IS], 2 * cores, pinning)
    found = [_answer(label, times[AS_IS], one) for label, one in times.items()]
    first, *rest = found
    unknown = [WhatIf(label, None, None, None, None, None) for label in from_trace]
    return [first, *sorted(rest, key=lambda one: one.seconds or 0.0), *unknown]


def _answer(label: str, base: BlockTimes, times: BlockTimes) -> WhatIf:
    ratio, ends = compared(base, times)
    seconds, low, high = times.awaited
    processor = None if times.elapsed is None else times.total[0]
    return WhatIf(label, seconds, (low, high), ratio, ends, None if times is base else verdict(ends), processor)


def rows(found: list[WhatIf]) -> list[dict[str, Any]]:
    """Return the answers as rows of data."""
    return [one._asdict() for one in found]

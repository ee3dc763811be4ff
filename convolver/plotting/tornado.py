"""Sensitivity tornado: how far the predicted time moves when one number of the machine is better or worse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from convolver.convolution.convolve import convolve
from convolver.machine.maps import MEMORY
from convolver.machine.project import Changes, project
from convolver.plotting import style
from convolver.plotting.labels import command_label, machine_label
from convolver.plotting.style import Look
from convolver.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from convolver.analyzing.program_analysis import Analysis
    from convolver.machine.profile import MachineProfile

FACTOR = 1.25


def changes(machine: MachineProfile, factor: float) -> dict[str, Changes]:
    """Return every change of a speed by ``factor``, better when above 1; sizes stay, so that no simulation is needed."""
    places = [*(level.level for level in machine.hierarchy[1:]), MEMORY]
    found = {f"{name} bandwidth": Changes(scales={(name, "bandwidth"): factor}) for name in places}
    found |= {f"{name} latency": Changes(scales={(name, "latency"): 1 / factor}) for name in places}
    return found | {"core clock": Changes(clock=factor), "floating-point rate": Changes(flops=factor)}


def swings(analysis: Analysis, machine: MachineProfile, factor: float = FACTOR) -> dict[str, tuple[float, float]]:
    """Return for each number the seconds with it better and with it worse by ``factor``, the widest swing first."""

    def seconds(change: Changes) -> float:
        return convolve(analysis, project(machine, machine.name, change)).seconds

    better, worse = changes(machine, factor), changes(machine, 1 / factor)
    found = {name: (seconds(change), seconds(worse[name])) for name, change in better.items()}
    return dict(sorted(found.items(), key=lambda item: abs(item[1][1] - item[1][0]), reverse=True))


def draw(analysis: Analysis, machine: MachineProfile, look: Look, *, factor: float = FACTOR) -> Figure:
    """Return the picture; raises what :func:`convolver.convolution.convolve.convolve` does."""
    base = convolve(analysis, machine).seconds
    found = swings(analysis, machine, factor)
    drawn, axes = style.figure(9, 1.9 + 0.42 * len(found))
    ys = np.arange(len(found))
    for index, label in enumerate((f"better by {factor:g}x", f"worse by {factor:g}x")):
        ends = np.array([pair[index] for pair in found.values()])
        axes.barh(ys, ends - base, 0.66, left=base, color=look.colour(index), hatch=style.HATCHES[index], label=label)
    axes.axvline(base, color=look.ink, linewidth=1.1)
    axes.set_yticks(ys, list(found))
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.08)
    axes.xaxis.set_major_formatter(lambda value, _: format_seconds(value))
    axes.set_xlabel("predicted user time")
    name = machine_label(machine.name, machine.projected)
    axes.set_title(f"What moves {command_label(analysis.signature.header.get('command'))} on {name}: {format_seconds(base)}")
    axes.legend(loc="lower right")
    style.note(
        axes,
        look,
        "One number changed at a time, caches' sizes kept. Bandwidth moves streams; latency moves chases and gathers.",
    )
    return drawn

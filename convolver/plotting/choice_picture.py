"""The ranking of machines, and what would help on one, as pictures: times with their intervals, and costs."""

from __future__ import annotations

from collections.abc import Sequence

from convolver.convolution.choice import RankedMachine
from convolver.convolution.machine_changes import WhatIf
from convolver.convolution.verdict import CANNOT_TELL
from convolver.plotting import style
from convolver.plotting.labels import machine_label
from convolver.plotting.style import Axes, Figure, Look
from convolver.units import format_seconds


def draw(choices: Sequence[RankedMachine], look: Look) -> Figure:
    """Return the picture of a ranking (:func:`convolver.convolution.choice.choose`), the fastest machine on top."""
    priced = [one for one in choices if one.cost is not None]
    width, columns = (11.0, 2) if priced else (9.0, 1)
    drawn, (axes,) = style.panels(width, 1.6 + 0.42 * len(choices), 1, columns, sharey=True)
    _dots(axes[0], [(one.seconds, one.interval, one.verdict) for one in choices], look)
    axes[0].set_yticks(range(len(choices)), [machine_label(one.machine, one.projected) for one in choices])
    axes[0].set_ylim(len(choices) - 0.5, -0.5)
    axes[0].set_title("Time of a run" if choices[0].processor_seconds is None else "Elapsed time of a run")
    axes[0].xaxis.set_major_formatter(lambda value, _: format_seconds(value) if value else "0")
    if priced:
        costs = {one.machine: (1000 * one.cost, one.cost_interval, one.cost_verdict) for one in priced if one.cost is not None}
        places = [place for place, one in enumerate(choices) if one.machine in costs]
        found = [(value, (1000 * ends[0], 1000 * ends[1]), words or "") for value, ends, words in costs.values() if ends]
        _dots(axes[1], found, look, places)
        axes[1].set_title("Cost of 1000 runs")
        for place, one in enumerate(choices):
            if one.efficient and one.cost is not None:
                axes[1].annotate(
                    "efficient", (1000 * one.cost, place), (6, 8), textcoords="offset points", fontsize=8, color=look.muted
                )
    style.note(axes[0], look, "Bars: 90 % intervals. Gray: the errors of the prediction cannot tell it from the best.")
    return drawn


def _dots(
    axes: Axes, values: Sequence[tuple[float, tuple[float, float], str]], look: Look, places: Sequence[int] | None = None
) -> None:
    """Draw values with their intervals, one a row; what cannot be distinguished from the best is muted."""
    for place, (value, (low, high), words) in zip(places if places is not None else range(len(values)), values, strict=True):
        color = look.series[5] if words == CANNOT_TELL else look.color(0)
        axes.plot((low, high), (place, place), color=color, linewidth=2.5, solid_capstyle="butt")
        axes.plot((value,), (place,), "o", color=color, markersize=8)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)


def draw_what_if(found: Sequence[WhatIf], machine: str, look: Look) -> Figure:
    """Return the picture of :func:`convolver.convolution.machine_changes.what_if`: the machine as it is on top, then by time."""
    known = [(one, one.seconds, one.interval) for one in found if one.seconds is not None and one.interval is not None]
    drawn, axes = style.figure(9, 1.6 + 0.42 * len(known))
    for place, (one, seconds, (low, high)) in enumerate(known):
        color = look.muted if one.verdict is None else look.series[5] if one.verdict == CANNOT_TELL else look.color(0)
        axes.barh(place, seconds, 0.62, color=color)
        axes.plot((low, high), (place, place), color=look.paper, linewidth=3.5)
        axes.plot((low, high), (place, place), color=look.ink, linewidth=1.2)
    axes.axvline(known[0][1], color=look.ink, linewidth=1.1, linestyle=":")
    axes.set_yticks(range(len(known)), [one.change for one, _, _ in known])
    axes.set_ylim(len(known) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_formatter(lambda value, _: format_seconds(value) if value else "0")
    elapsed = "elapsed " if found[0].processor_seconds is not None else ""
    axes.set_title(f"What would help on {machine}: predicted {elapsed}time")
    style.note(axes, look, "Lines: 90 % intervals. Blue: the change exceeds the errors of the prediction.")
    return drawn

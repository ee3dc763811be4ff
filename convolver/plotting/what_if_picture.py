"""What would help, as a picture: the time with each change of the machine, beside the time as it is."""

from __future__ import annotations

from collections.abc import Sequence

from convolver.convolution.machine_changes import WhatIf
from convolver.convolution.verdict import CANNOT_TELL
from convolver.plotting import style
from convolver.plotting.style import Figure, Look
from convolver.units import format_seconds


def draw(found: Sequence[WhatIf], machine: str, look: Look) -> Figure:
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

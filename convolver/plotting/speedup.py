"""Speedup and efficiency over process counts, with the threshold under which more processes are not advised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from convolver.plotting import style
from convolver.plotting.style import Figure, Look

if TYPE_CHECKING:
    from convolver.modeling.p3s.scaling_advice import ScalingPoint


def draw(points: Sequence[ScalingPoint], last_traced: int, threshold: float, advice: str, look: Look) -> Figure:
    """Return the picture: speedup with the ideal above, efficiency with the threshold below; predicted counts are dashed."""
    drawn, ((above,), (below,)) = style.panels(8.0, 7.6, 2, sharex=True, height_ratios=(3, 2))
    counts = [point.processes for point in points]
    known = [point for point in points if point.processes <= last_traced]
    beyond = [point for point in points if point.processes >= last_traced]
    above.plot(counts, counts, color=look.color(5), linewidth=1.2, linestyle=style.LINES[1], label="ideal")
    for axes, name in ((above, "speedup"), (below, "efficiency")):
        for part, line, label in ((known, "-", "traced counts"), (beyond, (0, (4, 2)), "predicted")):
            values = [getattr(point, name) for point in part]
            said = label if axes is above else None
            axes.plot([point.processes for point in part], values, color=look.color(0), linestyle=line, marker="o", label=said)
    below.axhline(threshold, color=look.color(1), linewidth=1.2, label=f"threshold {100 * threshold:.0f} %")
    above.set_xscale("log", base=2)
    above.set_yscale("log", base=2)
    above.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    above.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    below.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    below.set_ylim(0, max(1.05, *(1.05 * point.efficiency for point in points)))
    below.set_xticks(counts)
    below.minorticks_off()
    above.set_title("Speedup and efficiency over processes")
    above.set_ylabel("speedup")
    below.set_ylabel("efficiency")
    below.set_xlabel("processes")
    above.legend(loc="upper left")
    below.legend(loc="lower left")
    style.note(below, look, advice)
    return drawn

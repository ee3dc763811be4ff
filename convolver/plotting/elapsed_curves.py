"""Curves over cores: what ``predict --scaling`` says of threads; speedup over processes, with what is advised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from convolver.errors import PredictionError
from convolver.plotting import style
from convolver.plotting.labels import command_label, machine_label
from convolver.plotting.style import Figure, Look
from convolver.units import format_seconds

if TYPE_CHECKING:
    from convolver.modeling.p3s.scaling_advice import ScalingPoint
    from convolver.pipeline import Prediction


def core_curves(predictions: Sequence[Prediction]) -> dict[str, dict[str, Any]]:
    """Return the machines of predictions that have elapsed times on several numbers of cores, by name, the bases first."""
    bases, targets = ({one.document[side]["machine"]: one.document[side] for one in predictions} for side in ("base", "target"))
    return {machine: side for machine, side in (bases | targets | bases).items() if len(side.get("scaling") or ()) > 1}


def draw(predictions: Sequence[Prediction], look: Look) -> Figure:
    """Return the picture: a curve with its interval for each machine, its ideal from the fewest cores on, what was measured.

    Raises :class:`PredictionError` where a prediction has no elapsed times on several numbers of cores.
    """
    curves = core_curves(predictions)
    if not curves:
        raise PredictionError("No prediction has elapsed times on several numbers of cores; predict with --scaling 1,2,4,8.")
    drawn, axes = style.figure(9.5)
    for index, side in enumerate(curves.values()):
        rows = sorted(side["scaling"], key=lambda row: int(row["cores"]))
        cores = [row["cores"] for row in rows]
        low, high = zip(*(row["interval_seconds"] for row in rows), strict=True)
        seconds, color = [row["seconds"] for row in rows], look.color(index)
        axes.fill_between(cores, low, high, color=color, alpha=0.18, linewidth=0)
        label = machine_label(side["machine"], side["projected"])
        axes.plot(cores, seconds, color=color, marker=style.MARKERS[index % 7], linewidth=2, label=label)
        axes.plot(cores, ideal_seconds(rows), color=color, linestyle=":", linewidth=1.2)
        known = [(row["cores"], row["measured_seconds"]) for row in rows if row.get("measured_seconds")]
        axes.plot(*(zip(*known, strict=True) if known else ((), ())), "x", color=look.ink, markersize=9, zorder=4)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(ticks := sorted({row["cores"] for side in curves.values() for row in side["scaling"]}), map(str, ticks))
    axes.yaxis.set_major_formatter(lambda value, _: format_seconds(value))
    axes.minorticks_off()
    axes.set_xlabel("cores")
    axes.set_ylabel("elapsed time")
    axes.set_title(f"{command_label(predictions[0].document['command'])}: elapsed time over cores")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    style.note(axes, look, "Bands: 90 % intervals. Dotted: as many times faster as there are cores. Crosses: measured.")
    return drawn


def ideal_seconds(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the seconds of the fewest cores, divided among the cores of each row."""
    return [rows[0]["seconds"] * rows[0]["cores"] / row["cores"] for row in rows]


def draw_speedup(points: Sequence[ScalingPoint], last_traced: int, threshold: float, advice: str, look: Look) -> Figure:
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

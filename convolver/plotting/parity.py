"""Parity plots of predictions and of campaigns: predicted over measured, with bands of relative error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convolver.errors import PredictionError
from convolver.plotting import style
from convolver.plotting.labels import command_label, place_labels
from convolver.plotting.style import Axes, Figure, Look
from convolver.units import counted, format_seconds

if TYPE_CHECKING:
    from convolver.pipeline import Prediction


BANDS = (0.10, 0.25)
"""Relative errors that are drawn as bands around the diagonal."""


def draw(predictions: Sequence[Prediction], look: Look) -> Figure:
    """Return the picture of the base times, one point a program and base.

    Raises :class:`PredictionError` when none of the predictions was measured.
    """
    bases = {(one.inputs["signature"], one.inputs["base"], one.base_seconds): one for one in predictions}
    known = [one for one in bases.values() if one.measured_seconds and one.base_seconds > 0]
    if not known:
        raise PredictionError("None of these predictions has a measured time; predict with --measured SECONDS or from a command.")
    drawn, axes = style.figure(8.2, 6.4)
    measured = np.array([one.measured_seconds for one in known], dtype=float)
    predicted = np.array([one.base_seconds for one in known])
    parity_axes(axes, measured, predicted, look)
    _points(axes, known, look)
    axes.legend(loc="upper left", fontsize=9)
    style.note(axes, look, "Bars: the prediction's own interval. Error = (predicted - measured) / measured.")
    return drawn


def parity_axes(axes: Axes, measured: NDArray[np.float64], predicted: NDArray[np.float64], look: Look) -> None:
    """Lay out a parity plot: the diagonal, the bands of relative error, logarithmic seconds, the errors as title."""
    low, high = min(measured.min(), predicted.min()) / 1.6, max(measured.max(), predicted.max()) * 1.6
    line = np.array([low, high])
    axes.plot(line, line, color=look.muted, linewidth=1.2)
    for band, alpha in zip(reversed(BANDS), (0.2, 0.5), strict=True):
        ends = (line * (1 - band), line * (1 + band))
        axes.fill_between(line, *ends, color=look.color(5), alpha=alpha, linewidth=0, label=f"±{band:.0%}")
    for set_scale, set_limits in ((axes.set_xscale, axes.set_xlim), (axes.set_yscale, axes.set_ylim)):
        set_scale("log")
        set_limits(low, high)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: format_seconds(value))
        axis.set_minor_formatter(lambda value, _: format_seconds(value) if high / low < 30 and f"{value:.0e}"[0] in "25" else "")
    axes.set_aspect("equal")
    axes.set_xlabel("measured")
    axes.set_ylabel("predicted")
    errors = predicted / measured - 1
    worst = errors[np.abs(errors).argmax()]
    axes.set_title(f"{counted(len(errors), 'prediction')}: median error {median(abs(errors)):.1%}, worst {worst:+.1%}")


def _points(axes: Axes, known: Sequence[Prediction], look: Look) -> None:
    """Draw the points of each command with its own marker, with the predictions' intervals as bars."""
    groups: dict[str, list[Prediction]] = {}
    for one in known:
        groups.setdefault(f"{command_label(one.document.get('command'))} on {one.document['base']['machine']}", []).append(one)
    for index, (label, members) in enumerate(groups.items()):
        points = [
            (float(one.measured_seconds or 0), one.base_seconds, *one.document["base"]["interval_seconds"]) for one in members
        ]
        interval_points(axes, points, index, look, markersize=7, capsize=3, label=label)


def interval_points(axes: Axes, points: Sequence[tuple[float, float, float, float]], index: int, look: Look, **how: Any) -> None:
    """Draw points (measured, predicted, low, high) with their intervals as bars, in the marker and the color of this number."""
    measured, predicted, low, high = np.array(points).T
    bars = np.maximum([predicted - low, high - predicted], 0)
    marker = style.MARKERS[index % len(style.MARKERS)]
    axes.errorbar(measured, predicted, yerr=bars, fmt=marker, color=look.color(index), zorder=4, **how)


def draw_campaign(rows: Sequence[Mapping[str, Any]], look: Look) -> Figure:
    """Return the picture of all rows that the first mode and method of the campaign predicted."""
    first = rows[0]
    shown = [row for row in rows if (row["mode"], row["method"]) == (first["mode"], first["method"])]
    drawn, axes = style.figure(8.2, 6.8)
    measured = np.array([row["measured_seconds"] for row in shown])
    predicted = np.array([row["predicted_seconds"] for row in shown])
    parity_axes(axes, measured, predicted, look)
    for index, condition in enumerate(dict.fromkeys(row["condition"] for row in shown)):
        own = [row for row in shown if row["condition"] == condition]
        interval_points(axes, [_point(row) for row in own], index, look, markersize=5, capsize=2, linewidth=1, label=condition)
    axes.legend(loc="upper left", fontsize=9)
    named = [row for row in shown if row["condition"] == first["condition"]]
    labels = [(row["measured_seconds"], row["predicted_seconds"], f"{row['program']} {row['input']}".strip()) for row in named]
    place_labels(axes, [(*label, look.ink) for label in labels], look, size=6.5)
    style.note(axes, look, "Bars: the prediction's own interval. Error = (predicted - measured) / measured.")
    return drawn


def _point(row: Mapping[str, Any]) -> tuple[float, float, float, float]:
    return row["measured_seconds"], row["predicted_seconds"], row["low_seconds"], row["high_seconds"]

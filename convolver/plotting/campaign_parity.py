"""Parity plot of a campaign: predicted over measured, one color a condition, the stated intervals as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from convolver.plotting import style
from convolver.plotting.parity import interval_points, parity_axes
from convolver.plotting.placing import place_labels
from convolver.plotting.style import Figure, Look


def draw(rows: Sequence[Mapping[str, Any]], look: Look) -> Figure:
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

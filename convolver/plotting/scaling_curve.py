"""Scaling curve: a fitted model over one feature, with its interval, its data's range and its baselines."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from convolver.errors import ExtrapolationWarning, UsageError
from convolver.plotting import style
from convolver.plotting.style import Axes, Figure, Look

if TYPE_CHECKING:
    from convolver.modeling.model_artifact import Model

Values = npt.NDArray[np.float64]


def axis_of(model: Model, at: Mapping[str, float]) -> str:
    """Return the one feature that is neither given nor looked up; raises :class:`UsageError` when it is not one."""
    free = [name for name in model.features if name not in at and name not in model.tables]
    if len(free) != 1:
        what = f"give all of {', '.join(free)} but one" if free else "leave one of them out"
        raise UsageError(f"A scaling curve runs over one feature of the model '{model.name}': {what} with --at NAME=VALUE.")
    return free[0]


def points(model: Model, feature: str, at: Mapping[str, float], to: float | None) -> dict[str, Values]:
    """Return the points to draw: the feature from the lowest of its data to twice the highest (or ``to``), the others fixed."""
    low, high = model.domain.get(feature, (1.0, 64.0))
    last = to if to is not None else 2 * high
    if not last > low:
        raise UsageError(f"--to {last:g} lies below the data of '{feature}', which begin at {low:g}.")
    xs = np.geomspace(low, last, 200) if low > 0 else np.linspace(low, last, 200)
    return {feature: xs, **{name: np.full(len(xs), value) for name, value in at.items()}}


def draw(model: Model, look: Look, *, at: Mapping[str, float] | None = None, to: float | None = None) -> Figure:
    """Return the picture; raises what :meth:`Model.predict` does."""
    fixed = dict(at or {})
    feature = axis_of(model, fixed)
    grid = points(model, feature, fixed, to)
    xs = grid[feature]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)  # the picture itself shades what lies outside
        predicted = model.predict(grid)
        baselines = model.baseline_values(grid)
    drawn, axes = style.figure(10.5)
    known = xs <= model.domain.get(feature, (xs[0], xs[-1]))[1]
    axes.plot(xs[known], predicted.values[known], color=look.color(0), linewidth=2, label=f"{model.kind} model")
    if not known.all():
        first = max(int(known.sum()) - 1, 0)
        beyond = xs[first:], predicted.values[first:]
        axes.plot(*beyond, color=look.color(0), linewidth=2, linestyle=(0, (4, 2)), label="extrapolated")
    if np.isfinite(predicted.low).any():
        axes.fill_between(xs, predicted.low, predicted.high, color=look.color(0), alpha=0.18, linewidth=0, label="95 % interval")
    for index, (name, values) in enumerate(baselines.items(), 1):
        axes.plot(xs, values, color=look.color(index), linestyle=style.LINES[index % 7], linewidth=1.2, label=name)
    _frame(axes, model, feature, xs, predicted.values, look)
    return drawn


def _frame(axes: Axes, model: Model, feature: str, xs: Values, values: Values, look: Look) -> None:
    if xs[0] > 0 and xs[-1] / xs[0] >= 4:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    steep = bool((values > 0).all() and values.max() / values.min() > 10)
    known = model.domain.get(feature)
    if known is not None and xs[-1] > known[1]:
        axes.axvspan(known[1], xs[-1], color=look.color(5), alpha=0.14, linewidth=0, label="beyond the data")
    positive = values[values > 0]
    if len(positive):
        # Baselines and intervals may run away; the model decides what is seen.
        axes.set_ylim(positive.min() / 2 if steep else 0, positive.max() * (3 if steep else 1.6))
    if steep:
        style.log_values(axes)
    axes.set_xlim(xs[0], xs[-1])
    unit = model.feature_units.get(feature, "")
    axes.set_xlabel(feature if unit in ("", "1") else f"{feature} [{unit}]")
    axes.set_ylabel(f"{model.target} [{model.unit}]" if model.unit else model.target)
    axes.set_title(f"{model.name}: {model.target} over {feature}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    equation = model.equation(3)
    style.note(axes, look, equation if len(equation) < 150 else equation[:147] + "...")

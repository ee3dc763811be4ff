"""A fitted model against its measurements: measured over predicted, and the relative residuals over a feature."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from convolver.errors import ExtrapolationWarning
from convolver.plotting import style
from convolver.plotting.style import Figure, Look

_MANY = 200
_FEW = 10
_APART = 0.004

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axis import Axis

    from convolver.modeling.model_artifact import Model
    from convolver.modeling.table import Observations


def draw(model: Model, data: Observations, look: Look, *, feature: str | None = None) -> Figure:
    """Return two panels: measured values (circles) and predicted ones (crosses) over a feature, and the relative residuals.

    ``feature`` is the first one of the model by default. Raises what :meth:`Model.predict` does.
    """
    name = feature or model.features[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        predicted = model.predict(data.x)
    x = data.x[name]
    drawn, ((above,), (below,)) = style.panels(9.0, 6.6, 2, sharex=True, height_ratios=(2, 1))
    size = 6.0 if len(x) <= _MANY else 3.0
    left, right = _beside(x)
    above.plot(left, data.y, "o", markersize=size, markerfacecolor="none", color=look.color(0), label="measured")
    above.plot(right, predicted.values, "x", markersize=size, color=look.color(1), label="predicted")
    if (data.y > 0).all() and data.y.max() / data.y.min() > 10:
        style.log_values(above)
    above.set_ylabel(f"{model.target} [{model.unit}]" if model.unit else model.target)
    known = data.y != 0
    residual = predicted.values[known] / data.y[known] - 1
    below.axhline(0, color=look.muted, linewidth=1)
    below.plot(x[known], 100 * residual, ".", markersize=size, color=look.color(3))
    below.set_ylabel("error [%]")
    unit = model.feature_units.get(name, "")
    below.set_xlabel(name if unit in ("", "1") else f"{name} [{unit}]")
    _scale(below.xaxis, x)
    worst = float(np.abs(residual).max()) if len(residual) else 0.0
    above.set_title(f"{model.name}: median error {np.median(np.abs(residual)):.1%}, worst {worst:.1%}")
    above.legend(loc="best", fontsize=9)
    style.note(below, look, "Error = (predicted - measured) / measured.")
    return drawn


def _beside(x: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return where to draw measured and predicted values: beside each other where many points share few values of the feature."""
    values = np.unique(x)
    if not (1 < len(values) <= _FEW and len(x) > _MANY):
        return x, x
    if _logarithmic(values):
        step = (values[-1] / values[0]) ** _APART
        return x / step, x * step
    step = (values[-1] - values[0]) * _APART
    return x - step, x + step


def _logarithmic(values: npt.NDArray[np.float64]) -> bool:
    return bool(values[0] > 0 and values[-1] / values[0] >= 4)


def _scale(axis: Axis, x: npt.NDArray[np.float64]) -> None:
    """Scale the horizontal axis by logarithms where values differ by four and more, and name the values where they are few."""
    from matplotlib.ticker import FixedLocator, NullLocator

    values = np.unique(x)
    if _logarithmic(values):
        axis.axes.set_xscale("log")
    if len(values) <= _FEW:
        axis.set_major_locator(FixedLocator(values.tolist()))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_locator(NullLocator())

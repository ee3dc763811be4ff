"""A fitted model against its measurements: measured over predicted, and the relative residuals over a feature."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from convolver.errors import ExtrapolationWarning
from convolver.plotting import style
from convolver.plotting.style import Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from convolver.modeling.model import Model
    from convolver.modeling.table import Observations


def draw(model: Model, data: Observations, look: Look, *, feature: str | None = None) -> Figure:
    """Return two panels: measured values (circles) and predicted ones (crosses) over a feature, and the relative residuals.

    ``feature`` is the first one of the model by default. Raises what :meth:`Model.predict` does.
    """
    from matplotlib.figure import Figure

    name = feature or model.features[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        predicted = model.predict(data.x)
    x = data.x[name]
    drawn = Figure(figsize=(9.0, 6.6), layout="constrained")
    above, below = drawn.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    above.plot(x, data.y, "o", markerfacecolor="none", color=look.colour(0), label="measured")
    above.plot(x, predicted.values, "x", color=look.colour(1), label="predicted")
    if (data.y > 0).all() and data.y.max() / data.y.min() > 20:
        above.set_yscale("log")
    above.set_ylabel(f"{model.target} [{model.unit}]" if model.unit else model.target)
    known = data.y != 0
    residual = predicted.values[known] / data.y[known] - 1
    below.axhline(0, color=look.muted, linewidth=1)
    below.plot(x[known], 100 * residual, ".", color=look.colour(3))
    below.set_ylabel("error [%]")
    below.set_xlabel(name)
    if (x > 0).all() and x.max() / x.min() >= 4:
        below.set_xscale("log", base=2)
        below.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    worst = float(np.abs(residual).max()) if len(residual) else 0.0
    above.set_title(f"{model.name}: median error {np.median(np.abs(residual)):.1%}, worst {worst:.1%}")
    above.legend(loc="best", fontsize=9)
    style.note(below, look, "Error = (predicted - measured) / measured.")
    return drawn

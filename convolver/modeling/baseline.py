"""Simple models that every other must beat; they are fitted to the same data and printed beside each prediction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError
from convolver.modeling.model_artifact import Baseline
from convolver.modeling.regress import nnls, ols, relative_weights
from convolver.modeling.table import Observations

Values = npt.NDArray[np.float64]

SCALING_NAMES = ("P", "p", "np", "procs", "ranks", "processes", "n")


def amdahl(x: Values, y: Values) -> tuple[float, float]:
    """Return (a, b) >= 0 of y = a + b / x by relative non-negative least squares."""
    fit = nnls(y, np.column_stack([np.ones_like(x), 1 / x]), ("1", "1/x"), relative_weights(y))
    return fit["1"], fit["1/x"]


def constant_work(x: Values, y: Values) -> float:
    """Return the mean of x y: total work, if it did not change with x."""
    return float(np.mean(x * y))


def scaling_feature(features: tuple[str, ...]) -> str | None:
    """Return the feature that counts processes: one with a usual name, or the only one."""
    named = [name for name in features if name in SCALING_NAMES]
    if named:
        return named[0]
    return features[0] if len(features) == 1 else None


def baselines(data: Observations) -> tuple[Baseline, ...]:
    """Return the baselines that the data allow: power law over all features, and over the process count Amdahl, ideal scaling
    of the last point and the last point itself."""
    result = [Baseline(name="mean", formula=f"{float(np.mean(data.y))!r}")]
    result += _power(data)
    name = scaling_feature(data.features)
    if name is None or (data.x[name] <= 0).any():
        return tuple(result)
    x = data.x[name]
    last = float(np.max(x))
    value = float(np.median(data.y[x == last]))
    result.append(Baseline(name="last point", formula=f"{value!r}"))
    if len(data.features) == 1:
        result.append(Baseline(name="last point, ideal", formula=f"{value * last!r}/{name}"))
        result.append(Baseline(name="constant work", formula=f"{constant_work(x, data.y)!r}/{name}"))
        if (data.y > 0).all() and len(np.unique(x)) > 1:
            serial, parallel = amdahl(x, data.y)
            result.append(Baseline(name="Amdahl", formula=f"{serial!r} + {parallel!r}/{name}"))
    return tuple(result)


def _power(data: Observations) -> list[Baseline]:
    names = [name for name in data.features if (data.x[name] > 0).all() and len(np.unique(data.x[name])) > 1]
    if (data.y <= 0).any() or not names or len(data) < len(names) + 1:
        return []
    design = np.column_stack([np.ones(len(data)), *(np.log(data.x[name]) for name in names)])
    try:
        fit = ols(np.log(data.y), design, ("1", *names))
    except ModelError:  # features that move together
        return []
    factors = "*".join(f"{name}^({float(power)!r})" for name, power in zip(names, fit.coefficients[1:], strict=True))
    return [Baseline(name="power law", formula=f"{float(np.exp(fit.coefficients[0]))!r}*{factors}")]

"""Semi-empirical models: a formula in features and parameters, the parameters fitted within bounds from many starts.

Levenberg-Marquardt as the MECP paper used it knows no bounds in scipy, so the trust-region reflective method takes its place;
parameters over several decades are searched in their logarithm.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError, ModelUsageError, NoiseWarning
from convolver.modeling.base import parameter_term
from convolver.modeling.expression import Values, evaluate, names_of
from convolver.modeling.model_artifact import Model, Term
from convolver.modeling.table import Observations

_DECADES_FOR_LOG = 2.0


@dataclass(frozen=True)
class BoundedFit:
    """Parameters by name with standard errors (nan at a bound), names at a bound, RMSE of the data, starts that converged."""

    parameters: dict[str, float]
    standard_errors: dict[str, float]
    at_bound: tuple[str, ...]
    rmse: float
    converged: int


def bounded_fit(
    function: Callable[[Mapping[str, float]], Values],
    y: npt.ArrayLike,
    bounds: Mapping[str, tuple[float, float]],
    *,
    starts: int = 30,
    loss: str = "absolute",
    seed: int = 0,
    quiet: bool = False,
) -> BoundedFit:
    """Return the best of ``starts`` bounded least-squares fits of ``function(parameters)`` to ``y``.

    ``bounds`` gives (lower, upper) for each parameter. ``loss`` is ``absolute``, ``relative`` or ``log`` residuals. Raises
    :class:`ModelError` when no start gives finite residuals; warns with :class:`NoiseWarning` of parameters at a bound, because
    the data do not determine them.
    """
    from scipy import optimize

    values = np.asarray(y, dtype=np.float64)
    names = list(bounds)
    low, high = _search_box(bounds)
    logs = _logs(bounds)
    residuals = _residuals(function, values, names, logs, loss)
    best, converged = None, 0
    for start in _starts(low, high, starts, seed):
        try:
            result = optimize.least_squares(residuals, start, bounds=(low, high), x_scale=np.maximum(high - low, 1e-300))
        except ValueError:  # residuals not finite at this start
            continue
        converged += int(result.success)
        if np.isfinite(result.cost) and (best is None or result.cost < best.cost):
            best = result
    if best is None:
        raise ModelError("No start of the bounded fit gave finite values; check the expression and its bounds.")
    return _describe(best, function, values, names, logs, (low, high), converged, quiet)


def _logs(bounds: Mapping[str, tuple[float, float]]) -> npt.NDArray[np.bool_]:
    return np.array([low > 0 and np.log10(high / low) >= _DECADES_FOR_LOG for low, high in bounds.values()])


def _search_box(bounds: Mapping[str, tuple[float, float]]) -> tuple[Values, Values]:
    for name, (low, high) in bounds.items():
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ModelUsageError(f"The bounds of {name} are {low} and {high}; give two finite numbers, the lower first.")
    box = np.array(list(bounds.values()), dtype=np.float64).reshape(-1, 2)
    logs = _logs(bounds)
    with np.errstate(all="ignore"):
        box = np.where(logs[:, None], np.log(np.where(logs[:, None], box, 1.0)), box)
    return box[:, 0], box[:, 1]


def _starts(low: Values, high: Values, count: int, seed: int) -> Values:
    """Return the middle of the box and a Latin hypercube of further starts, off the bounds themselves."""
    from scipy.stats import qmc

    unit = qmc.LatinHypercube(d=len(low), seed=seed).random(max(0, count - 1))
    unit = np.vstack([np.full(len(low), 0.5), 0.01 + 0.98 * unit])
    return low + unit * (high - low)


def _residuals(
    function: Callable[[Mapping[str, float]], Values], y: Values, names: list[str], logs: npt.NDArray[np.bool_], loss: str
) -> Callable[[Values], Values]:
    if loss not in ("absolute", "relative", "log"):
        raise ModelUsageError(f"The loss '{loss}' is unknown; use absolute, relative or log.")
    if loss != "absolute" and (y <= 0).any():
        raise ModelError(f"The loss '{loss}' needs measured values above 0.")
    scale = 1.0 if loss != "absolute" else max(float(np.sqrt(np.mean(y**2))), 1e-300)

    def residuals(point: Values) -> Values:
        values = np.where(logs, np.exp(np.where(logs, point, 0.0)), point)
        predicted = function(dict(zip(names, values.tolist(), strict=True)))
        with np.errstate(all="ignore"):
            if loss == "log":
                return np.log(np.maximum(predicted, 1e-300) / y)
            return (predicted - y) / (y if loss == "relative" else scale)

    return residuals


def _describe(
    best: object,
    function: Callable[[Mapping[str, float]], Values],
    y: Values,
    names: list[str],
    logs: npt.NDArray[np.bool_],
    box: tuple[Values, Values],
    converged: int,
    quiet: bool,
) -> BoundedFit:
    point, jacobian, cost = best.x, best.jac, best.cost  # type: ignore[attr-defined]
    low, high = box
    values = np.where(logs, np.exp(np.where(logs, point, 0.0)), point)
    parameters = dict(zip(names, values.tolist(), strict=True))
    edge = 1e-3 * (high - low)
    bound = [bool(b) for b in (point - low < edge) | (high - point < edge)]
    at_bound = tuple(name for name, flag in zip(names, bound, strict=True) if flag)
    free = np.array([not flag for flag in bound], dtype=bool)
    dof = len(y) - int(free.sum())
    errors = np.full(len(names), np.nan)
    if dof > 0 and free.any():
        inverse = np.linalg.pinv(jacobian[:, free].T @ jacobian[:, free])
        errors[free] = np.sqrt(np.clip(np.diag(inverse) * 2 * cost / dof, 0, None)) * np.where(logs, values, 1.0)[free]
    if at_bound and not quiet:
        message = f"{', '.join(at_bound)} ended at a bound: the data do not determine it; widen the bounds or fix it."
        warnings.warn(message, NoiseWarning, stacklevel=3)
    rmse = float(np.sqrt(np.mean((function(parameters) - y) ** 2)))
    return BoundedFit(parameters, dict(zip(names, errors.tolist(), strict=True)), at_bound, rmse, converged)


@dataclass(frozen=True)
class SemiEmpirical:
    """A formula with parameters to fit: ``bounds`` gives (lower, upper) of each, ``fixed`` the known ones."""

    formula: str
    bounds: dict[str, tuple[float, float]]
    fixed: dict[str, float] = field(default_factory=dict)

    def features(self) -> frozenset[str]:
        """Return the names of the formula that are neither fitted nor fixed."""
        return names_of(self.formula) - self.bounds.keys() - self.fixed.keys()

    def __call__(self, x: Mapping[str, Any], parameters: Mapping[str, float]) -> Values:
        """Return the model's values at points for given parameters."""
        return evaluate(self.formula, {**x, **self.fixed, **parameters})

    def fit(
        self, data: Observations, *, loss: str = "absolute", starts: int = 30, seed: int = 0, quiet: bool = False
    ) -> BoundedFit:
        """Return the best bounded least-squares fit; raises :class:`ModelError` when the data lack a feature."""
        missing = sorted(self.features() - data.x.keys())
        if missing:
            raise ModelUsageError(f"The formula needs {', '.join(missing)}: give it as a feature, a bound or a fixed value.")
        function = lambda p: np.broadcast_to(self(data.x, p), data.y.shape)  # noqa: E731
        return bounded_fit(function, data.y, self.bounds, loss=loss, starts=starts, seed=seed, quiet=quiet)


def fit_semi_empirical(
    data: Observations,
    /,
    *,
    formula: str,
    bounds: Mapping[str, Any],
    fixed: Mapping[str, float] | None = None,
    loss: str = "absolute",
    starts: int = 30,
    seed: int = 0,
) -> Model:
    """Fit a semi-empirical formula within bounds; parameters at a bound are flagged, as the data do not determine them.

    ``bounds`` maps each parameter to (lower, upper). Raises :class:`ModelError` for others.
    """
    limits = {name: _bounds(name, pair) for name, pair in bounds.items()}
    form = SemiEmpirical(formula, limits, dict(fixed or {}))
    return model_of(form, form.fit(data, loss=loss, starts=starts, seed=seed), data, relative=loss != "absolute")


def _bounds(name: str, pair: Any) -> tuple[float, float]:
    try:
        low, high = map(float, pair)
    except (TypeError, ValueError) as error:
        raise ModelUsageError(f"The bounds of {name} are not two numbers; write for example bounds={name}:0.1:100.") from error
    return low, high


def model_of(form: SemiEmpirical, fit: BoundedFit, data: Observations, *, relative: bool) -> Model:
    """Return the artifact of a bounded fit; its interval is the data's scatter about it, ``relative`` or in their unit."""
    free = len(data) - len(fit.parameters) + len(fit.at_bound)
    errors = form(data.x, fit.parameters) - data.y
    squares = float(((errors / data.y if relative else errors) ** 2).sum())
    terms = [
        parameter_term(name, value, fit.standard_errors[name], free, "at bound" if name in fit.at_bound else "")
        for name, value in fit.parameters.items()
    ]
    terms += [Term(expression=name, coefficient=value, flag="fixed") for name, value in form.fixed.items()]
    return Model(
        name="semi-empirical",
        kind="semi-empirical",
        target=data.target,
        features=data.features,
        formula=form.formula,
        terms=tuple(terms),
        quality={"converged_starts": fit.converged},
        relative=relative,
        residual_variance=squares / free if free > 0 else None,
        degrees_of_freedom=max(free, 0),
    )

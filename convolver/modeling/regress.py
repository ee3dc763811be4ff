"""Regressions with honest errors: least squares, weighted, non-negative, elimination of terms.

Columns are scaled before every solve, because a design holds ones beside 1e9 operations. R squared is always centerd and in the
units of the data, also for weighted fits and fits without a constant, so that it can be compared between models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError
from convolver.modeling.expression import Values


@dataclass(frozen=True)
class Fit:
    """Result of a linear regression ``y = design @ coefficients``.

    ``standard_errors``, ``t`` and ``p`` are nan where no degree of freedom is left. ``steps`` tells what elimination did. A fit
    with no names is the empty model, whose prediction is 0.
    """

    names: tuple[str, ...]
    coefficients: Values
    standard_errors: Values
    p: Values
    covariance: Values
    degrees_of_freedom: int
    residual_variance: float
    r_squared: float
    rmse: float
    steps: tuple[str, ...] = ()

    @property
    def t(self) -> Values:
        """Return coefficient / standard error."""
        with np.errstate(all="ignore"):
            return self.coefficients / self.standard_errors

    @property
    def empty(self) -> bool:
        """Return whether no term was left."""
        return not self.names

    def __getitem__(self, name: str) -> float:
        """Return one coefficient, 0 for a name that was eliminated."""
        return float(self.coefficients[self.names.index(name)]) if name in self.names else 0.0

    def predict(self, design: Values) -> Values:
        """Return the fitted values for rows of a design with the columns of :attr:`names`."""
        return np.asarray(design, dtype=np.float64) @ self.coefficients


def _checked(y: npt.ArrayLike, design: npt.ArrayLike, names: Sequence[str]) -> tuple[Values, Values]:
    values = np.asarray(y, dtype=np.float64).ravel()
    matrix = np.asarray(design, dtype=np.float64).reshape(len(values), -1)
    if matrix.shape[1] != len(names):
        raise ModelError(f"The design has {matrix.shape[1]} columns, but {len(names)} names were given.")
    if not np.isfinite(values).all() or not np.isfinite(matrix).all():
        bad = [name for name, column in zip(names, matrix.T, strict=True) if not np.isfinite(column).all()]
        raise ModelError(f"{', '.join(bad) or 'The target'} is not finite at some point; leave such points or terms out.")
    return values, matrix


def _weights(weights: npt.ArrayLike | None, count: int) -> Values:
    root = np.ones(count) if weights is None else np.sqrt(np.asarray(weights, dtype=np.float64).ravel())
    if len(root) != count or not np.isfinite(root).all() or (root < 0).any():
        raise ModelError("The weights must be one finite number >= 0 for each point.")
    return root


def relative_weights(y: npt.ArrayLike) -> Values:
    """Return weights 1 / y^2, with which least squares minimizes relative errors; raises :class:`ModelError` for a zero."""
    values = np.asarray(y, dtype=np.float64)
    if (values == 0).any():
        raise ModelError("Relative errors are asked for, but a measured value is 0; fit absolute errors instead.")
    return 1.0 / values**2


def r_squared(y: Values, predicted: Values) -> float:
    """Return 1 - SSE / SST around the mean; 1 for an exact fit of constant data."""
    total = float(((y - y.mean()) ** 2).sum()) if len(y) else 0.0
    error = float(((y - predicted) ** 2).sum())
    if total == 0.0:
        return 1.0 if error <= 1e-24 * max(1.0, float((y**2).sum())) else 0.0
    return 1.0 - error / total


def _finish(y: Values, matrix: Values, root: Values, names: Sequence[str], coefficients: Values) -> Fit:
    """Compute errors of given coefficients: s^2 (X'WX)^-1 with s^2 = weighted SSE / degrees of freedom."""
    from scipy import stats

    count, terms = matrix.shape
    predicted = matrix @ coefficients if terms else np.zeros(count)
    dof = count - terms
    variance = float((((y - predicted) * root) ** 2).sum() / dof) if dof > 0 else float("nan")
    scaled, scale = _scaled(matrix * root[:, None])
    inverse = np.linalg.pinv(scaled.T @ scaled) if terms else np.zeros((0, 0))
    covariance = variance * inverse / np.outer(scale, scale)
    errors = np.sqrt(np.clip(np.diag(covariance), 0, None)) if terms else np.zeros(0)
    with np.errstate(all="ignore"):
        p = 2 * stats.t.sf(np.abs(coefficients / errors), dof) if dof > 0 else np.full(terms, np.nan)
    return Fit(
        names=tuple(names),
        coefficients=coefficients,
        standard_errors=errors,
        p=np.asarray(p, dtype=np.float64),
        covariance=covariance,
        degrees_of_freedom=dof,
        residual_variance=variance,
        r_squared=r_squared(y, predicted),
        rmse=float(np.sqrt(np.mean((y - predicted) ** 2))) if count else float("nan"),
    )


def _scaled(matrix: Values) -> tuple[Values, Values]:
    scale = np.sqrt((matrix**2).sum(axis=0))
    scale = np.where(scale > 0, scale, 1.0)
    return matrix / scale, scale


def ols(y: npt.ArrayLike, design: npt.ArrayLike, names: Sequence[str], weights: npt.ArrayLike | None = None) -> Fit:
    """Return the (weighted) least-squares fit.

    ``design`` has shape (points, terms); ``weights`` multiply squared residuals. Raises :class:`ModelError` when there are fewer
    points than terms, when a value is not finite or when the terms depend on one another.
    """
    values, matrix = _checked(y, design, names)
    if len(values) < len(names):
        raise ModelError(f"{len(values)} points cannot determine {len(names)} terms; measure more or use fewer terms.")
    root = _weights(weights, len(values))
    scaled, scale = _scaled(matrix * root[:, None])
    solution, _, rank, _ = np.linalg.lstsq(scaled, values * root, rcond=1e-12)
    if rank < len(names):
        raise ModelError(f"The terms {', '.join(names)} cannot be distinguished at these points; drop one or vary more features.")
    return _finish(values, matrix, root, names, solution / scale)


def nnls(y: npt.ArrayLike, design: npt.ArrayLike, names: Sequence[str], weights: npt.ArrayLike | None = None) -> Fit:
    """Return the least-squares fit with coefficients >= 0; terms at 0 are removed and named in ``steps``.

    Standard errors are those of an ordinary fit of the terms that remain.
    """
    from scipy import optimize

    values, matrix = _checked(y, design, names)
    root = _weights(weights, len(values))
    scaled, scale = _scaled(matrix * root[:, None])
    solution, _ = optimize.nnls(scaled, values * root, maxiter=100 * max(1, len(names)))
    kept = [index for index in range(len(names)) if solution[index] > 0]
    fit = _finish(values, matrix[:, kept], root, [names[i] for i in kept], (solution / scale)[kept])
    dropped = [name for index, name in enumerate(names) if index not in kept]
    return replace(fit, steps=tuple(f"{name}: held at 0 by the non-negativity" for name in dropped))


def eliminate(
    y: npt.ArrayLike,
    design: npt.ArrayLike,
    names: Sequence[str],
    *,
    weights: npt.ArrayLike | None = None,
    negative: bool = True,
    max_relative_error: float | None = 0.10,
    alpha: float | None = None,
) -> Fit:
    """Fit, drop the worst term, fit again, until every term passes; an empty model is a result, not an error.

    Rules, in this order (CALL and R, section 4.2): the most negative coefficient in standard errors goes; then the coefficient
    with the largest standard error relative to it, if that is above ``max_relative_error``; then the least significant one with
    p > ``alpha``. ``steps`` names each dropped term and its reason.
    """
    values, matrix = _checked(y, design, names)
    left: list[int] = list(range(len(names)))
    steps: list[str] = []
    while True:
        if len(values) < len(left):
            raise ModelError(f"{len(values)} points cannot determine {len(left)} terms; measure more or use fewer terms.")
        fit = ols(values, matrix[:, left], [names[i] for i in left], weights)
        worst = _worst(fit, negative, max_relative_error, alpha)
        if worst is None:
            return replace(fit, steps=tuple(steps))
        steps.append(f"{fit.names[worst[0]]}: {worst[1]}")
        del left[worst[0]]
        if not left:
            return replace(_finish(values, matrix[:, []], _weights(weights, len(values)), [], np.zeros(0)), steps=tuple(steps))


def _worst(fit: Fit, negative: bool, max_relative_error: float | None, alpha: float | None) -> tuple[int, str] | None:
    if fit.empty:
        return None
    if negative and (fit.coefficients < 0).any():
        order = np.where(fit.coefficients < 0, np.nan_to_num(np.abs(fit.t), nan=np.inf), -1.0)
        index = int(np.argmax(order))
        return index, f"negative coefficient {fit.coefficients[index]:.6g}"
    with np.errstate(all="ignore"):
        relative = np.nan_to_num(fit.standard_errors / np.abs(fit.coefficients), nan=0.0, posinf=np.inf)
    if max_relative_error is not None and relative.max() > max_relative_error:
        index = int(np.argmax(relative))
        return index, f"standard error {100 * relative[index]:.1f} % of the coefficient"
    if alpha is not None and np.nan_to_num(fit.p, nan=0.0).max() > alpha:
        index = int(np.argmax(np.nan_to_num(fit.p, nan=0.0)))
        return index, f"not significant, p = {fit.p[index]:.3g}"
    return None

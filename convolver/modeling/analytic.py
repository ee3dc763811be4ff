"""Analysis stage of CALL: a user formula or a generic library of terms, fitted with elimination (the framework paper, section 4).

The paper's rules drop negative coefficients and those with a standard error above 10 %. Fits are relative by default: absolute
least squares let the longest runs decide alone. An empty model is a result.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError, ModelUsageError
from convolver.modeling.base import linear_model
from convolver.modeling.expression import Values, evaluate, split_terms
from convolver.modeling.model_artifact import Model
from convolver.modeling.regress import Fit, eliminate, nnls, relative_weights
from convolver.modeling.table import Observations

_NOTES = 10
_ROUNDS, _WIDTH = 30, 4.685
"""Of the robust fit: rounds of reweighting, and the residual in robust deviations beyond which a point has no weight."""

STAGES = "ceil(log2(P))"
"""Steps of a binomial tree, the logarithm of the paper's equation 1."""


def design(data: Observations, terms: Sequence[str]) -> Values:
    """Return the matrix (points, terms) of the terms' values; raises :class:`ModelError` for a term that is not finite."""
    columns = [np.broadcast_to(evaluate(term, data.x), data.y.shape) for term in terms]
    for term, column in zip(terms, columns, strict=True):
        if not np.isfinite(column).all():
            raise ModelError(f"The term '{term}' is not finite at every point; guard it, for example with where(P > 1, ..., 0).")
    return np.column_stack(columns) if columns else np.zeros((len(data), 0))


def library(features: Sequence[str], *, size: str = "N") -> list[str]:
    """Return the generic terms that the features allow: computation, cache misses, collective latency and volume.

    ``P`` processes, ``size`` the problem size, ``L`` latency (s), ``B`` bandwidth (B/s), ``MAC`` operations, ``L2CM`` misses,
    ``NC`` number and ``SC`` bytes of collectives. The linear trees ((P-1) terms) are there because the paper's equation 1 knows
    none, and Scatter and Gather need them.
    """
    known = set(features)
    terms = ["1"]
    terms += [name for name in ("MAC", "L2CM") if name in known]
    if {"P", size} <= known and "MAC" not in known:
        terms += [f"{size}^3/P", f"{size}^2/P"]
    count, volume = ("NC" if "NC" in known else "1"), ("SC" if "SC" in known else f"{size}^2")
    if {"P", "L"} <= known:
        terms += [f"{STAGES}*{count}*L", f"(P-1)*{count}*L"]
    if {"P", "B"} <= known and (volume != f"{size}^2" or size in known):
        terms += [f"{STAGES}*{volume}/B", f"(P-1)*{volume}/B"]
    if len(terms) == 1:
        terms += [str(name) for name in features]
    return terms


def outliers(y: Values, predicted: Values, threshold: float = 5.0) -> npt.NDArray[np.bool_]:
    """Return which points have a log ratio to the prediction further than ``threshold`` robust deviations from the median."""
    ratio = np.log(np.maximum(y, 1e-300) / np.maximum(predicted, 1e-300))
    deviation = 1.4826 * np.median(np.abs(ratio - np.median(ratio)))
    return np.abs(ratio - np.median(ratio)) > threshold * max(float(deviation), 1e-6)


def fit_formula(
    data: Observations,
    /,
    *,
    formula: str | None = None,
    weights: str = "relative",
    rules: str = "nnls",
    max_relative_error: float | None = 0.10,
    alpha: float | None = None,
    drop_outliers: float | None = None,
    size: str = "N",
) -> Model:
    """Fit the summands of a formula, or a library of terms, and eliminate the bad ones.

    ``rules``: ``nnls`` starts from a non-negative fit and then drops terms with a standard error above ``max_relative_error``;
    ``drop`` is the paper's iteration; ``none`` keeps all. ``drop_outliers`` is a threshold in robust deviations from a fit of all
    terms that outliers do not bend: points beyond it are not fitted, are named in the notes, and count in the quality.
    """
    terms = split_terms(formula) if formula else library(data.features, size=size)
    matrix = design(data, terms)
    wrong = np.zeros(len(data), dtype=bool)
    if drop_outliers is not None and (data.y > 0).all():
        # against a fit of all terms that outliers do not bend: they would have terms dropped that explain the other points
        wrong = outliers(data.y, _robust(data.y, matrix, terms), drop_outliers)
        if wrong.all():
            raise ModelError(f"Every point is an outlier beyond {drop_outliers:g} robust deviations; give drop_outliers 5, say.")
    fit = _fit(data.y[~wrong], matrix[~wrong], terms, weights, rules, max_relative_error, alpha)
    dropped = dict(step.split(": ", 1) for step in fit.steps)
    model = linear_model(
        fit,
        data,
        kind="analytic",
        dropped=dropped,
        relative=weights == "relative",
        quality={"outliers_removed": int(wrong.sum())},
    )
    return msgspec.structs.replace(model, notes=(*model.notes, *_named(data, wrong)))


def _named(data: Observations, wrong: npt.NDArray[np.bool_]) -> list[str]:
    """Return a note for each outlier, up to ten; quality counts them among the points."""
    places = np.flatnonzero(wrong)
    points = (", ".join(f"{name} {values[place]:.6g}" for name, values in data.x.items()) for place in places[:_NOTES])
    rest = len(places) - _NOTES
    return [
        *(f"outlier, not fitted: {point}" for point in points),
        *([f"{rest} further outliers, not fitted"] if rest > 0 else []),
    ]


def _robust(y: Values, matrix: Values, terms: list[str]) -> Values:
    """Return the predictions of a non-negative fit of all terms whose weights fall with the log residual (Tukey's bisquare)."""
    weights = np.ones(len(y))
    for _ in range(_ROUNDS):
        fit = nnls(y, matrix, terms, weights * relative_weights(y))
        predicted = fit.predict(matrix[:, [terms.index(name) for name in fit.names]])
        residual = np.log(np.maximum(predicted, 1e-300) / y)
        residual = residual - np.median(residual)
        width = _WIDTH * max(1.4826 * float(np.median(np.abs(residual))), 1e-6)
        weights = np.maximum(1 - (residual / width) ** 2, 0) ** 2
    return predicted


def _fit(
    y: Values, matrix: Values, terms: list[str], weights: str, rules: str, max_relative_error: float | None, alpha: float | None
) -> Fit:
    if weights not in ("relative", "none") or rules not in ("nnls", "drop", "none"):
        raise ModelUsageError("weights is 'relative' or 'none', rules is 'nnls', 'drop' or 'none'.")
    weight = relative_weights(y) if weights == "relative" else None
    if rules == "none":
        return eliminate(y, matrix, terms, weights=weight, negative=False, max_relative_error=None)
    start = list(range(len(terms)))
    steps: tuple[str, ...] = ()
    if rules == "nnls":
        first = nnls(y, matrix, terms, weight)
        start, steps = [i for i, term in enumerate(terms) if term in first.names], first.steps
    left = [terms[i] for i in start]
    fit = eliminate(y, matrix[:, start], left, weights=weight, max_relative_error=max_relative_error, alpha=alpha)
    return Fit(**{**fit.__dict__, "steps": (*steps, *fit.steps)})

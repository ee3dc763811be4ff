"""Errors of predictions at points that a fit has not seen, and prediction intervals from them (cross-conformal).

The error of a new point is as likely as any left-out one's to have any rank among them all, whatever their distribution: so the
limit of a level is the left-out error of the rank that the level asks for, the new point counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError
from convolver.modeling.expression import Values

_LEAST = 1e-300


class LeftOut(msgspec.Struct, kw_only=True, frozen=True):
    """log(measured / predicted) at points left out of the fit that predicts them: of one value of a ``feature``, or of all."""

    residuals: tuple[float, ...]
    feature: str = ""
    value: float = 0.0


def left_out_residuals(measured: Values, predicted: Values) -> tuple[float, ...]:
    """Return log(measured / predicted) of each point, ascending; 0 and less count as next to nothing."""
    ratios = np.maximum(measured, _LEAST) / np.maximum(predicted, _LEAST)
    return tuple(sorted(np.log(ratios).tolist()))


def spread(residuals: Sequence[float], level: float) -> float:
    """Return the largest absolute residual that a new point of this level is allowed; nan where there are too few to say.

    A level of 95 % needs 19 residuals, as one of 20 points exceeds the others' largest by chance.
    """
    rank = math.ceil((len(residuals) + 1) * level - 1e-9)
    return float(np.sort(np.abs(residuals))[max(rank, 1) - 1]) if rank <= len(residuals) else math.nan


def limits(left_out: Sequence[LeftOut], x: Mapping[str, Values], values: Values, level: float) -> tuple[Values, Values]:
    """Return the lower and upper limit of new points with these predicted values; nan where no residuals are known."""
    width = np.full(values.shape, np.nan)
    for one in left_out:
        where = x[one.feature] == one.value if one.feature else np.asarray(True)
        width = np.where(where, spread(one.residuals, level), width)
    both = np.stack([values * np.exp(-width), values * np.exp(width)])
    return both.min(axis=0), both.max(axis=0)


def relative_errors(measured: npt.ArrayLike, predicted: npt.ArrayLike) -> Values:
    """Return |predicted - measured| / measured; raises :class:`ModelError` for a measured 0."""
    real, guess = np.asarray(measured, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if (real == 0).any():
        raise ModelError("A relative error of a measured 0 is not defined; leave such points out.")
    return np.abs((guess - real) / real)


def quality(measured: Values, predicted: Values) -> dict[str, float | int | str | None]:
    """Return how well predictions match: n, R squared, RMSE and, where defined, median and worst absolute relative error."""
    from convolver.modeling.regress import r_squared

    known = np.asarray(measured) != 0
    relative = relative_errors(measured[known], predicted[known]) if known.any() else np.zeros(0)
    return {
        "points": len(measured),
        "r_squared": r_squared(measured, predicted),
        "rmse": float(np.sqrt(np.mean((measured - predicted) ** 2))),
        "median_relative_error": float(np.median(relative)) if len(relative) else None,
        "max_relative_error": float(np.max(relative)) if len(relative) else None,
    }


def folds(count: int, parts: int, seed: int = 0) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Yield (training, held-out) index arrays of a shuffled ``parts``-fold split of ``count`` points."""
    order = np.random.default_rng(seed).permutation(count)
    for part in range(parts):
        held = np.sort(order[part::parts])
        yield np.setdiff1d(np.arange(count), held), held


def per_count(
    counts: Values, measured: Values, predicted: Values, own: Values, left_out: Values | None
) -> tuple[dict[str, float | int | str | None], ...]:
    """Return the rows of a validation table, one a process count, with largest absolute relative errors.

    ``own`` are predictions by a fit to that count alone, ``predicted`` by the model over all counts, both on its own samples;
    ``left_out`` by models that were made without the count.
    """
    rows: list[dict[str, float | int | str | None]] = []
    for row in per_group(counts, measured, predicted):
        of = counts == row["group"]
        known = {"own": own, "left_out": left_out}
        worst = {
            f"{name}_max_relative_error": None if values is None else float(relative_errors(measured[of], values[of]).max())
            for name, values in known.items()
        }
        rows.append(
            {
                "P": int(row["group"]),
                "samples": row["points"],
                "own_max_relative_error": worst["own_max_relative_error"],
                "model_mean_relative_error": row["mean"],
                "model_max_relative_error": row["max"],
                "left_out_max_relative_error": worst["left_out_max_relative_error"],
            }
        )
    return tuple(rows)


def per_group(groups: Values, measured: Values, predicted: Values) -> list[dict[str, Any]]:
    """Return mean and maximum absolute relative error for each value of ``groups`` (the validation table, per P)."""
    absolute = relative_errors(measured, predicted)
    rows = []
    for group in np.unique(groups):
        part = absolute[groups == group]
        rows.append({"group": float(group), "points": len(part), "mean": float(part.mean()), "max": float(part.max())})
    return rows


def checked(groups: Values, measured: Values, predicted: Values, name: str) -> list[dict[str, Any]]:
    """Return errors of a model on measurements: a row for each value of the feature ``name``, and one over all (None)."""
    every = per_group(np.zeros(len(groups)), measured, predicted)
    rows = [*per_group(groups, measured, predicted), *({**row, "group": None} for row in every)]
    names = {"group": name, "points": "samples", "mean": "mean_relative_error", "max": "max_relative_error"}
    return [{names[key]: value for key, value in row.items()} for row in rows]


def leave_one_group_out(
    groups: Values, fit: Callable[[npt.NDArray[np.bool_]], Callable[[npt.NDArray[np.bool_]], Values]]
) -> Values:
    """Return predictions for every point by models that never saw the point's group.

    ``fit(mask)`` fits on the points of a mask and returns ``predict(mask)``.
    """
    predicted = np.full(len(groups), np.nan)
    for group in np.unique(groups):
        held = groups == group
        predicted[held] = fit(~held)(held)
    return predicted

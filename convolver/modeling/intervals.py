"""Prediction intervals from what fits missed at points that they had not seen (cross-conformal).

The error of a new point is as likely as any left-out one's to have any rank among them all, whatever their distribution: so the
limit of a level is the left-out error of the rank that the level asks for, the new point counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
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

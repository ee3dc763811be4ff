"""Linear scaling of terms: every summand of a tree gets the coefficient of a ridge regression, judged by leaving points out.

Keijzer's linear scaling gives a tree a slope and an offset in closed form; here each of its summands has a slope. The error is
that of each point predicted without it, also in closed form, so that a term which only bends to a few points is not a good one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from convolver.modeling.mecp.trees import Tree, end_of_first

Values = npt.NDArray[np.float64]

_RIDGES = np.array([1e-3, 1e-2, 1e-1, 1.0])
"""Ridges in units of the summands' variance; the one with the least error of left-out points is taken."""
_LEAST_FREEDOM = 0.05
MOST = 6
"""A term has at most so many summands."""


@dataclass(frozen=True)
class Scaling:
    """Coefficients of the summands, an offset, and the weighted squares of errors of left-out points."""

    coefficients: tuple[float, ...]
    offset: float
    error: float


def summands(tree: Tree) -> tuple[Tree, ...]:
    """Return the different summands of a tree without their constant factors and without constants."""
    return tuple(dict.fromkeys(_without_factor(part) for part in _split(tree) if not isinstance(part[0], float)))


def _split(tree: Tree) -> tuple[Tree, ...]:
    if tree[0] not in ("+", "-"):
        return (tree,)
    middle = end_of_first(tree)
    return _split(tree[1:middle]) + _split(tree[middle:])


def _without_factor(tree: Tree) -> Tree:
    while tree[0] == "*":
        middle = end_of_first(tree)
        first, second = tree[1:middle], tree[middle:]
        if isinstance(first[0], float):
            tree = second
        elif isinstance(second[0], float):
            tree = first
        else:
            break
    return tree


def scale(values: Values, wanted: Values, weights: Values) -> Scaling | None:
    """Return the scaling of summands' values (points, summands) to wanted corrections; None where a summand is constant."""
    total = weights.sum()
    means, mean = weights @ values / total, float(weights @ wanted / total)
    spread = np.sqrt(weights @ (values - means) ** 2 / total)
    if (spread < 1e-9 * np.maximum(1.0, np.abs(means))).any():
        return None
    roots = np.sqrt(weights)
    left, singular, right = np.linalg.svd((values - means) / spread * roots[:, None], full_matrices=False)
    y = (wanted - mean) * roots
    along = left.T @ y
    kept = singular**2 / (singular**2 + np.outer(_RIDGES, np.full_like(singular, len(y))))
    fitted = left @ (kept * along).T
    leverage = left**2 @ kept.T + (weights / total)[:, None]
    errors = (((y[:, None] - fitted) / np.maximum(1 - leverage, _LEAST_FREEDOM)) ** 2).sum(axis=0)
    best = int(np.argmin(errors))
    coefficients = right.T @ (kept[best] / np.maximum(singular, 1e-12) * along) / spread
    return Scaling(tuple(coefficients.tolist()), mean - float(coefficients @ means), float(errors[best]))

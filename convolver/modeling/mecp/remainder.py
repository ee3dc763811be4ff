"""What a term leaves of the base model's error, smoothed over the features: kriging with a mean of 0.

A short term has one shape everywhere; where the errors of adjacent points agree against it, they move the prediction there,
and far from all points nothing is added. Lengths and noise are those with the least errors of left-out points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

_LENGTHS = (0.4, 0.7, 1.2, 2.0, 4.0)
"""Lengths of the correlation, in standard deviations of a variable."""
_NOISES = (0.03, 0.1, 0.3, 1.0, 3.0)
"""Variances of the noise over that of the remainder."""
_OWN_LENGTHS = 3
"""With more variables all have one length."""


@dataclass(frozen=True)
class Remainder:
    """A sum of bells: their centers (points, variables), their heights, and the length of each variable."""

    names: tuple[str, ...] = ()
    centers: tuple[tuple[float, ...], ...] = ()
    heights: tuple[float, ...] = ()
    lengths: tuple[float, ...] = ()

    def values(self, columns: Mapping[str, Values], size: int) -> Values:
        """Return the remainder at ``size`` points of the variables' columns."""
        if not self.heights:
            return np.zeros(size)
        points = np.column_stack([columns[name] for name in self.names])
        return _near(points, np.array(self.centers), self.lengths) @ np.array(self.heights)

    def text(self) -> str:
        """Return the remainder as an expression of its variables."""
        bells = []
        for center, height in zip(self.centers, self.heights, strict=True):
            squares = (f"(({n}) - ({c!r}))^2/{2 * s * s!r}" for n, c, s in zip(self.names, center, self.lengths, strict=True))
            bells.append(f"({height!r})*exp(-({' + '.join(squares)}))")
        return " + ".join(bells) or "0"


def fit_remainder(columns: Mapping[str, Values], left: Values, weights: Values) -> Remainder:
    """Return the remainder of what is left at the columns' points; none where 0 predicts left-out points best."""
    names = tuple(columns)
    points = np.column_stack([columns[name] for name in names])
    roots = np.sqrt(weights / weights.mean())
    least, best = float((weights * left**2).sum()), Remainder()
    every = product(_LENGTHS, repeat=len(names)) if len(names) <= _OWN_LENGTHS else ((s,) * len(names) for s in _LENGTHS)
    for lengths in every:
        # the inverse of near + noise / weights, for all noises from one decomposition
        values, vectors = np.linalg.eigh(_near(points, points, lengths) * np.outer(roots, roots))
        for noise in _NOISES:
            inverse = (vectors / (values + noise)) @ vectors.T * np.outer(roots, roots)
            heights = inverse @ left
            error = float((weights * (heights / np.diag(inverse)) ** 2).sum())
            if error < least:
                least = error
                best = Remainder(names, tuple(map(tuple, points.tolist())), tuple(heights.tolist()), tuple(lengths))
    return best


def _near(first: Values, second: Values, lengths: tuple[float, ...]) -> Values:
    return np.asarray(np.exp(-0.5 * (((first[:, None] - second[None]) / np.array(lengths)) ** 2).sum(axis=-1)))

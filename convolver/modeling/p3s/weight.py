"""Weights of phases over process counts: exact lines in the index of legal counts (the paper's weight displacement).

Sweeps over pipelines take q - 1 steps on q x q processes, so weights are lines in q = sqrt(P), or in log2(P) for exchanges, and
integers. A line is accepted only where it gives every traced weight exactly, or within the few counts by which traces differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from convolver.errors import ModelError

DISPLACEMENTS: dict[str, Callable[[int], float]] = {
    "1": lambda p: 0.0,
    "sqrt(P)": lambda p: math.sqrt(p),
    "log2(P)": lambda p: math.log2(p),
    "ceil(log2(P)/2)": lambda p: float((int(math.log2(p)) + 1) // 2) if p & (p - 1) == 0 else 0.5,
    "floor(log2(P)/2)": lambda p: float(int(math.log2(p)) // 2) if p & (p - 1) == 0 else 0.5,
    "P": float,
    "2^floor(log2(P)/2)": lambda p: float(2 ** (int(math.log2(p)) // 2)) if p & (p - 1) == 0 else 0.5,
    "2^ceil(log2(P)/2)": lambda p: float(2 ** ((int(math.log2(p)) + 1) // 2)) if p & (p - 1) == 0 else 0.5,
}
"""Indices of legal process counts: square ones, powers of two, the sides of power-of-two grids, any."""


@dataclass(frozen=True)
class WeightLine:
    """weight = intercept + slope * index(P), exact; ``residual`` is the largest difference to a traced weight."""

    index: str
    intercept: Fraction
    slope: Fraction
    residual: float

    def __call__(self, processes: int) -> int:
        """Return the weight at a process count, rounded to an integer; raises :class:`ModelError` for an illegal count."""
        position = DISPLACEMENTS[self.index](processes)
        if self.index != "1" and position != int(position):
            raise ModelError(f"{processes} processes are not legal here: {self.index} is no integer.")
        return round(self.intercept + self.slope * int(position))


def _line(index: str, weights: Mapping[int, int]) -> WeightLine | None:
    positions = [DISPLACEMENTS[index](count) for count in weights]
    if any(position != int(position) for position in positions):
        return None
    x, y = [Fraction(int(p)) for p in positions], [Fraction(w) for w in weights.values()]
    count, zero = len(x), Fraction(0)
    mean_x, mean_y = sum(x, zero) / count, sum(y, zero) / count
    square = sum(((a - mean_x) ** 2 for a in x), zero)
    if index == "1" or square == 0:
        slope, intercept = Fraction(0), sorted(y)[count // 2]
    else:
        slope = sum(((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)), zero) / square
        intercept = mean_y - slope * mean_x
    residual = max(abs(float(b - intercept - slope * a)) for a, b in zip(x, y, strict=True))
    return WeightLine(index, intercept, slope, residual)


def fit_weight(weights: Mapping[int, int], *, tolerance: float = 0.002, index: str | None = None) -> WeightLine:
    """Return the exact line of one phase's weights, in the index that fits best; constants are preferred.

    ``index`` is tried right after the constant: two counts lie on a line in any index. Raises :class:`ModelError` when no index
    gives a line within ``tolerance`` of the weights.
    """
    lines = [line for index in DISPLACEMENTS if (line := _line(index, weights)) is not None]
    largest = max(weights.values())
    exact = [line for line in lines if line.residual <= 1e-9 * largest]
    whole = [line for line in exact if line.slope.denominator == 1]
    wanted = [line for line in exact if line.index in ("1", index)]
    best = (wanted or whole or exact)[0] if exact else min(lines, key=lambda line: line.residual)
    if best.residual > tolerance * largest:
        listed = ", ".join(f"{w} at {p}" for p, w in weights.items())
        raise ModelError(f"No line over the process counts explains the weights {listed}; trace other counts.")
    return best

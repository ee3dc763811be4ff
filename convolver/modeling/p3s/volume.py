"""Message sizes over process counts, in structured forms or power laws, and weights of phases (the paper's weight displacement).

Power laws extrapolate sizes with errors of tens of per cent, because a block of ceil(N / q) cells does not follow one; forms in
the block length with the constant taken from the data are exact where they apply. Every form has one coefficient, so that three
process counts test it twice; the best by relative error wins, and the power law remains where none fits.

Sweeps over pipelines take q - 1 steps on q x q processes, so weights are lines in q = sqrt(P), or in log2(P) for exchanges, and
integers. A line is accepted only where it gives every traced weight exactly, or within the few counts by which traces differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from convolver.errors import ModelError
from convolver.modeling.expression import evaluate
from convolver.modeling.p3s.rules import balanced

_SHAPES = (
    "1 (floor(N/q)+1)^2 ceil(N/q)^2 (floor(N/q)+1) ceil(N/q) q*ceil(N/q)^2 (q-1)*(N/q)^2 (q-1)*floor(N/q)^2 (q-1)*ceil(N/q)^2 "
    "N^2/q N/P N/C N/R ceil(N/C) ceil(N/R) floor(N/C) floor(N/R) 1/P 1/C 1/R 1/q 1/P^2"
)
SHAPES = _SHAPES.split()
"""One-coefficient shapes; q = sqrt(P), R x C the process grid, N the problem size."""


@lru_cache(maxsize=1 << 16)
def shape_value(shape: str, processes: int, size: int) -> float:
    """Return what a shape is at a process count and a problem size; q is a whole number where it divides N."""
    rows, columns = balanced(processes)
    q = math.sqrt(processes) if "N" not in shape else math.isqrt(processes)
    return float(evaluate(shape, {"P": processes, "q": q, "R": rows, "C": columns, "N": size}))


_ROUNDING = 1e-12
_OFFSETS = ("1/P", "1/q", "(floor(N/q)+1)", "ceil(N/q)", "N/C", "N/R")


@dataclass(frozen=True)
class VolumeForm:
    """bytes = factor * shape(P, N) + offset, or factor * P^power; ``error`` is the worst relative error on the traces."""

    shape: str
    factor: float
    power: float | None
    size: int
    error: float
    offset: float = 0.0

    def __call__(self, processes: int) -> float:
        """Return the bytes of a message at a process count."""
        if self.power is not None:
            return float(self.factor * processes**self.power)
        return self.factor * shape_value(self.shape, processes, self.size) + self.offset

    def __str__(self) -> str:
        """Return the form as text, as the table of equations prints it."""
        if self.power is not None:
            return f"{self.factor:.6g}*P^{self.power:.4g}"
        return f"{self.factor:.6g}*{self.shape}" + (f" + {self.offset:.6g}" if self.offset else "")


def power_form(sizes: Mapping[int, float]) -> VolumeForm:
    """Return the power law through sizes (least squares of logarithms), the paper's own volume equation."""
    if min(sizes.values()) <= 0:
        raise ModelError("A power law of message sizes needs sizes above 0.")
    p, s = np.array(list(sizes), dtype=np.float64), np.array(list(sizes.values()), dtype=np.float64)
    power, log_factor = np.polyfit(np.log(p), np.log(s), 1) if len(sizes) > 1 else (0.0, math.log(s[0]))
    factor = float(np.exp(log_factor))
    return VolumeForm("power", factor, float(power), 0, float(np.max(np.abs(factor * p**power / s - 1))))


def _fitted(name: str, sizes: Mapping[int, float], size: int) -> VolumeForm | None:
    values = np.array([shape_value(name, p, size) for p in sizes])
    target = np.array(list(sizes.values()), dtype=np.float64)
    if (values <= 0).any():
        return None
    factor = float(np.exp(np.mean(np.log(target / values))))
    return VolumeForm(name, factor, None, size, float(np.max(np.abs(factor * values / target - 1))))


def _with_offset(name: str, sizes: Mapping[int, float], size: int) -> VolumeForm | None:
    values = np.array([shape_value(name, p, size) for p in sizes])
    target = np.array(list(sizes.values()), dtype=np.float64)
    if len(sizes) < 3 or np.ptp(values) == 0:
        return None
    factor, offset = np.polyfit(values, target, 1, w=1 / target)
    return VolumeForm(
        name, float(factor), None, size, float(np.max(np.abs((factor * values + offset) / target - 1))), float(offset)
    )


def fit_volume(sizes: Mapping[int, float], *, sizes_to_try: tuple[int, ...] = ()) -> VolumeForm:
    """Return the form that explains message sizes best, structured forms before the power law.

    ``sizes_to_try`` are problem sizes N (the class's grid points). A size of 0 everywhere is the constant 0. A form must explain
    the traced sizes within 2 % to be taken before the power law.
    """
    if all(value == 0 for value in sizes.values()):
        return VolumeForm("1", 0.0, None, 0, 0.0)
    law = power_form(sizes)
    forms = [form for n in (sizes_to_try or (1,)) for name in SHAPES if (form := _usable(name, sizes, n)) is not None]
    if sizes_to_try:
        forms += [f for n in sizes_to_try for name in _OFFSETS if (f := _with_offset(name, sizes, n)) and f.error < 1e-4]
    # Exact forms tie but for rounding; the first of them is the simplest.
    best = min(forms, key=lambda form: max(form.error, _ROUNDING) + 1e-4 * (form.offset != 0), default=law)
    return best if best.error <= max(0.02, 0.0) and best.error <= law.error + 1e-3 else law


def _usable(name: str, sizes: Mapping[int, float], size: int) -> VolumeForm | None:
    """Return the fitted form, None for one in N where no N is known."""
    return None if size == 1 and "N" in name else _fitted(name, sizes, size)


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

"""Message sizes over process counts: power laws, and the structured forms that domain decompositions really follow.

Power laws extrapolate sizes with errors of tens of per cent, because a block of ceil(N / q) cells does not follow one; forms in
the block length with the constant taken from the data are exact where they apply. Every form has one coefficient, so that three
process counts test it twice; the best by relative error wins, and the power law remains where none fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from convolver.errors import ModelError
from convolver.modeling.p3s.rules import balanced

Shape = Callable[[int, int], float]
"""A function of process count and problem size."""


SHAPES: dict[str, Shape] = {
    "1": lambda p, n: 1.0,
    "(floor(N/q)+1)^2": lambda p, n: float((n // math.isqrt(p) + 1) ** 2),
    "ceil(N/q)^2": lambda p, n: float(math.ceil(n / math.isqrt(p)) ** 2),
    "(floor(N/q)+1)": lambda p, n: float(n // math.isqrt(p) + 1),
    "ceil(N/q)": lambda p, n: float(math.ceil(n / math.isqrt(p))),
    "q*ceil(N/q)^2": lambda p, n: float(math.isqrt(p) * math.ceil(n / math.isqrt(p)) ** 2),
    "(q-1)*(N/q)^2": lambda p, n: (math.isqrt(p) - 1) * (n / math.isqrt(p)) ** 2,
    "(q-1)*floor(N/q)^2": lambda p, n: float((math.isqrt(p) - 1) * (n // math.isqrt(p)) ** 2),
    "(q-1)*ceil(N/q)^2": lambda p, n: float((math.isqrt(p) - 1) * math.ceil(n / math.isqrt(p)) ** 2),
    "N^2/q": lambda p, n: n * n / math.isqrt(p),
    "N/P": lambda p, n: n / p,
    "N/C": lambda p, n: n / balanced(p)[1],
    "N/R": lambda p, n: n / balanced(p)[0],
    "ceil(N/C)": lambda p, n: float(math.ceil(n / balanced(p)[1])),
    "ceil(N/R)": lambda p, n: float(math.ceil(n / balanced(p)[0])),
    "floor(N/C)": lambda p, n: float(n // balanced(p)[1]),
    "floor(N/R)": lambda p, n: float(n // balanced(p)[0]),
    "1/P": lambda p, n: 1 / p,
    "1/C": lambda p, n: 1 / balanced(p)[1],
    "1/R": lambda p, n: 1 / balanced(p)[0],
    "1/q": lambda p, n: 1 / math.sqrt(p),
    "1/P^2": lambda p, n: 1 / p**2,
}
"""One-coefficient shapes; q = sqrt(P), R x C the process grid, N the problem size."""
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
        return self.factor * SHAPES[self.shape](processes, self.size) + self.offset

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
    values = np.array([SHAPES[name](p, size) for p in sizes])
    target = np.array(list(sizes.values()), dtype=np.float64)
    if (values <= 0).any():
        return None
    factor = float(np.exp(np.mean(np.log(target / values))))
    return VolumeForm(name, factor, None, size, float(np.max(np.abs(factor * values / target - 1))))


def _with_offset(name: str, sizes: Mapping[int, float], size: int) -> VolumeForm | None:
    values = np.array([SHAPES[name](p, size) for p in sizes])
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

"""The fit of the rate model's coefficients on rows, and how far it errs on kernels it has not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from convolver.analyzing.falls import Array
from convolver.calibration.measured_points import Rows
from convolver.convolution.rates import BlockWork, seconds
from convolver.machine.calibration import Calibration

_TOLERATED = 0.1
"""Relative error from which on a row counts less than with its square."""
_PRIOR = 0.02
"""Pull of each coefficient's logarithm towards its start: decides only what no row tells."""
LIKE = 0.3
"""The same towards the coefficients of the same machine in another state: a change by a third counts as much as an error of 10 %
in one row, so what the rows tell moves and what they do not tell stays."""
_LEAST_EXPONENT = 1.0
MOST_WALK = 2.0
"""Latencies of the last level that a page walk takes at most: it reads an entry of the program's page table and, in a virtual
machine, one of the host's. These tables are a 512th as large as the pages, so caches hold the entries."""
MOST_BLOCKED = 0.97
"""Start of a share that is fitted as odds, at most."""


TUPLES = ("sequential", "random", "write_back", "latency")
"""What is fitted for each farther level."""
WALKS = ("walk", "walk_latency")
"""What is fitted where pages were seen to cost something."""
KNOWN = ("huge_walk", "alone")
"""What is fitted where it is not 0."""


@dataclass(frozen=True)
class Start:
    """Coefficients before the fit, those that are not fitted included, and how strongly each is pulled back to them."""

    calibration: Calibration
    pull: float = _PRIOR

    @property
    def _single(self) -> tuple[str, ...]:
        """Return the names of single values that are fitted where the calibration has them."""
        walks = WALKS if self.calibration.page_entries else ()
        return (*walks, *(name for name in KNOWN if getattr(self.calibration, name)))

    @property
    def _exponents(self) -> tuple[float, float]:
        one = self.calibration
        return one.near_exponent - _LEAST_EXPONENT, one.exponent - _LEAST_EXPONENT

    def vector(self) -> Array:
        """Return the logarithms of what is fitted."""
        one = self.calibration
        levels = [value for name in TUPLES for value in getattr(one, name)]
        single = [getattr(one, name) for name in self._single]
        blocked = min(max(one.blocked, 1 - MOST_BLOCKED), MOST_BLOCKED)
        return np.log([*levels, *single, blocked / (1 - blocked), one.between, one.coming * 1e9, one.window, *self._exponents])

    def values(self, vector: Array) -> Array:
        """Return what a vector says, in seconds where it is a time, in the order of :meth:`names`.

        Rows tell the sum of a far level's latency and a walk's better than either, so that a fit could put memory before the last
        level, and all of memory's latency into walks. A level counts as no nearer than the one before it; a walk takes at most
        :data:`MOST_WALK` latencies of the last level.
        """
        values = np.exp(vector)
        levels = len(self.calibration.latency)
        first = TUPLES.index("latency") * levels
        latency = np.maximum.accumulate(values[first : first + levels])
        values[first : first + levels] = latency
        if self.calibration.page_entries:
            walk = len(TUPLES) * levels + WALKS.index("walk_latency")
            values[walk] = min(values[walk], MOST_WALK * latency[max(levels - 2, 0)])
        values[-6] /= 1 + values[-6]
        values[-4] *= 1e-9
        values[-2:] += _LEAST_EXPONENT
        return values

    def with_vector(self, vector: Array) -> Calibration:
        """Return the coefficients of a vector."""
        values = self.values(vector).tolist()
        levels = len(self.calibration.sequential)
        of_levels = {name: tuple(values[first * levels : (first + 1) * levels]) for first, name in enumerate(TUPLES)}
        single = dict(zip(self._single, values[len(TUPLES) * levels :], strict=False))
        blocked, between, coming, window, near_exponent, exponent = values[-6:]
        return msgspec.structs.replace(
            self.calibration,
            **of_levels,
            **single,
            blocked=blocked,
            between=between,
            coming=coming,
            window=window,
            near_exponent=near_exponent,
            exponent=exponent,
        )

    def names(self, levels: list[str]) -> list[str]:
        """Return the names of what is fitted, in the order of the vector."""
        of_levels = (f"{group} {level}" for group in TUPLES for level in levels)
        return [*of_levels, *self._single, "blocked", "between", "coming", "window", "near_exponent", "exponent"]


def chosen(rows: Rows, which: Any) -> Rows:
    """Return some of the rows."""
    work = BlockWork(**{name: value[which] for name, value in vars(rows.work).items()})
    level = tuple(np.array(rows.level)[which])
    return replace(
        rows,
        kernels=rows.kernels[which],
        working_sets=rows.working_sets[which],
        seconds=rows.seconds[which],
        work=work,
        weight=rows.weight[which],
        level=level,
        huge=rows.huge[which],
    )


def errors(rows: Rows, calibration: Calibration) -> Array:
    """Return log(model / measured) of each row."""
    return np.log(seconds(rows.asked(calibration), calibration) / rows.seconds)


def fit(rows: Rows, start: Start, at: Array | None = None) -> tuple[Array, float]:
    """Return the fitted vector and the cost; ``at``: a vector to begin from."""
    from scipy.optimize import least_squares

    used = chosen(rows, rows.weight > 0)
    origin = start.vector()

    def residuals(vector: Array) -> Array:
        return np.concatenate([used.weight * errors(used, start.with_vector(vector)), start.pull * (vector - origin)])

    bounds = (origin - np.log(30.0), origin + np.log(30.0))
    inside = origin if at is None else np.clip(at, bounds[0] + 1e-9, bounds[1] - 1e-9)
    found = least_squares(residuals, inside, bounds=bounds, loss="soft_l1", f_scale=_TOLERATED, xtol=1e-4, ftol=1e-4, max_nfev=60)
    return found.x, float(found.cost)


def left_out(rows: Rows, start: Start, at: Array) -> tuple[Array, Array]:
    """Return each row's error when its kernel was left out of the fit, and the fitted vectors (one a kernel)."""
    found, vectors = np.zeros(len(rows.kernels)), []
    for kernel in dict.fromkeys(rows.kernels.tolist()):
        own = rows.kernels == kernel
        vector, _ = fit(chosen(rows, ~own), start, at)
        found[own] = errors(chosen(rows, own), start.with_vector(vector))
        vectors.append(vector)
    return found, np.array(vectors)

"""Errors that the model was measured to have, to draw from: those of kernels left out of the calibration, and of core times.

A prediction's blocks are to the model what a kernel is that its fit has not seen. So each draw picks one kernel, for all blocks
and all levels, and for each block one of that kernel's points at the level: like blocks err alike as far as one kernel's points
do. The same kernel is picked for every machine, and so two machines have in common what their calibrations have in common.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver.analyzing.falls import Array
from convolver.machine.calibration import Calibration

CHAINS = "chase"
"""Beginning of the names of kernels whose loads wait for one another: latencies decide their time, not what levels deliver."""
UNKNOWN_DEVIATION = 0.18
"""Deviation of the model's logarithmic errors where a calibration holds no residual of it."""
_PERCENTILES = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 100)
_OF_CORES = (-0.208, -0.145, -0.113, -0.038, -0.013, -0.001, 0.016, 0.036, 0.124, 0.2, 0.258, 0.378, 0.497)
"""Percentiles of log(measured / predicted) cycles of 22 functions in L1 that the core model had not seen, three builds each, from
executed paths: ``tests/bench/core_time_errors.py --set frozen`` with the published table (docs/theory.md)."""
TIMED = "golden-cove"
"""The core on which these functions were timed."""
OTHER_CORES = 1.4
"""How much more other tables err, which were entered from published figures: the same functions err by 13.2 % in the
mean on a Zen 3, and by 9.4 % on the timed core."""
GUESSED_CORES = 2.2
"""The same of a table that stands for another core: 20.5 % of Zen 4's on a Zen 5, with the machine's probes."""
CORE_COMMON = 0.73
"""Share of these errors' variance that lies between functions: the builds of one function have it in common (intraclass
correlation of the same runs)."""


class Chances(NamedTuple):
    """Which errors are drawn, as numbers in 0..1: of the kernels, shape (draws, 1); of their points, shape (draws, blocks)."""

    kernels: Array
    points: Array


def core_errors(normal: Array, core: str = TIMED, guessed: bool = False) -> Array:
    """Return log(true / estimated) core times from executed paths, distributed as measured, by standard normal numbers."""
    wider = GUESSED_CORES if guessed else 1.0 if core == TIMED else OTHER_CORES
    return np.interp(normal, *_core_quantiles()) * wider


@cache
def _core_quantiles() -> tuple[Array, Array]:
    """Return normal numbers, rising, and the errors at the same percentiles."""
    # Without scipy, whose import takes longer than everything else that convolves.
    normal = np.linspace(-6, 6, 6001)
    percent = [50 * math.erfc(-one) for one in (normal / math.sqrt(2)).tolist()]
    return normal, np.interp(percent, _PERCENTILES, _OF_CORES)


def _by_kernel(calibration: Calibration, levels: Sequence[str], chains: bool) -> list[Array]:
    """Return log(measured / model) of the points in these levels, an array a kernel, by their names."""
    found: dict[str, list[float]] = {}
    for one in calibration.residuals:
        if one.place in levels and one.kernel.startswith(CHAINS) == chains:
            found.setdefault(one.kernel, []).append(-one.error)
    return [np.array(found[name]) for name in sorted(found)]


def drawn_errors(calibration: Calibration, levels: Sequence[str], chances: Chances, *, chains: bool = False) -> Array:
    """Return log(true / model) of what levels take to deliver lines, shape (draws, blocks), or, of ``chains``, of latencies.

    Without a residual, by :data:`UNKNOWN_DEVIATION`.
    """
    kernels = _by_kernel(calibration, levels, chains)
    if not kernels:
        from scipy.special import ndtri

        return np.asarray(UNKNOWN_DEVIATION * ndtri(np.clip(chances.points, 1e-6, 1 - 1e-6)))
    which = _picked(chances.kernels[:, 0], len(kernels))
    return np.stack([kernels[one][_picked(row, len(kernels[one]))] for one, row in zip(which, chances.points, strict=True)])


def _picked(chance: Array, count: int) -> NDArray[np.intp]:
    return np.minimum((chance * count).astype(np.intp), count - 1)

"""How certain a calibrated prediction is: its parts drawn again and again within what is known of their errors.

Every draw scales the parts of each block's time by lognormal factors: a place's by the errors that the model had on kernels
left out of the calibration, the core's and the serial part's by the errors of their estimates, all by the noise of the
profile, and each by the standard error of the sampled hit rates. Half of a model error's variance is common to all blocks,
since like blocks err alike.

The same random numbers serve every machine, except for a part of the model's error: so draws of two machines belong together,
and what both share cancels in their ratio.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver.convolution.falls import Array
from convolver.convolution.rates import joined
from convolver.machine.calibration import Calibration

DRAWS = 200
QUANTILES = (0.05, 0.95)
"""Ends of the stated interval of 90 %."""
COMMON_BLOCKS = 0.5
"""Share of the variance of a model error that all blocks of a program have in common."""
COMMON_MACHINES = 0.7
"""Share of the variance of a model error that two machines have in common; those with one calibration, all of it."""
CORE_ERRORS = {"paths": (0.05, 0.2), "bound": (0.25, 0.45)}
"""Mean and deviation of log(true / estimated) core time by how it was estimated: from executed paths (from the code alone in
blocks that no path shows), or as a bound by ports and instruction counts, which knows neither chains nor mispredicted branches
and so is too low more often than too high."""
SERIAL_DEVIATION = 0.5
"""Deviation of log(true / estimated) time of dependent loads, which a rule tells from gathers."""
LEAST_DEVIATION = 0.03
UNSEEN_DEVIATION = 0.5
"""The same for the memory of a block without a sample, and for a place whose sampling error is not known."""
_SEED = 20031107
_NORMAL_90 = 3.29  # standard deviations between the ends of an interval of 90 %
KEPT = 64
"""Blocks whose own draws are kept."""
_WHOLE = 0.995  # of the time, in blocks that are drawn one by one


class Known(NamedTuple):
    """What is known of the errors: standard errors of the share that each place serves, relative, nan if unknown; which blocks
    were not sampled; the noise of the profile; how core times were estimated (:data:`CORE_ERRORS`); and for blocks near a
    capacity, which may settle in either of two states, the time in the other one over that of the prediction (1: there is one
    state)."""

    sampling: Array
    unseen: NDArray[np.bool_]
    noise: float
    core: str
    other: Array


def place_deviations(calibration: Calibration, places: Sequence[str]) -> Array:
    """Return the deviation of the model's logarithmic errors by place, from kernels that were left out of its fit."""
    found = []
    for place in places:
        values = [one.error for one in calibration.residuals if one.place == place]
        low, high = np.quantile(values, QUANTILES) if len(values) >= 10 else (-0.3, 0.3)
        found.append(max(float(high - low) / _NORMAL_90, LEAST_DEVIATION))
    return np.array(found)


def _normal(shape: tuple[int, ...], *key: int) -> Array:
    return np.random.default_rng([_SEED, *key]).standard_normal(shape)


def _own_key(calibration: Calibration) -> int:
    """Return a number of its own for each calibration: projections keep that of their base."""
    return zlib.crc32(repr([one.error for one in calibration.residuals]).encode())


def _errors(blocks: NDArray[np.intp], number: int, key: int) -> Array:
    """Return standard normal errors of one part, shape (draws, blocks): partly common to the blocks, partly to the machines."""
    count = int(blocks.max()) + 1

    def of_machine(own: tuple[int, ...]) -> Array:
        common = _normal((DRAWS, 1), number, 0, *own)
        single = _normal((DRAWS, count), number, 1, *own)[:, blocks]
        return np.sqrt(COMMON_BLOCKS) * common + np.sqrt(1 - COMMON_BLOCKS) * single

    return np.asarray(np.sqrt(COMMON_MACHINES) * of_machine(()) + np.sqrt(1 - COMMON_MACHINES) * of_machine((key,)))


class Drawn(NamedTuple):
    """Drawn seconds of the whole program, shape (draws); half width of each block's interval; the blocks with most of the time,
    and their drawn seconds, shape (draws, those blocks)."""

    whole: Array
    widths: Array
    blocks: NDArray[np.intp]
    single: Array


def draw(parts: Array, exponents: tuple[float, float], calibration: Calibration, places: Sequence[str], known: Known) -> Drawn:
    """Return the seconds of a program and its blocks, drawn within their errors.

    ``parts`` as :func:`convolver.convolution.rates.parts` gives them; ``places`` are the farther ones. Blocks that hold little
    of the time have the relative width of the others.
    """
    seconds = joined(parts, *exponents)
    if not seconds.sum() > 0:
        return Drawn(np.zeros(DRAWS), np.zeros_like(seconds), np.zeros(0, dtype=np.intp), np.zeros((DRAWS, 0)))
    order = np.argsort(-seconds, kind="stable")
    large = np.sort(order[: int(np.searchsorted(seconds[order].cumsum(), _WHOLE * seconds.sum())) + 1])
    factors = _factors(large, calibration, places, known)
    drawn = np.stack([joined(parts[:, large] * factor, *exponents) for factor in factors.transpose(1, 0, 2)])
    drawn *= known.other[large] ** np.random.default_rng([_SEED, 600]).random((DRAWS, 1))
    low, high = np.quantile(drawn, QUANTILES, axis=0)
    widths = seconds * float((high - low).sum() / 2 / seconds[large].sum())
    widths[large] = (high - low) / 2
    kept = np.argsort(-seconds[large], kind="stable")[:KEPT]
    return Drawn(drawn.sum(axis=1) * float(seconds.sum() / seconds[large].sum()), widths, large[kept], drawn[:, kept])


def _factors(blocks: NDArray[np.intp], calibration: Calibration, places: Sequence[str], known: Known) -> Array:
    """Return the factors of the parts, shape (parts, draws, blocks): as :func:`rates.parts` orders them."""
    key = _own_key(calibration)
    deviations = place_deviations(calibration, places)
    unseen = np.where(known.unseen[blocks], UNSEEN_DEVIATION, 0.0)
    noise = known.noise * _normal((DRAWS, 1), 1000, key)
    shift, core_deviation = CORE_ERRORS[known.core]
    logs = [shift + core_deviation * _errors(blocks, 0, 0)]
    for number, deviation in enumerate(deviations, 1):
        # From the far end, so that the memories of machines with different levels err alike.
        part = len(places) - number + 1
        sampling = np.nan_to_num(np.minimum(known.sampling[blocks, number - 1], 1.0), nan=UNSEEN_DEVIATION)
        sampled = np.hypot(sampling, unseen)
        logs.append(deviation * _errors(blocks, part, key) + sampled * _normal((DRAWS, 1), 500 + part))
    farthest = float(deviations.max())
    logs.append(farthest * _errors(blocks, 102, key))
    logs.append(np.hypot(SERIAL_DEVIATION, farthest) * _errors(blocks, 100, key))
    logs.append(farthest * _errors(blocks, 101, key))
    logs.append(shift + np.hypot(core_deviation, farthest) * _errors(blocks, 103, key))
    logs.insert(1, logs[1])  # loads and stores of the nearest place err alike
    return np.exp(np.stack(logs) + noise)

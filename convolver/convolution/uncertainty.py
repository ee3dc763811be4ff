"""How certain a calibrated prediction is: its parts drawn again and again within what is known of their errors.

Every draw scales the parts of each block's time: what levels deliver and latencies by the errors that the model had on kernels
left out of the calibration and, on a projected machine, by what its factors leave open, the core by the errors of small
functions, all by the noise of the profile, and each by the standard error of the sampled hit rates.

The same random numbers serve every machine, so draws of two machines belong together, and what both share cancels in their
ratio.

A prediction's blocks are to the model what a kernel is that its fit has not seen. So each draw picks one kernel, for all blocks
and all levels, and for each block one of that kernel's points at the level: like blocks err alike as far as one kernel's points
do. The same kernel is picked for every machine, and so two machines have in common what their calibrations have in common.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver.analyzing.falls import Array
from convolver.convolution.rates import joined
from convolver.machine.calibration import Calibration

CHAINS = "chase"
"""Beginning of the names of kernels whose loads wait for one another: latencies decide their time, not what levels deliver."""
UNKNOWN_DEVIATION = 0.18
"""Deviation of the model's logarithmic errors where a calibration holds no residual of it."""
_PERCENTILES = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 100)
_OF_CORES = (-0.279, -0.176, -0.081, -0.025, -0.012, 0.003, 0.013, 0.025, 0.075, 0.133, 0.177, 0.268, 0.614)
"""Percentiles of log(measured / predicted) cycles of 22 functions in L1 that the core model had not seen, three builds each at
four places, from executed paths: ``tests/bench/core_time_errors.py --set frozen --shifts 0 16 32 48`` with the published table
(docs/theory.md)."""
TIMED = "golden-cove"
"""The core on which these functions were timed."""
OTHER_CORES = 1.3
"""How much more other tables err, which were entered from published figures: the same functions err by 10.6 % in the
mean on a Zen 3, by 11.8 % on a Zen 5, and by 8.5 % on the timed core."""
GUESSED_CORES = 2.2
"""The same of a table that stands for another core: 20.5 % of Zen 4's on a Zen 5, with the machine's probes."""
CORE_COMMON = 0.68
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


DRAWS = 200
QUANTILES = (0.05, 0.95)
"""Ends of the stated interval of 90 %."""
BOUND = (0.25, 0.45)
"""Mean and deviation of log(true / estimated) core time where it is a bound by ports and instruction counts, which knows neither
chains nor mispredicted branches and so is too low more often than too high."""
UNSEEN_DEVIATION = 0.5
"""Deviation of the logarithm for the memory of a block without a sample, and for a level whose sampling error is not known."""
OWN_WALK = 0.04
"""Share of the variance between walked windows that each walk has alone: where a few lines more or less come out of order, these
and all after them meet other instructions. In walks of cg and ls with 0.1 to 0.4 % more or fewer lines it was 0.005 to 0.04."""
_SEED = 20031107
KEPT = 64
"""Blocks, and functions, whose own draws are kept."""
_WHOLE = 0.995  # of the time, in blocks that are drawn one by one; at most so many:
_MOST = 2048
_CHUNK = 256  # blocks that are drawn at once
_POOL = 2048
"""Rows of random numbers: blocks whose numbers are that far apart have the same ones."""


class Known(NamedTuple):
    """What is known of the errors: standard errors of the share that each level serves, relative, nan if unknown; which blocks
    were not sampled; the noise of the profile; whether core times come from executed paths (else: :data:`BOUND`); and for blocks
    near a capacity, which may settle in either of two states, the time in the other one over that of the prediction (1: there is
    one state); relative standard errors of core times between the windows that were walked; and the name of the
    core's table, the same on machines whose core times err alike, and whether it stands for a core that no table knows."""

    sampling: Array
    unseen: NDArray[np.bool_]
    noise: float
    paths: bool
    other: Array
    walked: Array | None = None
    core: str = ""
    guessed: bool = False
    clock: float = 0.0


def _normal(shape: tuple[int, ...], *key: int) -> Array:
    return np.random.default_rng([_SEED, *key]).standard_normal(shape)


@cache
def _pool(kind: str, *key: int) -> Array:
    return np.asarray(getattr(np.random.default_rng([_SEED, *key]), kind)((_POOL, DRAWS)))


def _of_blocks(blocks: NDArray[np.intp], kind: str, *key: int) -> Array:
    """Return random numbers of each block, shape (draws, blocks): the same ones whatever other blocks are drawn beside it on
    another machine. ``kind``: "standard_normal" or "random" (in 0..1)."""
    return np.asarray(_pool(kind, *key)[blocks % _POOL].T)


def interval_ends(draws: Array) -> list[Any]:
    """Return both ends of the stated interval along the first axis, as ``np.quantile`` gives them in ten times the time."""
    ordered = np.sort(draws, axis=0)
    return [_between(ordered, share) for share in QUANTILES]


def _between(ordered: Array, share: float) -> Any:
    place = share * (len(ordered) - 1)
    near, part = int(place), place % 1
    low, high = ordered[near], ordered[min(near + 1, len(ordered) - 1)]
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)


def _own_key(calibration: Calibration) -> int:
    """Return a number of its own for each calibration: projections keep that of their base."""
    return zlib.crc32(repr([one.error for one in calibration.residuals]).encode())


def _core(blocks: NDArray[np.intp], known: Known) -> Array:
    """Return log(true / estimated) core times, shape (draws, blocks): with the same numbers on machines of one kind of core,
    whose table errs alike. What two tables err by has nothing in common that is known."""
    key = zlib.crc32(known.core.encode())
    common, single = _normal((DRAWS, 1), 0, 0, key), _of_blocks(blocks, "standard_normal", 0, 1, key)
    normal = np.sqrt(CORE_COMMON) * common + np.sqrt(1 - CORE_COMMON) * single
    if not known.paths:
        return np.asarray(BOUND[0] + BOUND[1] * normal)
    errors = core_errors(normal, known.core, known.guessed)
    if known.walked is not None:
        own = zlib.crc32(known.walked.tobytes())  # of machines whose lines are as far away, the same
        walk = np.sqrt(1 - OWN_WALK) * _of_blocks(blocks, "standard_normal", 0, 2)
        walk += np.sqrt(OWN_WALK) * _of_blocks(blocks + own, "standard_normal", 0, 3)
        errors = errors + known.walked[blocks] * walk
    return errors


def _clock(calibration: Calibration, known: Known) -> Array:
    """Return log(true / usual) lengths of a cycle, shape (draws, 1): a run's clock lies anywhere between the fastest that the
    probe saw and one as much slower than the usual. All blocks run at it; two machines' have nothing in common."""
    chance = np.random.default_rng([_SEED, 800, _own_key(calibration)]).random((DRAWS, 1))
    return np.asarray(known.clock * (2 * chance - 1))


def _assumed(calibration: Calibration, levels: Sequence[str]) -> Array:
    """Return what a projection's factors add to the logarithms of its levels, shape (draws, levels).

    All blocks err alike, and two machines together only where the same was assumed of both.
    """
    deviations = np.array(calibration.assumed or (0.0,) * len(levels))
    return np.asarray(deviations * _normal((DRAWS, len(levels)), 1001, zlib.crc32(repr(calibration.assumed).encode())))


def _chances(blocks: NDArray[np.intp], number: int) -> Chances:
    return Chances(np.random.default_rng([_SEED, 700 + number]).random((DRAWS, 1)), _of_blocks(blocks, "random", 710 + number))


class Drawn(NamedTuple):
    """Drawn seconds of the whole program, shape (draws); half width of each block's interval; the blocks with most of the time,
    and their drawn seconds, shape (draws, those blocks); the functions with most of the time, and their drawn seconds relative to
    the predicted ones, shape (draws, those functions); standard error of each block's seconds between samples of one run."""

    whole: Array
    widths: Array
    blocks: NDArray[np.intp]
    single: Array
    functions: NDArray[np.intp]
    grouped: Array
    sampling: Array


def sampling_errors(parts: Array, exponents: tuple[float, float], known: Known) -> Array:
    """Return the standard error of each block's seconds, in seconds, if only another sample of the same run had been taken.

    Each part is moved by its own standard error; the changes are independent, so their squares add up.
    """
    whole = joined(parts, *exponents)
    core = 0.0 if known.walked is None else np.nan_to_num(known.walked)
    unseen = np.where(known.unseen, UNSEEN_DEVIATION, 0.0)
    moved = parts.copy()
    moved[0] *= 1 + core
    moved[-1] += parts[0] * core
    squares = (joined(moved, *exponents) - whole) ** 2
    for level, errors in enumerate(known.sampling.T):
        moved, relative = parts.copy(), np.hypot(np.nan_to_num(np.minimum(errors, 1.0), nan=UNSEEN_DEVIATION), unseen)
        rows = (1, 2) if level == 0 else (level + 2,)
        for row in rows:
            moved[row] *= 1 + relative
        squares += (joined(moved, *exponents) - whole) ** 2
    return np.sqrt(squares)


def draw(
    parts: Array,
    exponents: tuple[float, float],
    calibration: Calibration,
    levels: Sequence[str],
    known: Known,
    functions: NDArray[np.intp],
) -> Drawn:
    """Return the seconds of a program, its blocks and its functions, drawn within their errors.

    ``parts`` as :func:`convolver.convolution.rates.parts` gives them; ``levels`` are the farther ones; ``functions`` is a
    number of each block's function. Blocks that hold little of the time have the relative width of the others, and the draws of
    their function.
    """
    seconds = joined(parts, *exponents)
    if not seconds.sum() > 0:
        none = np.zeros(0, dtype=np.intp)
        empty = np.zeros((DRAWS, 0))
        return Drawn(np.zeros(DRAWS), np.zeros_like(seconds), none, empty, none, empty, np.zeros_like(seconds))
    order = np.argsort(-seconds, kind="stable")
    most = min(int(np.searchsorted(seconds[order].cumsum(), _WHOLE * seconds.sum())) + 1, _MOST)
    large = np.sort(order[:most])
    chunks = np.array_split(large, -(-len(large) // _CHUNK))
    drawn = np.hstack([_drawn(parts, one, exponents, calibration, levels, known) for one in chunks])
    drawn *= known.other[large] ** np.random.default_rng([_SEED, 600]).random((DRAWS, 1))
    low, high = interval_ends(drawn)
    widths = seconds * float((high - low).sum() / 2 / seconds[large].sum())
    widths[large] = (high - low) / 2
    kept = np.argsort(-seconds[large], kind="stable")[:KEPT]
    whole = drawn.sum(axis=1) * float(seconds.sum() / seconds[large].sum())
    grouped = _grouped(drawn, large, seconds, functions)
    return Drawn(whole, widths, large[kept], drawn[:, kept], *grouped, sampling_errors(parts, exponents, known))


def _drawn(
    parts: Array,
    blocks: NDArray[np.intp],
    exponents: tuple[float, float],
    calibration: Calibration,
    levels: Sequence[str],
    known: Known,
) -> Array:
    """Return the drawn seconds of some blocks, shape (draws, blocks)."""
    factors = _factors(blocks, calibration, levels, known)
    # Waiting is the core's time and what latencies add to it; these err by themselves.
    core, waited = parts[0, blocks], np.maximum(parts[-1, blocks] - parts[0, blocks], 0.0)
    scaled = np.vstack([parts[:-1, blocks], waited])[:, None, :] * factors
    scaled[-1] += core * factors[0]
    return joined(scaled.reshape(len(scaled), -1), *exponents).reshape(DRAWS, len(blocks))


def _grouped(
    drawn: Array, large: NDArray[np.intp], seconds: Array, functions: NDArray[np.intp]
) -> tuple[NDArray[np.intp], Array]:
    """Return the functions with most of the time and their drawn seconds relative to the predicted ones, shape (draws, those
    functions); functions of which no block was drawn are left out."""
    whole = np.bincount(functions, seconds)
    inside = np.bincount(functions[large], seconds[large], minlength=len(whole))
    kept = [function for function in np.argsort(-whole, kind="stable")[:KEPT] if inside[function] > 0]
    relative = [drawn[:, functions[large] == function].sum(axis=1) / inside[function] for function in kept]
    return np.array(kept, dtype=np.intp), np.stack(relative, axis=1)


def _factors(blocks: NDArray[np.intp], calibration: Calibration, levels: Sequence[str], known: Known) -> Array:
    """Return the factors of the parts, shape (parts, draws, blocks): as :func:`rates.parts` orders them."""
    assumed = _assumed(calibration, levels)
    unseen = np.where(known.unseen[blocks], UNSEEN_DEVIATION, 0.0)
    noise = known.noise * _normal((DRAWS, 1), 1000, _own_key(calibration))
    streams, chains = _chances(blocks, 0), _chances(blocks, 1)
    logs = [_core(blocks, known) + _clock(calibration, known)]
    for number, level in enumerate(levels):
        # From the far end, so that the memories of machines with different levels err alike.
        part = len(levels) - number
        sampling = np.nan_to_num(np.minimum(known.sampling[blocks, number], 1.0), nan=UNSEEN_DEVIATION)
        sampled = np.hypot(sampling, unseen) * _normal((DRAWS, 1), 500 + part)
        logs.append(drawn_errors(calibration, [level], streams) + sampled + assumed[:, number : number + 1])
    logs.append(drawn_errors(calibration, levels, chains, chains=True) + assumed[:, -1:])
    latency, memory = len(levels) + 1, len(levels)
    # Loads and stores of the nearest level err alike; at the end stand pages, serial, window and waiting.
    alike = [0, 1, *range(1, latency), memory, latency, memory, latency]
    return np.asarray(np.exp(np.stack(logs) + noise)[alike])

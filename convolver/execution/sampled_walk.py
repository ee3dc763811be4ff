"""Cycles of blocks from windows of the path: as many as it takes until the program's cycles are known well enough.

Windows are walked in rounds of one a stratum of the run, chosen at random. A block's cycles an execution are the ratio of the
sums over windows; the program's cycles add these up, weighted by the exact numbers of executions. How far such a sum lies from
the truth shows between windows: to first order each adds ``sum over blocks of weight (cycles - ratio executions)``, whose
variance within strata is that of the sum (Cochran, "Sampling Techniques", 1977, 5A.3 and 6.13). Blocks that these windows show
too rarely are taken from windows that were kept for them.

How many lines come from far away in a window is mostly chance, but how many do in the whole run is known: the cycles of those
beyond it (``surplus``) are taken off, as far as each block is seen to wait for them (the regression estimator, Cochran, 7.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native.path_sample import PathSample, SampleWalk
from convolver.execution.shared_walk import SharedWalk
from convolver.progress import SILENT, Progress, step

Array = NDArray[np.float64]
AnyWalk = SampleWalk | SharedWalk

CORE_ERROR = 0.008
"""Relative standard error of the program's cycles at which walking ends unless another one is asked for; 0.01 is promised."""
STRATA = 64
LEAST_ROUNDS = 4
NO_STRATUM = -1
ENOUGH = 8
"""Executions from which on the windows chosen at random alone say what a block takes."""
MOST_RARE = 512
"""Windows walked for rare blocks, at most."""
BY_CHANCE = 3.0
"""Standard errors up to which the sum of a block's surplus differs from 0 by chance."""
ASTRAY = 0.5
"""Of a block's surplus, whatever its sign, the part beyond which its sum is not due to chance: the lines that the run's shares
promise hardly ever come out of order on its path, and nothing waits for them."""
NEGLIGIBLE = 0.001
"""Share of the program's instructions in blocks that are looked for in no further window."""


class BlockCycles(NamedTuple):
    """What windows say of blocks: cycles and executions in them, the relative standard error of their ratio; and of the program's
    cycles, all blocks weighted by their executions. ``slope``: cycles that a cycle of a block's surplus takes, which ``cycles``
    lack."""

    cycles: Array
    executions: Array
    errors: Array
    error: float
    slope: Array


def heaviest(work: Array, left_out: float) -> NDArray[np.intp]:
    """Return the places of all work but the least, which together is no more than ``left_out``; the most comes first."""
    order = np.argsort(-work, kind="stable")
    return order[work[order][::-1].cumsum()[::-1] > left_out]


def walk_windows(
    sample: PathSample,
    walks: Sequence[AnyWalk],
    segment_blocks: NDArray[np.int64],
    executions: Array,
    length: Array,
    target: float,
    progress: Progress = SILENT,
) -> list[BlockCycles]:
    """Return what windows say of blocks, for each walk of one machine's core.

    ``segment_blocks``: block of each segment's first instruction; ``executions`` and ``length``: exact executions of each block
    and its instructions an execution; ``target``: relative standard error of the program's cycles at which walking ends. Each
    walk ends there for itself, but the last one sees all windows.
    """
    about = sample.windows()
    rounds, stratum = _rounds(about["rare"] == 0)
    walked = np.zeros((len(walks), len(about)), dtype=bool)

    def walk(numbers: Sequence[int], windows: NDArray[np.uint32]) -> None:
        for number in numbers:
            new = windows[~walked[number, windows]]
            walks[number].walk(new)
            walked[number, new] = True

    left = list(range(len(walks)))
    with step(progress, "Walking paths", total=float(len(rounds)), unit="rounds"):
        done, until = 0, LEAST_ROUNDS
        while left and done < len(rounds):
            walk(left, np.sort(np.concatenate(rounds[done:until])))  # in the order of time, for the code that is near
            progress.advance(float(min(until, len(rounds)) - done))
            errors = {number: _estimate(walks[number], executions, length, stratum).error for number in left}
            worst = max(errors.values())
            left = [number for number in left if errors[number] > target or (number == len(walks) - 1 and worst > target)]
            done, until = until, max(until + 1, math.ceil(until * (worst / target) ** 2))
    chosen = walked.copy()
    rare = (_executions(walks[0], length) < ENOUGH) & (executions > 0)
    walk(range(len(walks)), _rare_windows(sample, np.flatnonzero(~walked[0]), rare, segment_blocks, executions * length))
    found = [
        _estimate(one, executions, length, np.where(own, stratum, NO_STRATUM), rare)
        for one, own in zip(walks, chosen, strict=True)
    ]
    rows = walks[-1].found()
    for number, seen in enumerate(walked[:-1]):
        both = _counted(rows[seen[rows["window"]]], np.where(chosen[number], stratum, NO_STRATUM), rare)
        beside = np.bincount(both["block"], both["cycles"] - found[-1].slope[both["block"]] * both["surplus"], len(length))
        found[number] = _as_share(found[number], beside.astype(float), found[-1])
    return found


def _as_share(one: BlockCycles, beside: Array, last: BlockCycles) -> BlockCycles:
    """Return what a walk found, its cycles as the share of the last walk's that they are in the windows which both saw.

    ``beside``: cycles of the last walk in those windows. What chance does to them it does to both walks, so the share is known
    better than either (Cochran, 12.9). None is more than the whole: where too much surplus was taken off those windows, the
    walk's own cycles stay.
    """
    known = (beside >= one.cycles) & (beside > 0) & (last.executions > 0)
    each = np.divide(last.cycles, last.executions, out=np.zeros(len(beside)), where=known)
    share = np.divide(one.cycles, beside, out=np.zeros(len(beside)), where=known)
    return one._replace(cycles=np.where(known, one.executions * each * share, one.cycles))


def _rounds(chosen: NDArray[np.bool_]) -> tuple[list[NDArray[np.uint32]], NDArray[np.int64]]:
    """Return the windows of each round in the order of time, and the stratum of each window."""
    random = np.random.default_rng(1977)
    windows = np.flatnonzero(chosen).astype(np.uint32)
    count = min(STRATA, max(len(windows) // LEAST_ROUNDS, 1))
    strata = [random.permutation(part) for part in np.array_split(windows, count)]
    stratum = np.full(len(chosen), NO_STRATUM)
    for number, part in enumerate(strata):
        stratum[part] = number
    longest = max(map(len, strata))
    return [np.array([part[place] for part in strata if place < len(part)]) for place in range(longest)], stratum


def _executions(walk: AnyWalk, length: Array) -> Array:
    found = walk.found()
    return np.asarray(np.bincount(found["block"], found["executions"], minlength=len(length)) / length)


def _rare_windows(
    sample: PathSample,
    left: NDArray[np.int64],
    rare: NDArray[np.bool_],
    segment_blocks: NDArray[np.int64],
    instructions: Array,
) -> NDArray[np.uint32]:
    """Return windows out of those left that show rare blocks, so that each is seen :data:`ENOUGH` times where that can be."""
    wanted = np.zeros(len(rare), dtype=bool)
    wanted[np.flatnonzero(rare)[heaviest(instructions[rare], NEGLIGIBLE * instructions.sum())]] = True
    if not wanted.any():
        return np.zeros(0, dtype=np.uint32)
    seen = np.zeros(len(rare))
    windows: list[int] = []
    order = np.random.default_rng(1978).permutation(left)
    for window in order[sample.showing(wanted[segment_blocks])[order]].tolist():
        blocks = segment_blocks[sample.visits(window)]
        here = blocks[wanted[blocks]]
        if (seen[here] < ENOUGH).any():
            np.add.at(seen, here, 1)
            windows.append(window)
        if len(windows) == MOST_RARE:
            break
    return np.array(sorted(windows), dtype=np.uint32)


def _estimate(
    walk: AnyWalk, executions: Array, length: Array, stratum: NDArray[np.int64], rare: NDArray[np.bool_] | None = None
) -> BlockCycles:
    """Return what the rows of windows with a stratum say; of the others only those of rare blocks count."""
    found = walk.found() if rare is None else _counted(walk.found(), stratum, rare)
    blocks, block = len(executions), found["block"]
    seen = found["executions"] / length[block]
    times = np.bincount(block, seen, minlength=blocks).astype(float)
    weight = np.divide(executions, times, out=np.zeros(blocks), where=times > 0)

    def off(values: Array) -> tuple[Array, Array]:
        """Return sums of values by block, and each value beyond its share of them."""
        total = np.bincount(block, values, minlength=blocks).astype(float)
        return total, values - np.divide(total, times, out=np.zeros(blocks), where=times > 0)[block] * seen

    (total, each), (surplus, each_surplus) = off(found["cycles"].astype(float)), off(found["surplus"])
    # At most half of a block's cycles: a regression through a few windows may take off all.
    most = np.divide(total, 2 * surplus, out=np.full(blocks, np.inf), where=surplus > 0)
    slope = np.minimum(_slopes(found, each, each_surplus, blocks), most)
    total, each = total - slope * surplus, each - slope[block] * each_surplus
    sums = np.bincount(found["window"], weight[block] * each, minlength=len(stratum)).astype(float)
    deviations = _deviations(sums, np.unique(found["window"]), stratum)
    error = float(np.linalg.norm(deviations)) / max(float(weight @ total), 1e-300)
    return BlockCycles(total, times, _block_errors(block, each, total, times), error, slope)


def _slopes(found: NDArray[Any], cycles: Array, surplus: Array, blocks: int) -> Array:
    """Return what a cycle of each block's surplus takes, from how cycles and surplus of its rows differ from their shares; 0
    where few windows show it, or where more than chance makes up its surplus."""
    block, own = found["block"], found["surplus"]

    def summed(values: Array) -> Array:
        return np.bincount(block, values, minlength=blocks).astype(float)

    both, square = summed(cycles * surplus), summed(surplus**2)
    total = np.abs(summed(own))
    chance = (total <= ASTRAY * summed(np.abs(own))) | (total <= BY_CHANCE * np.sqrt(summed(own**2)))
    slope = np.clip(np.divide(both, square, out=np.zeros(blocks), where=square > 0), 0.0, 1.0)
    return np.where(chance & (np.bincount(block, minlength=blocks) >= ENOUGH), slope, 0.0)


def _counted(found: NDArray[Any], stratum: NDArray[np.int64], rare: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the rows of windows with a stratum, and those of rare blocks."""
    return found[(stratum[found["window"]] != NO_STRATUM) | rare[found["block"]]]


def _deviations(sums: Array, windows: NDArray[Any], stratum: NDArray[np.int64]) -> Array:
    """Return what windows' sums differ by from the mean of their stratum, so that the squares add up to the variance of the sum
    of all; those without a stratum stand each for itself."""
    chosen, alone = windows[stratum[windows] != NO_STRATUM], windows[stratum[windows] == NO_STRATUM]
    at, own = stratum[chosen], sums[chosen]
    number = np.bincount(at)
    mean = np.bincount(at, own) / np.maximum(number, 1)
    return np.concatenate([(own - mean[at]) * np.sqrt(number / np.maximum(number - 1, 1))[at], sums[alone]])


def _block_errors(block: NDArray[Any], off: Array, total: Array, times: Array) -> Array:
    """Return relative standard errors; where one window alone shows a block, as if executions varied as much as their mean."""
    windows, squares = np.bincount(block, minlength=len(total)), np.bincount(block, off**2, minlength=len(total))
    between = np.sqrt(squares * windows / np.maximum(windows - 1, 1)) / np.maximum(total, 1e-300)
    return np.where(windows > 1, between, 1 / np.sqrt(np.maximum(times, 1.0)))

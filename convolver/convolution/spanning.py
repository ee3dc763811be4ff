"""Times whose intervals reach from one state of a machine to another (:mod:`convolver.machine.states`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convolver.convolution.block_times import BlockTimes

_SEED = 2005


def spanning(times: BlockTimes, other: BlockTimes) -> BlockTimes:
    """Return ``times`` with draws that lie anywhere, evenly by their logarithm, between its own and those of ``other``, the same
    program on the machine in another state; unchanged where either has no draws."""
    own, far = times.draws, other.draws
    if own is None or far is None:
        return times
    share = np.random.default_rng(_SEED).random(len(own))

    def between(one: NDArray[np.float64], two: NDArray[np.float64]) -> NDArray[np.float64]:
        positive = np.maximum(one, 1e-300)
        return np.asarray(positive * (np.maximum(two, 1e-300) / positive) ** share)

    blocks, functions = other.block_draws, other.function_draws
    seconds = dict(times.table.select("block", "seconds").iter_rows())
    by_name = {(function, module): value for function, module, _, value in times.by_function().iter_rows()}
    drawn = {
        "draws_seconds": between(own, far).tolist(),
        "draws_blocks": {
            str(block): _thousandths(between(draws, blocks.get(block, draws)), seconds[block])
            for block, draws in times.block_draws.items()
        },
        "draws_functions": [
            [*name, _thousandths(between(draws, functions.get(name, draws)), by_name[name])]
            for name, draws in times.function_draws.items()
        ],
    }
    reach = f"the interval reaches to {other.seconds:.3g} s, what '{other.machine}' takes"
    return times.with_fields(assumptions=[*times.header["assumptions"], reach], **drawn)


def _thousandths(draws: NDArray[np.float64], seconds: float) -> list[int]:
    return [int(value) for value in np.rint(1000 * draws / seconds)]

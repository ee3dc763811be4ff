"""From counters to blocks: which counters add up to the executions of each block, so that any part of a run can be counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from convolver.tracing.blocks import Blocks, Instructions
from convolver.tracing.definitions import CONTINUED, Definitions

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def executions_by_counter(definitions: Definitions, blocks: Blocks, counters: int) -> csr_array:
    """Return a matrix of ``counters`` columns: times a vector of counters it gives the executions of each block.

    A block is executed when its first instruction is, in whichever segment that lies. Counters past the matrix count nothing.
    """
    from scipy.sparse import coo_array

    number = Instructions(definitions).number
    block_of = np.full(int(number.max()) + 1 if len(number) else 0, -1, dtype=np.int64)
    block_of[number[blocks.first_instruction]] = np.arange(len(blocks))
    block = block_of[number]
    counter = definitions.segments["counter"][definitions.segment_of_instruction].astype(np.int64)
    continued = (definitions.instructions["flags"] & CONTINUED) != 0
    chosen = (block >= 0) & ~continued & (counter < counters)
    ones = np.ones(int(chosen.sum()))
    return coo_array((ones, (block[chosen], counter[chosen])), shape=(len(blocks), counters)).tocsr()

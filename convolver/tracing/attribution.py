"""From counters to blocks: which counters add up to the executions of each block, so that any part of a run can be counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from convolver.tracing.blocks import Blocks
from convolver.tracing.definitions import CONTINUED, Definitions

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def counted_blocks(definitions: Definitions, blocks: Blocks, counters: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs of a block and one of so many counters: the executions of a block are the sum of its counters.

    A block is executed when its first instruction is, in whichever segment that lies. Counters past the others count nothing.
    """
    number = blocks.distinct.number
    block_of = np.full(int(number.max()) + 1 if len(number) else 0, -1, dtype=np.int64)
    block_of[number[blocks.first_instruction]] = np.arange(len(blocks))
    block = block_of[number]
    counter = definitions.segments["counter"][definitions.segment_of_instruction].astype(np.int64)
    continued = (definitions.instructions["flags"] & CONTINUED) != 0
    chosen = (block >= 0) & ~continued & (counter < counters)
    return block[chosen], counter[chosen]


def executions_by_counter(definitions: Definitions, blocks: Blocks, counters: int) -> csr_array:
    """Return :func:`counted_blocks` as a matrix of ``counters`` columns: times a vector of counters it gives executions."""
    from scipy.sparse import coo_array

    pairs = counted_blocks(definitions, blocks, counters)
    return coo_array((np.ones(len(pairs[0])), pairs), shape=(len(blocks), counters)).tocsr()

"""The core time of blocks that no window shows: the larger of what their ports allow and what a loop's dependences take.

Both come from the same model of the core, fed with the block alone, turn after turn: without registers nothing but ports, width
and units limits it; with them the dependences from turn to turn do, too. The latter counts only for blocks that jump back to
themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convolver._native.core_walk import Code, Core
from convolver.execution.core_parameters import core_parameters
from convolver.execution.program import Operations, fused
from convolver.machine.cores import CoreTable
from convolver.tracing.blocks import Blocks

TURNS = 24
WARM_TURNS = 8


def _blocks_code(blocks: Blocks, operations: Operations) -> tuple[Code, NDArray[np.bool_]]:
    """Return the code with one segment a block, and which blocks jump back to themselves."""
    distinct = blocks.distinct
    example = distinct.example
    block = blocks.instruction_blocks[example]
    first = np.searchsorted(block, np.arange(len(blocks) + 1))
    op = fused(operations, example, first[:-1])
    last = np.maximum(first[1:] - 1, 0)
    target = operations.target[example]
    back = distinct.offset[last].astype(np.int64) + target[last]
    loops = (target[last] != 0) & (back == blocks.offset.astype(np.int64)) & operations.conditional[example][last]
    address = np.arange(len(blocks), dtype=np.uint64) << np.uint64(20)
    none, words = np.zeros(0, dtype=bool), np.zeros(0, dtype=np.uint16)
    return Code(first.astype(np.uint32), address, address + np.uint64(1), op, words, words, none), loops


def _cycles(table: CoreTable, operations: Operations, code: Code, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the cycles of one turn of each chosen block (segment of the code), each on its own."""
    core = Core(core_parameters(table), operations.classes, code)
    core.turn(chosen, WARM_TURNS, TURNS)
    sums = np.add.reduceat(np.append(core.cycles, 0), code.first_op[:-1].astype(np.int64)).astype(float)
    sums[np.diff(code.first_op) == 0] = 0
    return sums / TURNS


def static_cycles(
    blocks: Blocks, operations: Operations, table: CoreTable, chosen: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the cycles of one execution of the chosen blocks, 0 for all others, and which of them dependences limit."""
    if not len(chosen):
        return np.zeros(len(blocks)), np.zeros(len(blocks), dtype=bool)
    code, loops = _blocks_code(blocks, operations)
    free = code.op.copy()
    free["n_reads"] = free["n_addresses"] = 0
    ports = _cycles(table, operations, code._replace(op=free), chosen)
    chains = _cycles(table, operations, code, chosen[loops[chosen]])
    return np.maximum(ports, chains), chains > ports

"""Loops of each function: how deep every block lies in them, from the branches in the code (static, without debug information).

A loop is a set of blocks of one function that all reach each other; its head is the block where control comes in from outside.
Without the branches back to the head what is left may hold inner loops (Steensgaard 1993). Jumps through tables have no known
successors here: loops that go on through them alone are not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver.tracing.blocks import Blocks
from convolver.tracing.branch_code import branches
from convolver.tracing.definitions import Definitions

NOT_IN_A_LOOP = -1


class Loops(NamedTuple):
    """Per block: loops around it, and the head block of the innermost one or :data:`NOT_IN_A_LOOP`."""

    depth: NDArray[np.uint16]
    head: NDArray[np.int64]


def _numbers(names: Sequence[str]) -> NDArray[np.int64]:
    """Return a number for each name, equal ones for equal names."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)


def _blocks_at(blocks: Blocks, module: NDArray[np.uint32], offset: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the block that begins at each place, -1 where none does; of several the last."""
    found = np.full(len(module), -1, dtype=np.int64)
    ends = np.flatnonzero(np.append(blocks.module[1:] != blocks.module[:-1], True)) + 1
    for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        mine = np.flatnonzero(module == blocks.module[begin])
        place = np.searchsorted(blocks.offset[begin:end], offset[mine], side="right") - 1
        equal = (place >= 0) & (blocks.offset[begin:end][np.maximum(place, 0)] == offset[mine])
        found[mine[equal]] = begin + place[equal]
    return found


def successors(definitions: Definitions, blocks: Blocks, functions: Sequence[str]) -> NDArray[np.int64]:
    """Return (block, a block of the same function that can follow it) as rows; blocks come in the order of their offsets."""
    if not len(blocks):
        return np.zeros((0, 2), dtype=np.int64)
    branch, function = branches(definitions.codes_of(blocks.last_instruction)), _numbers(functions)
    after = blocks.offset + blocks.length_bytes.astype(np.uint64)
    pairs = []
    for chosen, distance in ((branch.known, branch.distance), (branch.goes_on, np.zeros(len(blocks), dtype=np.int64))):
        here = np.flatnonzero(chosen)
        there = _blocks_at(blocks, blocks.module[here], after[here] + distance[here].astype(np.uint64))
        pairs.append(np.column_stack([here, there])[(there >= 0) & (function[here] == function[there])])
    return np.concatenate(pairs)


def find_loops(definitions: Definitions, blocks: Blocks, functions: Sequence[str]) -> Loops:
    """Return the loops of all functions; blocks come in the order of their offsets."""
    return nest(len(blocks), successors(definitions, blocks, functions))


def _components(count: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the strongly connected component of each of ``count`` nodes, as the number of one of its nodes (Tarjan 1972).

    Here, since importing scipy's takes three times as long as the loops of a large program.
    """
    order = np.argsort(edges[:, 0], kind="stable")
    after = edges[order, 1].tolist()
    first = np.searchsorted(edges[order, 0], np.arange(count + 1)).tolist()
    component, low, seen = list(range(count)), [0] * count, 0  # low: 0 before a node is seen, count + 1 when it is done
    open_nodes: list[int] = []
    for start in np.unique(edges[:, 0]).tolist():
        if low[start]:
            continue
        way = [(start, first[start], seen := seen + 1)]
        low[start] = seen
        open_nodes.append(start)
        while way:
            node, at, number = way.pop()
            end, least = first[node + 1], low[node]
            while at < end:
                other = after[at]
                if not low[other]:
                    break
                least = min(least, low[other])
                at += 1
            low[node] = least
            if at < end:
                way.append((node, at, number))
                way.append((other, first[other], seen := seen + 1))
                low[other] = seen
                open_nodes.append(other)
            elif least == number:
                while True:
                    one = open_nodes.pop()
                    component[one], low[one] = node, count + 1
                    if one == node:
                        break
    return np.array(component, dtype=np.int64)


def nest(count: int, edges: NDArray[np.int64]) -> Loops:
    """Return the loops of a graph of ``count`` blocks, given as rows (from, to).

    Each round finds the loops of all graphs that the round before left: each loop's edges, without those back to its head. The
    head is the first block where control comes in from the graph around, or the first of all.
    """
    depth, head = np.zeros(count, dtype=np.uint16), np.full(count, NOT_IN_A_LOOP, dtype=np.int64)
    while len(edges):
        nodes, inverse = np.unique(edges, return_inverse=True)  # in the order of the blocks
        local = inverse.reshape(edges.shape)
        component = _components(len(nodes), local)
        source, target = component[local[:, 0]], component[local[:, 1]]
        inside = source == target  # an edge within a component lies on a cycle
        parts = int(component.max()) + 1
        cyclic = np.zeros(parts, dtype=bool)
        cyclic[source[inside]] = True
        looping = np.flatnonzero(cyclic[component])
        first = np.full((2, parts), len(nodes), dtype=np.int64)
        np.minimum.at(first[0], target[~inside], local[~inside, 1])
        np.minimum.at(first[1], component, np.arange(len(nodes)))
        heads = np.where(first[0] < len(nodes), first[0], first[1])
        depth[nodes[looping]] += np.uint16(1)
        head[nodes[looping]] = nodes[heads[component[looping]]]
        edges = edges[inside & (local[:, 1] != heads[target])]
    return Loops(depth, head)

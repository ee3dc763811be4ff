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

from convolver.tracing.blocks import PREFIXES, Blocks
from convolver.tracing.definitions import Definitions

NOT_IN_A_LOOP = -1
Successors = dict[int, list[int]]


class Loops(NamedTuple):
    """Per block: loops around it, and the head block of the innermost one or :data:`NOT_IN_A_LOOP`."""

    depth: NDArray[np.uint16]
    head: NDArray[np.int64]


def branch_of(code: bytes) -> tuple[int | None, bool]:
    """Return where an x86-64 instruction jumps, from the address behind it (None: not known), and whether it can go on there."""
    at = 0
    while at < len(code) and code[at] in PREFIXES:
        at += 1
    at += at < len(code) and 0x40 <= code[at] <= 0x4F
    body = code[at:]
    if not body:
        return None, True
    first = body[0]
    if 0x70 <= first <= 0x7F or 0xE0 <= first <= 0xE3:
        return int.from_bytes(body[1:2], "little", signed=True), True
    if first == 0x0F and len(body) > 1 and 0x80 <= body[1] <= 0x8F:
        return int.from_bytes(body[2:6], "little", signed=True), True
    if first in (0xEB, 0xE9):
        return int.from_bytes(body[1:], "little", signed=True), False
    if first == 0xFF and len(body) > 1:
        return None, body[1] >> 3 & 7 not in (4, 5)
    return None, first not in (0xC2, 0xC3, 0xCA, 0xCB, 0xCF, 0xF4)


def successors(definitions: Definitions, blocks: Blocks, functions: Sequence[str]) -> Successors:
    """Return the blocks of the same function that can follow each block."""
    found: Successors = {}
    pairs = zip(blocks.module.tolist(), blocks.offset.tolist(), strict=True)
    places = {pair: block for block, pair in enumerate(pairs)}
    behind = (blocks.offset + blocks.length_bytes).astype(np.uint64).tolist()
    for block, module in enumerate(blocks.module.tolist()):
        target, goes_on = branch_of(definitions.bytes_of(int(blocks.last_instruction[block])))
        offsets = ([behind[block] + target] if target is not None else []) + ([behind[block]] if goes_on else [])
        nexts = (places.get((module, offset)) for offset in offsets)
        found[block] = [other for other in nexts if other is not None and functions[other] == functions[block]]
    return found


def components(nodes: Sequence[int], after: Successors) -> list[list[int]]:
    """Return the strongly connected components that hold a cycle (Tarjan 1972, without recursion)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    found: list[list[int]] = []
    for root in nodes:
        work = [(root, 0)] if root not in number else []
        while work:
            node, place = work.pop()
            if not place:
                number[node] = low[node] = len(number)
                stack.append(node)
            follow = after[node]
            if place:
                low[node] = min(low[node], low.get(follow[place - 1], len(number)))
            while place < len(follow) and follow[place] in number:
                low[node] = min(low[node], low.get(follow[place], len(number)))
                place += 1
            if place < len(follow):
                work += [(node, place + 1), (follow[place], 0)]
            elif low[node] == number[node]:
                part = _close(stack, node, low)
                if len(part) > 1 or node in follow:
                    found.append(part)
    return found


def _close(stack: list[int], node: int, low: dict[int, int]) -> list[int]:
    """Take the component that ``node`` began off the stack: nothing else belongs to it."""
    part: list[int] = []
    while not part or part[-1] != node:
        part.append(stack.pop())
        del low[part[-1]]
    return part


def _head(part: Sequence[int], after: Successors, inside: Sequence[int]) -> int:
    """Return the block where control comes in from the nodes around; the first of several, or the first of all."""
    members = set(part)
    entered = {other for node in inside if node not in members for other in after[node] if other in members}
    return min(entered or members)


def find_loops(definitions: Definitions, blocks: Blocks, functions: Sequence[str]) -> Loops:
    """Return the loops of all functions; blocks come in the order of their offsets."""
    return nest(len(blocks), successors(definitions, blocks, functions))


def nest(count: int, after: Successors) -> Loops:
    """Return the loops of a graph of ``count`` blocks."""
    depth, head = np.zeros(count, dtype=np.uint16), np.full(count, NOT_IN_A_LOOP, dtype=np.int64)
    waiting = [(list(range(count)), after)]
    while waiting:
        nodes, edges = waiting.pop()
        for part in components(nodes, edges):
            first, members = _head(part, edges, nodes), set(part)
            depth[part] += np.uint16(1)
            head[part] = first
            inner = {node: [other for other in edges[node] if other in members and other != first] for node in part}
            waiting.append((sorted(part), inner))
    return Loops(depth, head)

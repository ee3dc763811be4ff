"""What the cycles of blocks on the core were spent on, by the names of causes (docs/theory.md, "What limits it")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from convolver._native.core_walk import FIRST_PORT, SECOND_LEVEL
from convolver._native.enums import enum_names
from convolver.analyzing.falls import Array

if TYPE_CHECKING:
    from convolver.execution.core_time import Walk

CORE = FRONT_END, BRANCHES, WIDTH, DEPENDENT = enum_names("cv_core_cause", "CV_CAUSE_", "_")[:4]
"""Causes in the core itself, in the order of enum ``cv_core_cause``; the levels follow from the first one on, then ports."""
PAGE_WALKS = "page_walks"
PORT = "port_"
"""Prefix of the causes that are ports."""
Causes = dict[str, Array]
"""By name: an array (blocks)."""


def core_causes(cycles: Array, counted: Array, walk: Walk, levels: Sequence[str]) -> Causes:
    """Return the ``cycles`` of each block by cause, in proportion to those ``counted``, shape (blocks, causes).

    ``levels`` are those of the caches, and memory. Cycles for a line are those of its page's walk and of its way as
    the two latencies are. Blocks of which nothing was counted have the causes of all others together.
    """
    names = [*CORE, *levels[: 1 + FIRST_PORT - SECOND_LEVEL]]
    found = dict(zip(names, counted.T, strict=False))
    ports = zip((_port(walk, name) for name in walk.table.ports), counted.T[FIRST_PORT:], strict=False)
    for name, values in ports:
        found[name] = found.get(name, 0.0) + values
    if walk.far is not None:
        found[PAGE_WALKS] = np.zeros(len(cycles))
        for level, latency in zip(levels[1:], walk.far.latencies.T, strict=False):
            whole = walk.far.walks.astype(float) + latency
            walked = found[level] * np.divide(walk.far.walks, whole, out=np.zeros_like(whole), where=whole > 0)
            found[level] = found[level] - walked
            found[PAGE_WALKS] += walked
    return in_proportion(cycles, found)


def in_proportion(totals: Array, causes: Causes) -> Causes:
    """Return ``totals`` divided as causes are, block by block; where a block has none, as in all blocks together."""
    whole = np.sum(list(causes.values()), axis=0) if causes else np.zeros(len(totals))
    everything = float(whole.sum())
    if not everything > 0:
        return {WIDTH: totals}
    shares = {
        name: np.divide(values, whole, out=np.full(len(totals), values.sum() / everything), where=whole > 0)
        for name, values in causes.items()
        if values.any()
    }
    return {name: totals * share for name, share in shares.items()}


def _port(walk: Walk, name: str) -> str:
    """Return the name of a port as a cause; those of loads and of stores each count as one."""
    memory = walk.table.memory
    kinds = {"load": memory.load, "store": memory.store}
    return PORT + next((kind for kind, ports in kinds.items() if name in ports.split()), name)

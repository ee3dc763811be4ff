"""What executed paths say about sites and blocks: branches, successors, chains of loads, forwarded and split references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.branch_predictor import CONDITIONAL, EDGE, END, INDIRECT, REPEAT, Branches
from convolver._native.branch_predictor import COUNTS as BRANCH_COUNTS
from convolver._native.load_chains import COUNTS as CHAIN_COUNTS
from convolver._native.load_chains import Chains
from convolver._native.path_builder import Paths
from convolver._native.sinks import PathReader
from convolver._native.trace_decoder import Decoder
from convolver.heavy import pl
from convolver.tracing.blocks import Blocks
from convolver.tracing.definitions import Definitions, guard_executions, starts

PIECE = 8192
WHOLE_PIECES, ONE_IN = 128, 32
"""Of a window, the first million visits are walked and a 32nd of the rest: that tells the shares as well."""
WIDE_BYTES = 16
"""References from this width on are vector references."""


class PathFeatures:
    """Walks, in C, all that a decoder decodes from now on.

    ``sampling`` is the plan in a trace's header: branches are predicted only where the paths are whole. ``reader`` reads the same
    paths, all of them.
    """

    def __init__(
        self, decoder: Decoder, sampling: Mapping[str, Any] | None, reader: PathReader | None = None, *, branches: bool = True
    ) -> None:
        plan = sampling or {}
        paths = Paths(decoder, PIECE, warmup=bool(plan.get("warmup")))
        if reader is None:
            paths.thin(WHOLE_PIECES, ONE_IN)
        else:
            reader(decoder, paths)
        self._decoder = decoder
        self._chains = Chains(decoder, paths)
        self._branches = Branches(decoder) if branches and plan.get("paths") else None
        if self._branches is not None:
            self._branches.attach(paths)

    def sites(self) -> NDArray[Any]:
        """Return the chain counts of all sites (:data:`convolver._native.load_chains.COUNTS`)."""
        return _padded(self._chains.counts(), len(self._decoder.sites()), CHAIN_COUNTS)

    def branches(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return counts and ends of all segments, and the edges between them; all zero where no path is whole."""
        total = len(self._decoder.segments())
        if self._branches is None:
            return np.zeros(total, BRANCH_COUNTS), np.zeros(total, END), np.zeros(0, EDGE)
        counts, ends = self._branches.counts(), self._branches.ends()
        return _padded(counts, total, BRANCH_COUNTS), _padded(ends, total, END), self._branches.edges()


def _padded(array: NDArray[Any], length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    whole = np.zeros(length, dtype)
    whole[: len(array)] = array
    return whole


def _last_instructions(definitions: Definitions) -> NDArray[np.int64]:
    return starts(definitions.segments["instructions"]) + definitions.segments["instructions"].astype(np.int64) - 1


def _ending_block(definitions: Definitions, blocks: Blocks) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the block in which each segment ends, and whether the block ends there: the tracer cuts within blocks, too."""
    last = _last_instructions(definitions)
    row = definitions.instructions[last]
    block = blocks.instruction_blocks[last].astype(np.int64)
    end = definitions.segments["file_offset"] + row["offset"] + row["length"]
    return block, end == blocks.offset[block] + blocks.length_bytes[block]


def _sum(values: NDArray[Any], where: NDArray[Any], rows: int) -> NDArray[np.uint64]:
    total = np.zeros(rows, dtype=np.uint64)
    np.add.at(total, where, values.astype(np.uint64))
    return total


def _falls(definitions: Definitions, blocks: Blocks, visits: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return (from, to, count) where a segment runs on from one block into the next."""
    segment, block = definitions.segment_of_instruction, blocks.instruction_blocks.astype(np.int64)
    inside = np.flatnonzero((segment[1:] == segment[:-1]) & (block[1:] != block[:-1]))
    return np.stack([block[inside], block[inside + 1], visits[segment[inside]].astype(np.int64)], axis=1)


def _successors(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum (from, to, count) by pair, the most frequent successor of each block first."""
    steps = steps[steps[:, 2] > 0]
    unique, inverse = np.unique(steps[:, :2], axis=0, return_inverse=True)
    counts = np.zeros(len(unique), dtype=np.int64)
    np.add.at(counts, inverse.ravel(), steps[:, 2])
    return np.concatenate([unique, counts[:, None]], axis=1)[np.lexsort((unique[:, 1], -counts, unique[:, 0]))]


def _ranked(successors: NDArray[np.int64], rank: int, rows: int) -> tuple[Any, NDArray[np.uint64]]:
    """Return the successor of each block with this rank (null: none) and how often it followed."""
    place = np.arange(len(successors)) - np.searchsorted(successors[:, 0], successors[:, 0])
    chosen = successors[place == rank]
    names: list[int | None] = [None] * rows
    for row, successor in chosen[:, :2].tolist():
        names[row] = successor
    return pl.Series(names, dtype=pl.UInt32), _sum(chosen[:, 2], chosen[:, 0], rows)


def _branch_columns(features: PathFeatures, definitions: Definitions, blocks: Blocks) -> dict[str, Any]:
    counts, ends, edges = features.branches()
    block, at_end = _ending_block(definitions, blocks)
    at_end &= ends["turn"] == 0  # the executions of a repeated instruction are counted where a turn begins
    rows, kind = len(blocks), ends["kind"]

    def folded(name: str, chosen: NDArray[Any]) -> NDArray[np.uint64]:
        return _sum(np.where(chosen, counts[name], 0), block, rows)

    branching = at_end & (kind != REPEAT)
    first = blocks.instruction_blocks[starts(definitions.segments["instructions"])].astype(np.int64)
    edges = edges[at_end[edges["from"]]]
    followed = np.stack([block[edges["from"]], first[edges["to"]], edges["count"].astype(np.int64)], axis=1)
    successors = _successors(np.concatenate([followed, _falls(definitions, blocks, counts["visits"])]))
    ranked = [_ranked(successors, rank, rows) for rank in (0, 1)]
    return {
        "path_visits": _sum(successors[:, 2], successors[:, 0], rows),
        "taken_branches": folded("taken", branching),
        "conditional_branches": folded("known", at_end & (kind == CONDITIONAL)),
        "indirect_branches": folded("known", at_end & np.isin(kind, INDIRECT)),
        "mispredicted_conditional": folded("mispredicted", branching),
        "mispredicted_indirect": folded("indirect_mispredicted", branching),
        "successors": _sum(np.ones(len(successors)), successors[:, 0], rows),
        "first_successor": ranked[0][0],
        "first_successor_visits": ranked[0][1],
        "second_successor": ranked[1][0],
        "second_successor_visits": ranked[1][1],
        "repeats": folded("repeats", kind == REPEAT),
        "repeat_turns": folded("turns", kind == REPEAT),
    }


def path_columns(
    features: PathFeatures, definitions: Definitions, blocks: Blocks, counters: NDArray[np.uint64]
) -> dict[str, Any]:
    """Return the columns of a signature that come from paths (docs/formats/signature.md)."""
    chains, rows = features.sites(), len(blocks)
    wide = definitions.sites["size_bytes"] >= WIDE_BYTES
    return {
        **_branch_columns(features, definitions, blocks),
        "path_references": _sum(chains["references"], blocks.site_blocks, rows),
        **{f"{name}_references": _sum(chains[name], blocks.site_blocks, rows) for name in ("split", "forwarded", "serial")},
        "wide_memops": _sum(np.where(wide, guard_executions(definitions, counters), 0), blocks.site_blocks, rows),
    }

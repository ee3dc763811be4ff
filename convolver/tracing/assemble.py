"""Puts blocks, exact counts, sampled features and names together into a signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.trace_decoder import Decoder
from convolver.foreign_text import visible
from convolver.heavy import pl
from convolver.signature.block_columns import ALONE, LINES
from convolver.signature.data_objects import DataObjects, object_table
from convolver.signature.origin import sealed
from convolver.signature.signature import DEFAULTS, Signature
from convolver.tracing.blocks import Blocks
from convolver.tracing.definitions import STORE, Definitions
from convolver.tracing.found_objects import FoundObjects
from convolver.tracing.loops import NOT_IN_A_LOOP, find_loops
from convolver.tracing.path_features import PathFeatures, path_columns
from convolver.tracing.site_features import LINE_BYTES, distinct_lines, site_features, site_patterns
from convolver.tracing.symbols import BlockNames


def _fold(values: NDArray[np.uint64], blocks: Blocks) -> NDArray[np.uint64]:
    folded = np.zeros(len(blocks), dtype=np.uint64)
    np.add.at(folded, blocks.site_blocks, values)
    return folded


def _working_sets(decoder: Decoder, definitions: Definitions, blocks: Blocks) -> NDArray[np.uint64]:
    """Distinct bytes, in lines, that the sampled references of each block's segments touched."""
    result = np.zeros(len(blocks), dtype=np.uint64)
    visited = np.flatnonzero(decoder.visits()[definitions.segment_of_site])
    pairs = np.unique(np.stack([blocks.site_blocks[visited].astype(np.int64), definitions.segment_of_site[visited]]), axis=1)
    joined: dict[int, NDArray[np.uint8]] = {}
    for block, segment in pairs.T.tolist():
        registers = decoder.distinct(segment)
        if registers is not None:
            joined[block] = np.maximum(joined[block], registers) if block in joined else registers
    for block, registers in joined.items():
        result[block] = distinct_lines(registers) * LINE_BYTES
    return result


def block_columns(
    decoder: Decoder, definitions: Definitions, blocks: Blocks, names: BlockNames | None, chains: NDArray[Any] | None = None
) -> dict[str, Any]:
    """Return the columns of a signature's table."""
    modules = blocks.module.tolist()
    names = names or BlockNames.empty(len(blocks), len(definitions.paths))
    counts = dict(blocks.counts)
    counts["memops"] = counts["loads"] + counts["stores"]
    counts["bytes"] = counts["load_bytes"] + counts["store_bytes"]
    patterns = site_patterns(decoder.features(), decoder.sampled(), definitions.sites["flags"], chains)
    lines = site_features(decoder)
    loops = find_loops(definitions, blocks, names.functions)
    return {
        "block": np.arange(len(blocks), dtype=np.uint32),
        "module": [visible(definitions.paths[module]) for module in modules],
        "build_id": [names.build_ids[module] for module in modules],
        "offset": blocks.offset,
        "length_bytes": blocks.length_bytes,
        "function": names.functions,
        "file": names.files,
        "line": np.asarray(names.lines, dtype=np.uint32),
        **counts,
        **{name: _fold(values, blocks) for name, values in patterns.items()},
        "working_set_bytes": _working_sets(decoder, definitions, blocks),
        **{name: _fold(lines[name], blocks) for name in (*LINES, *ALONE)},
        "loop_depth": loops.depth,
        "loop_head": pl.Series([None if head == NOT_IN_A_LOOP else head for head in loops.head.tolist()], dtype=pl.UInt32),
    }


def assemble_signature(
    decoder: Decoder,
    counters: NDArray[np.uint64],
    blocks: Blocks,
    names: BlockNames | None,
    header: Mapping[str, Any],
    inputs: Mapping[str, str],
    paths: PathFeatures | None = None,
) -> Signature:
    """Return the signature of what ``decoder`` decoded; ``header`` gives the fields that a signature keeps.

    ``paths``: what was seen along its paths, for more columns.
    """
    definitions = Definitions.of(decoder)
    columns = block_columns(decoder, definitions, blocks, names, paths.sites() if paths else None)
    if paths is not None:
        columns |= path_columns(paths, definitions, blocks, counters)
    table = pl.DataFrame(columns)
    extra = {name: header[name] for name in DEFAULTS if name in header}
    if names is not None and "folder" in header:  # names are looked up where the program ran, so this is its recording
        extra["origin"] = sealed(header["folder"], table["file"])
    return Signature(table, inputs=inputs, **extra)


def assemble_objects(
    decoder: Decoder, definitions: Definitions, blocks: Blocks, found: FoundObjects, inputs: Mapping[str, str]
) -> DataObjects:
    """Return the references of each block to each data object, of what ``decoder`` decoded and attributed."""
    memops = blocks.counts["loads"] + blocks.counts["stores"]
    stores = (definitions.sites["flags"] & STORE) != 0
    sizes = definitions.sites["size_bytes"].astype(np.uint64)
    table = object_table(decoder.pairs(), found.number_of, blocks.site_blocks, sizes, stores, memops)
    return DataObjects.make(table, found.documents, int(memops.sum()), inputs)

"""The table of a trace's segments: what was translated, with its code bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from convolver.foreign_text import visible
from convolver.heavy import pl
from convolver.tracing.definitions import Definitions, counter_values, starts

if TYPE_CHECKING:
    from convolver.tracing.blocks import Blocks


def _codes(definitions: Definitions) -> list[bytes]:
    code, first = definitions.code.tobytes(), definitions.first_code.tolist()
    sizes = definitions.segments["code_bytes"].tolist()
    return [code[begin : begin + size] for begin, size in zip(first, sizes, strict=True)]


def segment_table(definitions: Definitions, counters: NDArray[np.uint64], blocks: Blocks) -> pl.DataFrame:
    """Return one row a segment, in the order of ids.

    Columns: ``segment`` (id), ``module`` (path, empty outside every file), ``offset`` (in the file; the address outside every
    file), ``address`` (where it ran), ``block`` (row of the signature that holds its first instruction), ``executions`` (exact; 0
    where the file was cut off before its counts), ``instructions``, ``first_site``, ``sites``, ``code`` (its instruction bytes).
    """
    segments = definitions.segments
    executions = counter_values(counters, segments["counter"])
    first = starts(segments["instructions"])
    rows = blocks.instruction_blocks[first] if len(first) else np.zeros(0, dtype=np.uint32)
    return pl.DataFrame(
        {
            "segment": np.arange(len(segments), dtype=np.uint32),
            "module": [visible(definitions.paths[module]) for module in segments["module"].tolist()],
            "offset": segments["file_offset"],
            "address": segments["address"],
            "block": rows,
            "executions": executions,
            "instructions": segments["instructions"],
            "first_site": segments["first_site"],
            "sites": segments["sites"],
            "code": pl.Series(_codes(definitions), dtype=pl.Binary),
        }
    )

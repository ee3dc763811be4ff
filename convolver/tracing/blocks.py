"""Static basic blocks from the tracer's segments.

A segment runs from one entry to its first exit and segments may overlap: a jump into the middle of one begins another. So counts
are summed per instruction, and instructions are grouped again: a block begins where a segment begins or after one ended. The
tracer also cuts segments at a fixed length where no branch is; such cuts are undone where both sides were executed equally often.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver.foreign_text import visible
from convolver.heavy import pl
from convolver.tracing.branch_code import transfers
from convolver.tracing.definitions import CONTINUED, STORE, Definitions, counter_values, guard_executions, starts

COUNTS = ("executions", "instructions", "loads", "stores", "load_bytes", "store_bytes", "flops")


@dataclass(frozen=True)
class Blocks:
    """Blocks in the order of (module, offset). All arrays but the last two have one element a block.

    ``first_instruction`` and ``last_instruction`` are instructions of the definitions that begin and end the block; ``distinct``:
    the distinct ones of all blocks.
    """

    module: NDArray[np.uint32]
    offset: NDArray[np.uint64]
    length_bytes: NDArray[np.uint32]
    first_instruction: NDArray[np.int64]
    last_instruction: NDArray[np.int64]
    counts: dict[str, NDArray[np.uint64]]
    site_blocks: NDArray[np.uint32]
    instruction_blocks: NDArray[np.uint32]
    """Block of each of the definitions' instructions."""
    distinct: Instructions

    def __len__(self) -> int:
        return len(self.module)


class Instructions:
    """The distinct instructions: ``number`` maps each instruction of the definitions to its place in sorted order."""

    def __init__(self, definitions: Definitions) -> None:
        segment = definitions.segment_of_instruction
        module = definitions.segments["module"][segment]
        offset = definitions.segments["file_offset"][segment] + definitions.instructions["offset"]
        length = definitions.instructions["length"]
        content = _contents(definitions, module)
        self.order = np.lexsort((content, length, offset, module))
        fresh = np.ones(len(self.order), dtype=bool)
        if len(fresh):
            columns = [column[self.order] for column in (module, offset, length, content)]
            fresh[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        self.first = np.flatnonzero(fresh)
        self.number = np.empty(len(self.order), dtype=np.int64)
        self.number[self.order] = np.cumsum(fresh) - 1
        self.example = self.order[self.first]
        self.module, self.offset, self.length = module[self.example], offset[self.example], length[self.example]

    def __len__(self) -> int:
        return len(self.first)

    def sum(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Sum values of the definitions' instructions per distinct one."""
        if not len(self.first):
            return np.zeros(0, dtype=np.uint64)
        return np.add.reduceat(values[self.order], self.first)


def _contents(definitions: Definitions, module: NDArray[Any]) -> NDArray[np.uint32]:
    """Checksum of the bytes of instructions outside files, where other code may come to the same address; 0 in files."""
    contents = np.zeros(len(module), dtype=np.uint32)
    outside = np.array([not path for path in definitions.paths], dtype=bool)
    if outside.any():
        places = np.flatnonzero(outside[module])
        rows, lengths = definitions.codes_of(places)
        contents[places] = [zlib.crc32(row[:length]) for row, length in zip(rows, lengths.tolist(), strict=True)]
    return contents


def _instruction_counts(
    definitions: Definitions, distinct: Instructions, counters: NDArray[np.uint64]
) -> dict[str, NDArray[np.uint64]]:
    executed = counter_values(counters, definitions.segments["counter"])[definitions.segment_of_instruction]
    flops = executed * definitions.instructions["flops"].astype(np.uint64)
    continued = (definitions.instructions["flags"] & CONTINUED) != 0
    counts = {"executions": distinct.sum(np.where(continued, 0, executed).astype(np.uint64)), "flops": distinct.sum(flops)}
    happened = guard_executions(definitions, counters)
    stores = (definitions.sites["flags"] & STORE) != 0
    sizes = definitions.sites["size_bytes"].astype(np.uint64)
    for name, chosen in (("load", ~stores), ("store", stores)):
        for column, weight in ((f"{name}s", np.uint64(1)), (f"{name}_bytes", sizes)):
            values = np.zeros(len(definitions.instructions), dtype=np.uint64)
            np.add.at(values, definitions.instruction_of_site, np.where(chosen, happened * weight, 0).astype(np.uint64))
            counts[column] = distinct.sum(values)
    return counts


def _leaders(definitions: Definitions, distinct: Instructions) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return where blocks must begin, and where they begin unless the tracer only cut a segment there."""
    total = len(distinct)
    hard, soft = np.zeros(total + 1, dtype=bool), np.zeros(total + 1, dtype=bool)
    hard[0] = True
    ends = distinct.offset + distinct.length.astype(np.uint64)
    hard[1:total] |= (distinct.module[1:] != distinct.module[:-1]) | (distinct.offset[1:] != ends[:-1])
    number, segment = distinct.number, definitions.segment_of_instruction
    first = np.ones(len(number), dtype=bool)
    first[1:] = segment[1:] != segment[:-1]
    last = np.ones(len(number), dtype=bool)
    last[:-1] = first[1:]
    continued = (definitions.instructions["flags"] & CONTINUED) != 0
    soft[number[first & ~continued]] = True
    soft[number[last] + 1] = True
    inner = np.flatnonzero(~first)
    odd = inner[number[inner] != number[inner - 1] + 1]
    hard[number[odd]] = True
    hard[number[odd - 1] + 1] = True
    return hard[:total], soft[:total]


def _join_cuts(
    definitions: Definitions,
    distinct: Instructions,
    executions: NDArray[np.uint64],
    hard: NDArray[np.bool_],
    soft: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    leaders = hard | soft
    equal = np.zeros(len(leaders), dtype=bool)
    equal[1:] = (executions[1:] == executions[:-1]) & (executions[1:] > 0)
    cuts = np.flatnonzero(soft & ~hard & equal)
    leaders[cuts[~transfers(definitions.codes_of(distinct.example[cuts - 1]))]] = False
    return leaders


def rebuild_blocks(definitions: Definitions, counters: NDArray[np.uint64]) -> Blocks:
    """Return the static basic blocks of everything the trace saw, executed or not, with executed counts.

    ``counters`` are the tracer's exact execution counters. Sums over blocks equal sums over segments; all instructions of a
    block were executed equally often; blocks overlap only where instructions do.
    """
    distinct = Instructions(definitions)
    per_instruction = _instruction_counts(definitions, distinct, counters)
    hard, soft = _leaders(definitions, distinct)
    leaders = _join_cuts(definitions, distinct, per_instruction["executions"], hard, soft)
    first = np.flatnonzero(leaders)
    if not len(first):
        nothing = np.zeros(0, dtype=np.uint64)
        return Blocks(
            nothing.astype(np.uint32),
            nothing,
            nothing.astype(np.uint32),
            nothing.astype(np.int64),
            nothing.astype(np.int64),
            dict.fromkeys(COUNTS, nothing),
            nothing.astype(np.uint32),
            nothing.astype(np.uint32),
            distinct,
        )
    last = np.append(first[1:], len(distinct)) - 1
    end = distinct.offset[last] + distinct.length[last].astype(np.uint64)
    counts = {name: np.add.reduceat(values, first) for name, values in per_instruction.items()}
    counts["instructions"] = counts["executions"]
    counts["executions"] = per_instruction["executions"][first]
    block = np.cumsum(leaders) - 1
    return Blocks(
        module=distinct.module[first],
        offset=distinct.offset[first],
        length_bytes=(end - distinct.offset[first]).astype(np.uint32),
        first_instruction=distinct.example[first],
        last_instruction=distinct.example[last],
        counts=counts,
        site_blocks=block[distinct.number[definitions.instruction_of_site]].astype(np.uint32),
        instruction_blocks=block[distinct.number].astype(np.uint32),
        distinct=distinct,
    )


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

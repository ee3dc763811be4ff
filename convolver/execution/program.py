"""The code of a trace as operations of a core: decoded once per distinct instruction, put together with numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native import core_walk as native
from convolver._native.core_walk import Code, PortClass
from convolver.execution.instructions import WIDEST, Instruction, decode
from convolver.execution.registers import FLAGS, is_integer, is_vector_file
from convolver.machine.core_figures import is_widest, of_vectors
from convolver.machine.cores import CoreTable
from convolver.tracing.definitions import STORE, Definitions, starts

NO_WORK = "none"
_MOST_SLOTS = 250
_RESULTS = native.INTEGER_RESULT | native.VECTOR_RESULT | native.FLAG_RESULT
_CODE_LINE = 64
"""Bytes of a line of code, at whose ends some cores end a group of instructions fetched together."""


class Operations(NamedTuple):
    """One operation for every instruction of the definitions, without what depends on its neighbors.

    ``fuses`` and ``conditional`` say which pairs become one, ``target`` where direct branches go (see :class:`Instruction`).
    """

    op: NDArray[np.void]
    classes: list[PortClass]
    fuses: NDArray[np.bool_]
    conditional: NDArray[np.bool_]
    target: NDArray[np.int64]
    branch_class: int


def _flags(one: Instruction) -> int:
    flags = native.LOAD * one.loads | native.STORE * one.stores | native.VECTOR * one.vector | native.PLAIN * one.plain
    if one.kind == NO_WORK or one.idiom:
        flags |= native.NO_PORT
    if one.kind.startswith("gather"):
        flags |= native.ELEMENTS
    if one.mnemonic.startswith("rep"):
        flags |= native.REPEATED
    if one.kind == "atomic":
        flags |= native.LOCKED
    if one.kind == "microcode":
        flags |= native.SERIAL
    if one.branch == "return":
        flags |= native.RETURN
    if one.mnemonic.startswith("call"):
        flags |= native.CALL
    if one.branch == "indirect":
        flags |= native.INDIRECT
    if one.moved and not one.vector:
        flags |= native.MOVED
    if one.prefetches:
        flags |= native.PREFETCH
    if one.vector and one.width_bytes == WIDEST:
        flags |= native.WIDEST
    if one.compound:
        flags |= native.COMPOUND
    if one.loads or not flags & native.NO_PORT:
        flags |= _results(one.writes)
    return flags | native.FOLDED * one.constant


def _results(writes: tuple[int, ...]) -> int:
    """Return the files of which an instruction that writes these registers takes one."""
    integer, vector = any(map(is_integer, writes)), any(map(is_vector_file, writes))
    return native.INTEGER_RESULT * integer | native.VECTOR_RESULT * vector | native.FLAG_RESULT * (FLAGS in writes)


def _class(table: CoreTable, name: str, closed: int) -> PortClass:
    if name == NO_WORK:
        return PortClass(0, 0, 0, 1)
    kind = table.kind(name)
    chained = kind.latency if kind.chained_latency is None else kind.chained_latency
    halves = round(2 * kind.busy)
    ports, also = table.mask(kind.ports), table.mask(kind.also)
    return PortClass(ports, kind.latency, chained, halves // 2, kind.group, halves % 2, also, closed)


def _closed(table: CoreTable, names: dict[str, int]) -> dict[str, int]:
    """Return the places of kinds that stand for others while vectors of 64 bytes close ports, which are added to ``names``."""
    if not table.params.get("closed_cycles"):
        return {}
    wide = {name: table.nearest(f"{name.removesuffix('_16').removesuffix('_32')}_{WIDEST}") for name in names}
    closed = {name: other for name, other in wide.items() if of_vectors(name) and is_widest(other)}
    return {name: names.setdefault(other, len(names)) for name, other in closed.items() if other != name}


def _kind_of(table: CoreTable, one: Instruction) -> str:
    """Return the name of an instruction's kind in a table; some have kinds of their own for vectors of a width."""
    if one.kind == NO_WORK:
        return NO_WORK
    return table.nearest(f"{one.kind}_{one.width_bytes}" if one.vector else one.kind)


def _row(one: Instruction) -> tuple[object, ...]:
    """Return an instruction's operation as far as no core matters: its class is left open."""

    def filled(registers: tuple[int, ...], room: int) -> tuple[int, ...]:
        return (*registers[:room], *(0,) * (room - len(registers)))

    rooms = (native.READS, native.ADDRESSES, native.WRITES)
    lists = (one.reads, one.addresses, one.writes)
    counts = (min(len(registers), room) for registers, room in zip(lists, rooms, strict=True))
    return (_flags(one), 0, one.slots, *counts, *(filled(registers, room) for registers, room in zip(lists, rooms, strict=True)))


class DecodedCode:
    """The distinct instructions of a program. No core matters here.

    ``which``: of each instruction of the definitions, its place in ``decoded``; what the tracer did not send is unknown.
    ``target``: where it goes if it is a direct branch, counted from its own first byte; else 0.
    """

    def __init__(self, definitions: Definitions, wanted: NDArray[np.bool_] | None = None) -> None:
        """``wanted``: the instructions to decode, those of the definitions; None: all. The others are unknown."""
        codes = _codes(definitions, wanted)
        found = {code: decode(code) for code in dict.fromkeys(codes)}
        self.decoded = list(dict.fromkeys(found.values()))
        self.rows = np.array([_row(one) for one in self.decoded], dtype=native.OP)
        place = {one: number for number, one in enumerate(self.decoded)}
        number = {code: number for number, code in enumerate(found)}
        numbers = np.fromiter((number[code] for code in codes), np.intp, len(codes))
        self.which = np.array([place[one] for one in found.values()], dtype=np.intp)[numbers]
        self.target = np.array([_target(code, one) for code, one in found.items()], dtype=np.int64)[numbers]


def _target(code: bytes, one: Instruction) -> int:
    return len(code) + int.from_bytes(code[-one.relative :], "little", signed=True) if one.relative else 0


def operations(code: DecodedCode, table: CoreTable) -> Operations:
    """Return the operations of all instructions of a program on a core."""
    which, decoded, rows = code.which, code.decoded, code.rows.copy()
    names = {NO_WORK: 0, "branch": 1}
    kind = np.array([names.setdefault(_kind_of(table, one), len(names)) for one in decoded])
    closed = _closed(table, names)
    eliminated = [bool(one.move) and one.move in table.eliminates for one in decoded]
    rows["flags"][eliminated] = rows["flags"][eliminated] & ~np.uint32(_RESULTS) | native.NO_PORT
    works = (rows["flags"] & native.NO_PORT) == 0
    slots = np.array([1 if name == NO_WORK else table.kind(name).slots for name in names])
    rows["class"] = np.where(works, kind, 0)
    rows["slots"] = np.where(works, np.minimum(rows["slots"] + slots[kind] - 1, _MOST_SLOTS), rows["slots"])
    return Operations(
        op=rows[which],
        classes=[_class(table, name, closed.get(name, 0)) for name in names],
        fuses=_each(decoded, which, lambda one: one.fuses),
        conditional=_each(decoded, which, lambda one: one.branch == "conditional"),
        target=code.target,
        branch_class=1,
    )


def _each(decoded: list[Instruction], which: NDArray[np.int64], holds: Callable[[Instruction], bool]) -> NDArray[np.bool_]:
    return np.array([holds(one) for one in decoded], dtype=np.bool_)[which]


def _codes(definitions: Definitions, wanted: NDArray[np.bool_] | None) -> list[bytes]:
    """Return the bytes of all instructions, empty where the tracer did not send them or they are not wanted."""
    code, rows = definitions.code.tobytes(), definitions.instructions
    segment = definitions.segment_of_instruction
    begin = definitions.first_code[segment] + rows["offset"]
    end = begin + rows["length"]
    after = definitions.first_code[segment] + definitions.segments["code_bytes"][segment]
    end = np.where(end <= after if wanted is None else wanted & (end <= after), end, begin)
    return [code[first:last] for first, last in zip(begin.tolist(), end.tolist(), strict=True)]


def fused(operations: Operations, chosen: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.void]:
    """Return chosen operations in this order, with what fuses fused; ``first`` are the places where sequences begin."""
    op = operations.op[chosen].copy()
    begins = np.zeros(len(op) + 1, dtype=bool)
    begins[first] = True
    pair = np.flatnonzero(operations.fuses[chosen][:-1] & operations.conditional[chosen][1:] & ~begins[1:-1])
    op["class"][pair] = operations.branch_class
    op["flags"][pair] &= np.uint32(0xFFFF_FFFF & ~(native.FOLDED | native.NO_PORT))
    op["flags"][pair + 1] |= native.FUSED
    op["slots"][pair + 1] = 0
    return op


def _line_flags(definitions: Definitions, op: NDArray[np.void]) -> NDArray[np.uint32]:
    """Return flags of operations that begin in another line of code than the one before them in their segment, or end in another;
    where a segment begins, in another than its first byte. What is fused ends with its branch."""
    segment = definitions.segment_of_instruction
    begins = definitions.segments["address"][segment].astype(np.int64) + definitions.instructions["offset"]
    ends = begins + np.maximum(definitions.instructions["length"], 1) - 1
    with_branch = np.flatnonzero(op["flags"] & native.FUSED)
    ends[with_branch - 1] = ends[with_branch]
    follows = np.zeros(len(op), dtype=np.bool_)
    follows[1:] = segment[1:] == segment[:-1]
    first, last = begins // _CODE_LINE, ends // _CODE_LINE
    new = follows & (first != np.roll(first, 1))
    new_end = last != np.where(follows, np.roll(last, 1), first)
    return (new * native.NEW_LINE | new_end * native.NEW_END).astype(np.uint32)


def program_code(definitions: Definitions, operations: Operations) -> Code:
    """Return the code of all segments of a trace."""
    segments, sites = definitions.segments, definitions.sites
    first = starts(segments["instructions"])
    every = np.arange(len(operations.op))
    lengths = np.zeros(len(segments), dtype=np.uint64)
    last = first + segments["instructions"].astype(np.int64) - 1
    some = segments["instructions"] > 0
    if len(every):
        ends = definitions.instructions["offset"].astype(np.uint64) + definitions.instructions["length"]
        lengths[some] = ends[last[some]]
    op = fused(operations, every, first[some])
    op["flags"] |= _line_flags(definitions, op)
    return Code(
        first_op=np.append(first, len(every)).astype(np.uint32),
        address=segments["address"],
        next_address=segments["address"] + lengths,
        op=op,
        site_op=sites["instruction"],
        site_bytes=sites["size_bytes"],
        site_store=(sites["flags"] & STORE) != 0,
    )

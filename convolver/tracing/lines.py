"""Source lines of addresses from DWARF line programs, version 2 to 5.

Only compilation units that cover the wanted addresses are read, and only for a limited time: the wanted addresses come in the
order of their weight, so that the hot code is named first.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from convolver.tracing.elf import MALFORMED

BUDGET_SECONDS = 3.0
"""Time that one object's line programs may take."""


PROGRAM_BYTES_A_SECOND = 600_000
"""What :func:`decode_program` reads in a second, at least: a unit that would take longer than is left is passed over."""


@dataclass(frozen=True)
class _Rows:
    """Ranges of addresses of one unit, sorted, with file and line of each."""

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    file: NDArray[Any]
    line: NDArray[np.int64]

    def at(self, addresses: NDArray[np.uint64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        place = np.searchsorted(self.start, addresses, side="right").astype(np.int64) - 1
        inside = (place >= 0) & (addresses < self.end[place])
        return np.where(inside, self.file[place], ""), np.where(inside, self.line[place], 0)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _file_names(program: Any, unit: Any) -> dict[int, str]:
    """Return the path of each file number of a line program."""
    header = program.header
    version = header["version"]
    top = unit.get_top_DIE()
    attribute = top.attributes.get("DW_AT_comp_dir")
    folder = _text(attribute.value) if attribute is not None else ""
    directories = [_text(entry) for entry in header["include_directory"]]
    first = 0 if version >= 5 else 1
    names = {}
    for number, entry in enumerate(header["file_entry"]):
        index = entry.dir_index
        within = directories[index - first] if first <= index < len(directories) + first else ""
        names[number + first] = posixpath.normpath(posixpath.join(folder, within, _text(entry.name)))
    return names


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned LEB128 number, and where it ends."""
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, at
        shift += 7


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, end = _leb128(data, at)
    bits = 7 * (end - at)
    return (value - (1 << bits) if value >> (bits - 1) else value), end


def decode_program(data: bytes, header: Mapping[str, Any]) -> list[tuple[int, int, int, int]]:
    """Run the opcodes of a line program (DWARF 5, section 6.2.5); returns ranges (start, end, file number, line).

    pyelftools can do this too, thirty times more slowly. Raises IndexError for a program that is cut off.
    """
    line_base, line_range, opcode_base = header["line_base"], header["line_range"], header["opcode_base"]
    shortest, lengths = header["minimum_instruction_length"], header["standard_opcode_lengths"]
    found: list[tuple[int, int, int, int]] = []
    address, file, line, at, size = 0, 1, 1, 0, len(data)
    before: tuple[int, int, int] | None = None

    while at < size:
        opcode = data[at]
        at += 1
        row, ended = opcode >= opcode_base or opcode == 1, False
        if opcode >= opcode_base:
            advance, lines = divmod(opcode - opcode_base, line_range)
            address += advance * shortest
            line += line_base + lines
        elif opcode == 0:
            length, at = _leb128(data, at)
            kind, end = data[at], at + length
            if kind == 1:
                row = ended = True
            elif kind == 2:
                address = int.from_bytes(data[at + 1 : end], "little")
            at = end
        elif opcode == 2:
            advance, at = _leb128(data, at)
            address += advance * shortest
        elif opcode == 3:
            lines, at = _signed(data, at)
            line += lines
        elif opcode == 4:
            file, at = _leb128(data, at)
        elif opcode == 8:
            address += (255 - opcode_base) // line_range * shortest
        elif opcode == 9:
            address += int.from_bytes(data[at : at + 2], "little")
            at += 2
        elif opcode != 1:  # column, flags, and opcodes not known: their arguments are passed over
            for _ in range(lengths[opcode - 1]):
                _, at = _leb128(data, at)
        if row:
            if before is not None and address > before[0]:
                found.append((before[0], address, before[1], before[2]))
            before = None if ended else (address, file, line)
            if ended:
                address, file, line = 0, 1, 1
    return found


def _read_unit(dwarf: Any, unit: Any, seconds: float) -> _Rows | None:
    """Return the lines of a unit; raises TimeoutError where reading them would take longer than so many seconds."""
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return None
    if program.program_end_offset - program.program_start_offset > seconds * PROGRAM_BYTES_A_SECOND:
        raise TimeoutError
    names = _file_names(program, unit)
    program.stream.seek(program.program_start_offset)
    data = program.stream.read(program.program_end_offset - program.program_start_offset)
    found = sorted(decode_program(data, program.header))
    if not found:
        return None
    starts, ends, files, lines = zip(*found, strict=True)
    return _Rows(
        np.array(starts, dtype=np.uint64),
        np.array(ends, dtype=np.uint64),
        np.array([names.get(file, "") for file in files], dtype=object),
        np.maximum(np.array(lines, dtype=np.int64), 0),
    )


def _ranges(dwarf: Any, unit: Any) -> list[tuple[int, int]]:
    """Return the address ranges of a unit from its own description, for objects without .debug_aranges."""
    top = unit.get_top_DIE()
    low, high = (top.attributes.get(name) for name in ("DW_AT_low_pc", "DW_AT_high_pc"))
    base = int(low.value) if low is not None else 0
    if low is not None and high is not None:
        return [(base, int(high.value) + (0 if high.form == "DW_FORM_addr" else base))]
    attribute = top.attributes.get("DW_AT_ranges")
    lists = dwarf.range_lists()
    if attribute is None or lists is None:
        return []
    found = []
    for entry in lists.get_range_list_at_offset(attribute.value, cu=unit):
        if hasattr(entry, "base_address"):
            base = int(entry.base_address)
        else:
            shift = 0 if getattr(entry, "is_absolute", False) else base
            found.append((int(entry.begin_offset) + shift, int(entry.end_offset) + shift))
    return found


class LineTable:
    """Looks up file and line of addresses of one object."""

    def __init__(self, elf: ELFFile) -> None:
        self._dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
        self._until = time.monotonic() + BUDGET_SECONDS
        self.complete = True
        """Whether nothing was left out for want of time."""

    def _described(self) -> list[tuple[int, int, int]]:
        """Return the ranges of all units, from their own descriptions, as (first address, end, unit)."""
        found = []
        for unit in self._dwarf.iter_CUs():
            found += [(low, high, int(unit.cu_offset)) for low, high in _ranges(self._dwarf, unit)]
            if time.monotonic() > self._until:
                self.complete = False
                break
        return found

    def _units_of(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return where the unit of each address begins in .debug_info, -1 where it is not known."""
        aranges = self._dwarf.get_aranges()
        entries = aranges.entries if aranges is not None else []
        units = _find([(one.begin_addr, one.begin_addr + one.length, int(one.info_offset)) for one in entries], addresses)
        missing = np.flatnonzero(units < 0)
        if len(missing):
            units[missing] = _find(self._described(), addresses[missing])
        return units

    def find(self, addresses: NDArray[np.uint64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return source file (an object) and line of addresses, the most wanted first; "" and 0 where unknown."""
        files, lines = np.full(len(addresses), "", dtype=object), np.zeros(len(addresses), dtype=np.int64)
        units = self._units_of(addresses)
        order = np.argsort(units, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(units[order])) + 1) if len(order) else []
        for mine in sorted(groups, key=lambda group: int(group[0])):
            left = self._until - time.monotonic()
            unit = int(units[mine[0]])
            if unit < 0:
                continue
            try:
                rows = _read_unit(self._dwarf, self._dwarf.get_CU_at(unit), left)
            except TimeoutError:
                self.complete = False
                continue
            except MALFORMED:
                continue
            if rows is not None:
                files[mine], lines[mine] = rows.at(addresses[mine])
        return files, lines


def _find(ranges: list[tuple[int, int, int]], addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the number of the range that holds each address, -1 where none does; ranges are (first address, end, number)."""
    if not ranges:
        return np.full(len(addresses), -1, dtype=np.int64)
    start, end, number = (np.array(column, dtype=np.uint64) for column in zip(*sorted(ranges), strict=True))
    place = np.searchsorted(start, addresses, side="right").astype(np.int64) - 1
    inside = (place >= 0) & (addresses < end[place])
    return np.where(inside, number[place].astype(np.int64), -1)

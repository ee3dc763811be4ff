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

BUDGET_SECONDS = 3.0
"""Time that one object's line programs may take."""


@dataclass(frozen=True)
class _Rows:
    """Ranges of addresses of one unit, sorted, with file and line of each."""

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    file: list[str]
    line: list[int]

    def at(self, address: int) -> tuple[str, int]:
        place = int(np.searchsorted(self.start, np.uint64(address), side="right")) - 1
        if place < 0 or address >= int(self.end[place]):
            return "", 0
        return self.file[place], self.line[place]


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


def _read_unit(dwarf: Any, unit: Any) -> _Rows | None:
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return None
    names = _file_names(program, unit)
    program.stream.seek(program.program_start_offset)
    data = program.stream.read(program.program_end_offset - program.program_start_offset)
    found = sorted(decode_program(data, program.header))
    starts, ends = ([row[i] for row in found] for i in (0, 1))
    return _Rows(
        np.array(starts, dtype=np.uint64),
        np.array(ends, dtype=np.uint64),
        [names.get(row[2], "") for row in found],
        [max(row[3], 0) for row in found],
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
        self._rows: dict[int, _Rows | None] = {}
        self._aranges = self._dwarf.get_aranges()
        self._own: list[tuple[int, int, int]] | None = None
        self._until = time.monotonic() + BUDGET_SECONDS

    def _unit_of(self, address: int) -> int | None:
        if self._aranges is not None:
            offset = self._aranges.cu_offset_at_addr(address)
            if offset is not None:
                return int(offset)
        if self._own is None:
            self._own = []
            for unit in self._dwarf.iter_CUs():
                self._own += [(low, high, unit.cu_offset) for low, high in _ranges(self._dwarf, unit)]
                if time.monotonic() > self._until:
                    break
        return next((offset for low, high, offset in self._own if low <= address < high), None)

    def at(self, address: int) -> tuple[str, int]:
        """Return source file and line of an address; ("", 0) when unknown or when the time is up."""
        offset = self._unit_of(address)
        if offset is None:
            return "", 0
        if offset not in self._rows:
            if time.monotonic() > self._until:
                return "", 0
            self._rows[offset] = _read_unit(self._dwarf, self._dwarf.get_CU_at(offset))
        rows = self._rows[offset]
        return rows.at(address) if rows is not None else ("", 0)

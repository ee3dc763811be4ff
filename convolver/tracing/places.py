"""Places in a program's code, given by address: the object file and the offset in it, which are the same in every run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from convolver.errors import UsageError

Range = tuple[str, int, int]
"""Object file, first offset, end."""


def _hexadecimal(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError as error:
        raise UsageError(f"'{text}' is no address; write it in hexadecimal like 0x401136.") from error


def _offset(path: Path, address: int) -> int:
    from convolver.tracing.elf import offsets_of, open_elf  # only here: it brings a library that predictions do not need

    try:
        with open(path, "rb") as file:
            elf = open_elf(file)
            offset = 0 if elf is None else int(offsets_of(elf, np.array([address], dtype=np.uint64))[0])
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    if not offset:
        raise UsageError(f"{path} has no code at {address:#x}; addresses are those of its symbol table (nm).")
    return offset


def entry_place(program: str | Path, where: str) -> str:
    """Return what the tracer takes for a place to start or stop at: an address becomes an offset in its file."""
    if not where.startswith("0x"):
        return where
    path = Path(program).resolve()
    return f"@{_offset(path, _hexadecimal(where)):x}:{path}"


def named_place(program: str | Path, where: str) -> str:
    """Return what the tracer in Valgrind takes for a place: functions are known to it by the names that reports show."""
    from convolver.tracing.selection import shown_name  # only here: it needs what reads object files

    return entry_place(program, where) if where == "marker" or where.startswith("0x") else shown_name(program, where)


def range_blocks(program: str | Path, ranges: list[str]) -> tuple[Range, ...]:
    """Return code given as ``0xFIRST-0xEND`` (end excluded), of the program, or as ``0xFIRST-0xEND@FILE`` of a library.

    Raises :class:`UsageError` for what is no range of the file's code.
    """
    found = []
    for text in ranges:
        span, _, file = text.partition("@")
        first, dash, end = span.partition("-")
        path = Path(file or program).resolve()
        begin, after = (_hexadecimal(part) for part in (first, end)) if dash else (0, 0)
        if after <= begin:
            raise UsageError(f"'{text}' is no range of addresses; write for example 0x401136-0x4011a0.")
        offset = _offset(path, begin)
        found.append((str(path), offset, offset + after - begin))
    return tuple(found)

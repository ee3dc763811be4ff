"""What was read of object files, kept while they stay as they are: short-lived programs of one run share their libraries."""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from convolver.tracing.elf import (
    Functions,
    addresses_in,
    build_id,
    content_id,
    debug_file,
    debug_link,
    loaded_segments,
    open_elf,
    read_functions,
)
from convolver.tracing.lines import LineTable

MOST_OBJECTS = 16
"""Object files that are kept: the functions of a large one take some ten megabytes."""
MOST_LINES = 100_000
"""Addresses whose lines are kept of one object."""


class KnownObject:
    """An object file: identity, where it is mapped, functions and, as they are asked for, lines."""

    def __init__(self, path: Path) -> None:
        """Read a file; raises one of :data:`convolver.tracing.elf.MALFORMED`, a LookupError for what is no object file."""
        self._path = path
        with open(path, "rb") as file:
            elf = open_elf(file)
            if elf is None:
                raise LookupError(path)
            self.identity = build_id(elf) or content_id(file)
            self.has_lines = bool(elf.has_dwarf_info(strict=True))
            self._link = debug_link(elf)
            self._segments = loaded_segments(elf)
        self._lines: dict[int, tuple[str, int]] = {}

    @cached_property
    def functions(self) -> Functions:
        """Its functions."""
        with open(self._path, "rb") as file:
            return read_functions(ELFFile(file))

    def addresses_of(self, offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the addresses, as the symbol table counts them, of file offsets; 0 for those that are never mapped."""
        return addresses_in(self._segments, offsets)

    def debug_file(self) -> Path | None:
        """Return the separate file with its debug information, as there is one now."""
        return debug_file(self._path, self.identity, self._link)

    def lines(self, addresses: list[int]) -> list[tuple[str, int]]:
        """Return source file and line of addresses, the most wanted first; "" and 0 where unknown."""
        fresh = [address for address in dict.fromkeys(addresses) if address not in self._lines]
        found: dict[int, tuple[str, int]] = {}
        if fresh:
            with open(self._path, "rb") as file:
                table = LineTable(ELFFile(file))
                files, lines = table.find(np.array(fresh, dtype=np.uint64))
            found = dict(zip(fresh, zip(files.tolist(), lines.tolist(), strict=True), strict=True))
            if table.complete and len(self._lines) + len(found) <= MOST_LINES:
                self._lines |= found
        return [found.get(address) or self._lines[address] for address in addresses]


def known_object(path: Path) -> KnownObject:
    """Return what is known of an object file as it is now."""
    status = path.stat()
    return _known(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


@lru_cache(MOST_OBJECTS)
def _known(path: Path, _state: tuple[int, ...]) -> KnownObject:
    return KnownObject(path)

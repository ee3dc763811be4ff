"""Names of blocks, found once at trace time and kept by object file: afterwards the traced binaries are not needed again."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from convolver.tracing.blocks import Blocks
from convolver.tracing.definitions import Definitions
from convolver.tracing.elf import (
    MALFORMED,
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


@dataclass
class BlockNames:
    """One entry a block, and one build-id a module; empty strings and line 0 where nothing is known."""

    functions: list[str]
    files: list[str]
    lines: list[int]
    build_ids: list[str]

    @classmethod
    def empty(cls, blocks: int, modules: int) -> BlockNames:
        """Return names of nothing."""
        return cls([""] * blocks, [""] * blocks, [0] * blocks, [""] * modules)


OWN_SHARE, SYSTEM_SHARE = 1e-6, 1e-3
"""Lines are looked up for blocks with this share of all executed instructions: in objects that bring their debug information
along, and in those whose is in a separate file (the system's libraries, which are huge)."""


def resolve_names(definitions: Definitions, blocks: Blocks) -> BlockNames:
    """Return function, file and line of every block and the build-id of every module.

    Works for executables (PIE or not, static, stripped) and shared libraries; debug information in separate files is found by
    build-id. What is unknown stays empty.
    """
    names = BlockNames.empty(len(blocks), len(definitions.paths))
    for module, path in enumerate(definitions.paths):
        mine = np.flatnonzero(blocks.module == module)
        if path and len(mine):
            try:
                _resolve_module(Path(path), module, mine, blocks.offset, blocks.counts["instructions"], names)
            except MALFORMED:
                continue
    names.functions = demangle(names.functions)
    return names


def resolve_places(
    paths: Sequence[str], places: Sequence[tuple[int, int]], *, names: bool = True
) -> tuple[list[str], list[str], list[int]]:
    """Return function, file and line of places in code, each a module (number in ``paths``) and an offset in its file.

    ``names`` False: all stay unknown.
    """
    found = BlockNames.empty(len(places), len(paths))
    modules = np.array([module for module, _ in places], dtype=np.int64)
    offsets = np.array([offset for _, offset in places], dtype=np.uint64)
    for module in np.unique(modules).tolist() if names else []:
        try:
            mine = np.flatnonzero(modules == module)
            _resolve_module(Path(paths[module]), module, mine, offsets, np.ones(len(places), dtype=np.uint64), found)
        except MALFORMED:
            continue
    return demangle(found.functions), found.files, found.lines


def _resolve_module(
    path: Path,
    module: int,
    mine: NDArray[np.int64],
    offsets: NDArray[np.uint64],
    weights_of_all: NDArray[np.uint64],
    names: BlockNames,
) -> None:
    own = known_object(path)
    names.build_ids[module] = own.identity
    addresses = own.addresses_of(offsets[mine])
    separate = own.debug_file()
    debug = known_object(separate) if separate is not None else None
    for known in (debug, own):
        if known is not None:
            for place, name in zip(mine.tolist(), known.functions.at(addresses), strict=True):
                names.functions[place] = names.functions[place] or name
    weights, total = weights_of_all[mine], float(weights_of_all.sum())
    if own.has_lines:
        _name_lines(own, addresses, mine, weights, max(1, int(OWN_SHARE * total)), names)
    elif debug is not None and debug.has_lines:
        _name_lines(debug, addresses, mine, weights, max(1, int(SYSTEM_SHARE * total)), names)


def _name_lines(
    known: KnownObject,
    addresses: NDArray[np.uint64],
    mine: NDArray[np.int64],
    weights: NDArray[np.uint64],
    least: int,
    names: BlockNames,
) -> None:
    """Fill in file and line of the blocks with at least a weight of ``least``, the heaviest first."""
    wanted = np.argsort(weights)[::-1]
    wanted = wanted[weights[wanted] >= least]
    lines = known.lines(addresses[wanted].tolist())
    for place, (file, line) in zip(mine[wanted].tolist(), lines, strict=True):
        names.files[place], names.lines[place] = file, line


def demangle(functions: list[str], *, names: bool = True) -> list[str]:
    """Return C++ and Rust names readable where c++filt is installed; ``names`` False: as they are."""
    if not names:
        return functions
    mangled = sorted({name for name in functions if name.startswith(("_Z", "_R")) and "\n" not in name})
    tool = shutil.which("c++filt")
    if not mangled or tool is None:
        return functions
    try:
        done = subprocess.run([tool], input="\n".join(mangled), capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return functions
    readable = dict(zip(mangled, done.stdout.splitlines(), strict=False))
    return [readable.get(name, name) for name in functions]

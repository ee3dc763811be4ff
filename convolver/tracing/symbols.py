"""Names of blocks, found once at trace time: afterwards the traced binaries are not needed again."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from convolver.tracing.blocks import Blocks
from convolver.tracing.definitions import Definitions
from convolver.tracing.elf import MALFORMED
from convolver.tracing.known_objects import KnownObject, known_object
from convolver.tracing.names import BlockNames

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

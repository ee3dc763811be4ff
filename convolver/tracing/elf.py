"""Object files: identity, functions, where their bytes are mapped. Symbols are read as arrays: big binaries take no longer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from elftools.common.exceptions import DWARFError, ELFError
from elftools.construct.core import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection
from numpy.typing import NDArray

MALFORMED = (
    *(ELFError, DWARFError, ConstructError, OSError, LookupError, ValueError, TypeError, AttributeError, AssertionError),
    *(ArithmeticError, RecursionError, MemoryError),
)
"""What pyelftools raises on object files that are damaged, up to sizes that no file has, or that use what it does not know."""

SYSTEM_FOLDERS = ("/lib", "/usr/lib", "/usr/lib64", "/lib64", "/usr/libexec")
DEBUG_FOLDERS = (Path("/usr/lib/debug"), Path("/usr/local/lib/debug"))
FUNCTION_TYPES = (2, 10)
"""STT_FUNC and STT_GNU_IFUNC."""
OBJECT_TYPES = (1, 5)
"""STT_OBJECT and STT_COMMON."""
_EXECUTABLE = 4
_SYMBOL = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")])


@dataclass(frozen=True)
class Functions:
    """Functions sorted by address; ``end`` of one without a stated size is where the next one begins."""

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    names: list[str]

    def at(self, addresses: NDArray[np.uint64]) -> list[str]:
        """Return the name of the function around each address, empty where there is none."""
        if not len(self.start):
            return [""] * len(addresses)
        place = np.searchsorted(self.start, addresses, side="right").astype(np.int64) - 1
        inside = (place >= 0) & (addresses < self.end[np.maximum(place, 0)])
        return [self.names[p] if ok else "" for p, ok in zip(place.tolist(), inside.tolist(), strict=True)]


def build_id(elf: ELFFile) -> str:
    """Return the GNU build-id as hex digits, empty when the linker gave none."""
    notes: list[Any] = [s for s in elf.iter_sections() if isinstance(s, NoteSection)]
    notes += [s for s in elf.iter_segments() if s["p_type"] == "PT_NOTE"]
    for holder in notes:
        for note in holder.iter_notes():
            if note["n_type"] == "NT_GNU_BUILD_ID":
                return str(note["n_desc"])
    return ""


def content_id(file: BinaryIO) -> str:
    """Return what stands for the build-id of a file without one: a hash of the file."""
    digest = hashlib.sha1(usedforsecurity=False)
    file.seek(0)
    while part := file.read(1 << 20):
        digest.update(part)
    return "sha1-" + digest.hexdigest()


def loaded_segments(elf: ELFFile) -> list[Mapping[str, int]]:
    """Return the headers of the segments that are mapped."""
    return [segment.header for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"]


def _moved(segments: list[Mapping[str, int]], values: NDArray[np.uint64], here: str, there: str) -> NDArray[np.uint64]:
    """Return where values that lie at ``here`` in mapped segments lie when these begin at ``there``; 0 for others."""
    result = np.zeros(len(values), dtype=np.uint64)
    for segment in segments:
        first, size = np.uint64(segment[here]), np.uint64(segment["p_filesz"])
        inside = (values >= first) & (values < first + size)
        result[inside] = values[inside] - first + np.uint64(segment[there])
    return result


def addresses_in(segments: list[Mapping[str, int]], offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the addresses, as the symbol table counts them, of file offsets; 0 for those that are never mapped."""
    return _moved(segments, offsets, "p_offset", "p_vaddr")


def offsets_of(elf: ELFFile, addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the file offsets of addresses of the symbol table: the inverse of :func:`addresses_in`."""
    return _moved(loaded_segments(elf), addresses, "p_vaddr", "p_offset")


def executable_sections(elf: ELFFile) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield the address and the bytes of each section with code."""
    for section in elf.iter_sections():
        if section["sh_flags"] & _EXECUTABLE and section["sh_type"] != "SHT_NOBITS":
            yield int(section["sh_addr"]), np.frombuffer(section.data(), dtype=np.uint8)


def read_functions(elf: ELFFile) -> Functions:
    """Return the functions that .symtab, or else .dynsym, names."""
    return read_symbols(elf, FUNCTION_TYPES)


def read_symbols(elf: ELFFile, types: tuple[int, ...]) -> Functions:
    """Return the symbols of some types that .symtab, or else .dynsym, names."""
    for name in (".symtab", ".dynsym"):
        section = elf.get_section_by_name(name)
        if section is not None and section["sh_type"] != "SHT_NOBITS":
            found = _symbols(section, types)
            if len(found.start):
                return found
    empty = np.zeros(0, dtype=np.uint64)
    return Functions(empty, empty, [])


def _symbols(section: Any, types: tuple[int, ...]) -> Functions:
    data = section.data()
    symbols = np.frombuffer(data[: len(data) // _SYMBOL.itemsize * _SYMBOL.itemsize], dtype=_SYMBOL)
    symbols = symbols[np.isin(symbols["info"] & 15, types) & (symbols["section"] != 0) & (symbols["value"] != 0)]
    # Of several names at one address the global one (binding in the upper half of info), then the first, is taken.
    symbols = symbols[np.lexsort((np.arange(len(symbols)), -(symbols["info"] >> 4).astype(np.int8), symbols["value"]))]
    if len(symbols):
        fresh = np.ones(len(symbols), dtype=bool)
        fresh[1:] = symbols["value"][1:] != symbols["value"][:-1]
        symbols = symbols[fresh]
    start = symbols["value"].astype(np.uint64)
    end = start + symbols["size"]
    following = np.append(start[1:], np.iinfo(np.uint64).max).astype(np.uint64)
    end = np.where(symbols["size"] == 0, following, end).astype(np.uint64)
    text = section.elffile.get_section(section["sh_link"]).data()
    return Functions(start, end, [_string(text, int(at)) for at in symbols["name"]])


def _string(text: bytes, at: int) -> str:
    end = text.find(b"\0", at)
    return text[at : end if end >= 0 else len(text)].decode(errors="replace")


def debug_link(elf: ELFFile) -> str:
    """Return the name that an object gives the file with its debug information, empty where it gives none."""
    section = elf.get_section_by_name(".gnu_debuglink")
    return "" if section is None else _string(section.data(), 0)


def debug_file(path: Path, identity: str, link: str) -> Path | None:
    """Return the separate file with the debug information of an object, found by build-id or by its debug link."""
    if identity and not identity.startswith("sha1-"):
        for folder in DEBUG_FOLDERS:
            candidate = folder / ".build-id" / identity[:2] / f"{identity[2:]}.debug"
            if candidate.is_file():
                return candidate
    if not link:
        return None
    places = [path.parent / link, path.parent / ".debug" / link]
    places += [folder / path.parent.relative_to("/") / link for folder in DEBUG_FOLDERS if path.is_absolute()]
    return next((place for place in places if place.is_file() and place != path), None)


def open_elf(file: BinaryIO) -> ELFFile | None:
    """Return the object file in ``file``, or None when it is none."""
    try:
        return ELFFile(file)
    except (ELFError, ValueError, KeyError, TypeError):
        return None


def own_libraries(path: Path) -> list[Path]:
    """Return the libraries that a program needs, found by its run path or LD_LIBRARY_PATH, outside the system's folders."""
    found: list[Path] = []
    waiting = [path]
    while waiting and len(found) < 64:
        for library in _needed(waiting.pop()):
            if library not in found and not str(library).startswith(SYSTEM_FOLDERS):
                found.append(library)
                waiting.append(library)
    return found


def _needed(path: Path) -> list[Path]:
    with open(path, "rb") as file:
        elf = open_elf(file)
        dynamic: Any = elf.get_section_by_name(".dynamic") if elf is not None else None
        if dynamic is None:
            return []
        names, folders = [], os.environ.get("LD_LIBRARY_PATH", "").split(":")
        for tag in dynamic.iter_tags():
            if tag.entry.d_tag == "DT_NEEDED":
                names.append(tag.needed)
            elif tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
                text = tag.rpath if tag.entry.d_tag == "DT_RPATH" else tag.runpath
                folders += text.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(path.resolve().parent)).split(":")
    places = [Path(folder) / name for name in names for folder in folders if folder]
    return [place.resolve() for place in places if place.is_file()]

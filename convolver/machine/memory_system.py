"""The part of a machine that is simulated: caches, TLB, and what a write does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from convolver.errors import HierarchyError
from convolver.machine.hierarchy import (
    Level,
    TlbLevel,
    check_levels,
    check_semantics,
    check_tlb,
    is_plain,
    levels_for,
    parse_levels,
)
from convolver.schema import document_id

PAGE_BYTES = 4096


class Placement(NamedTuple):
    """Where threads are: thread t on complex t // adjacent % complexes, which has a last level of its own, and on core
    t % cores, in turn with others; 0 cores: each thread has one."""

    complexes: int = 1
    adjacent: int = 1
    cores: int = 0


class MemorySystem(NamedTuple):
    """``tlb`` has the levels for one size of page. ``placed``: which of its levels threads share."""

    hierarchy: tuple[Level, ...]
    tlb: tuple[TlbLevel, ...] = ()
    semantics: str = "write-back"
    placed: Placement = Placement()

    @property
    def plain(self) -> bool:
        """True for what the fast engine simulates."""
        return not self.tlb and self.semantics == "write-back" and is_plain(self.hierarchy)

    @property
    def private_levels(self) -> int:
        """How many levels each core has for itself: those before the first shared one; where no level says so, all but the last
        of several caches, and all that keep translations."""
        shared = [number for number, level in enumerate(self.hierarchy) if level.shared]
        if shared or self.hierarchy[0].line_bytes >= PAGE_BYTES:
            return shared[0] if shared else len(self.hierarchy)
        return max(len(self.hierarchy) - 1, 1)

    def to_document(self) -> dict[str, Any]:
        """Return hierarchy, tlb and semantics as JSON-able values; the latter two only where they are not the usual ones."""
        document: dict[str, Any] = {"hierarchy": [msgspec.to_builtins(level) for level in self.hierarchy]}
        if self.tlb:
            document["tlb"] = [msgspec.to_builtins(level) for level in self.tlb]
        if self.semantics != "write-back":
            document["semantics"] = self.semantics
        if self.placed != Placement():
            document["placed"] = list(self.placed)
        return document

    @property
    def id(self) -> str:
        """Equal systems need to be simulated only once."""
        return _system_id(self)


@lru_cache(maxsize=1024)
def _system_id(system: MemorySystem) -> str:
    document = system.to_document()
    return document_id({"levels": document.pop("hierarchy"), **document})


def make_system(levels: Sequence[Level], tlb: Sequence[TlbLevel], semantics: str, page_bytes: int) -> MemorySystem:
    """Return the system with the TLB for pages of ``page_bytes``; raises :class:`HierarchyError` for one that is not possible."""
    checked = check_levels(levels)
    check_semantics(semantics, checked)
    return MemorySystem(checked, levels_for(check_tlb(tlb), page_bytes), semantics)


def parse_system(document: Mapping[str, Any], where: str) -> MemorySystem:
    """Return the system in a machine's JSON document; raises :class:`HierarchyError` for one that is not possible."""
    levels = parse_levels(document.get("hierarchy") or (), f"The hierarchy of {where}")
    try:
        tlb = msgspec.convert(document.get("tlb") or [], list[TlbLevel])
        semantics = msgspec.convert(document.get("semantics", "write-back"), str)
        return make_system(levels, tlb, semantics, msgspec.convert(document.get("page_bytes", PAGE_BYTES), int))
    except msgspec.ValidationError as error:
        raise HierarchyError(f"The memory system of {where} is not valid: {error}.") from error
    except HierarchyError as error:
        raise HierarchyError(f"The memory system of {where} is not possible: {error}") from error

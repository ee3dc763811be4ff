"""Levels of a TLB: caches of page translations."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from convolver._native._core import lib
from convolver.errors import HierarchyError
from convolver.machine.hierarchy import MAX_WAYS, POLICIES

PAGE_SIZES = (1 << 12, 1 << 21, 1 << 30)
"""Pages that x86-64 has."""
MAX_LEVELS: int = lib.CV_DETAILED_MAX_LEVELS


class TlbLevel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Entries for pages of one size; a level that holds pages of two sizes stands in the list twice."""

    level: str
    entries: int
    ways: int
    page_bytes: int = 1 << 12
    policy: str = "lru"


def check_tlb(levels: Sequence[TlbLevel]) -> tuple[TlbLevel, ...]:
    """Return the levels as a tuple, nearest first; raises :class:`HierarchyError` for an impossible one."""
    names = [(level.level, level.page_bytes) for level in levels]
    for level in levels:
        name, ways = level.level, level.ways
        if not name or names.count((name, level.page_bytes)) > 1:
            raise HierarchyError(f"The TLB has a level '{name}' without a name or twice for one size of page.")
        if level.page_bytes not in PAGE_SIZES:
            raise HierarchyError(f"{name} has pages of {level.page_bytes} bytes; 4 KiB, 2 MiB and 1 GiB are possible.")
        if not 1 <= ways <= MAX_WAYS or level.entries < 1 or level.entries % ways or level.entries > 1 << 24:
            raise HierarchyError(f"{name} has {level.entries} entries in {ways} ways; 1 to {MAX_WAYS} equal ways are needed.")
        if level.policy not in POLICIES or (level.policy == "tree-plru" and ways & (ways - 1)):
            raise HierarchyError(f"{name} cannot have the policy '{level.policy}' with {ways} ways.")
    for size in PAGE_SIZES:
        if sum(level.page_bytes == size for level in levels) > MAX_LEVELS:
            raise HierarchyError(f"The TLB has more than {MAX_LEVELS} levels.")
    return tuple(levels)


def levels_for(levels: Sequence[TlbLevel], page_bytes: int) -> tuple[TlbLevel, ...]:
    """Return the levels that hold pages of this size; raises :class:`HierarchyError` when a TLB has none."""
    found = tuple(level for level in levels if level.page_bytes == page_bytes)
    if levels and not found:
        raise HierarchyError(f"The TLB holds no pages of {page_bytes} bytes.")
    return found

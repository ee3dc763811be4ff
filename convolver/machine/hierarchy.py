"""Geometry of a cache hierarchy, checked once, here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from convolver.errors import HierarchyError
from convolver.machine.level_options import Prefetcher, check_neighbours, check_options

MAX_WAYS = 64
MAX_LEVELS = 8
MAX_SETS = 1 << 26
POLICIES = ("lru", "fifo", "random", "tree-plru", "bit-plru", "srrip", "drrip", "nmru")
"""Replacement policies that can be simulated."""


class Level(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One cache level. ``size_bytes`` is the capacity one core sees; any number of sets is allowed.

    The fields below ``policy`` are told in docs/cache-model.md; a level that has one of them is simulated by the detailed engine.
    """

    level: str
    size_bytes: int
    ways: int
    line_bytes: int = 64
    policy: str = "lru"
    seed: int = 0
    inclusion: str = "non-inclusive"
    write: str = "back"
    write_allocate: bool = True
    write_combining: int = 0
    sector_bytes: int = 0
    index: str = "modulo"
    slices: int = 1
    prefetcher: Prefetcher | None = None
    shared: bool = False

    @property
    def sets(self) -> int:
        """Number of sets; need not be a power of two."""
        return self.size_bytes // (self.ways * self.line_bytes)


def _check_level(level: Level) -> None:
    name = level.level
    if not name:
        raise HierarchyError("A cache level has an empty name; call it for example 'L1'.")
    if not 1 <= level.ways <= MAX_WAYS:
        raise HierarchyError(f"{name} has {level.ways} ways; 1 to {MAX_WAYS} are possible.")
    if level.line_bytes < 8 or level.line_bytes > 4096 or level.line_bytes & (level.line_bytes - 1):
        raise HierarchyError(f"{name} has lines of {level.line_bytes} bytes; a power of two from 8 to 4096 is needed.")
    if level.size_bytes <= 0 or level.size_bytes % (level.ways * level.line_bytes):
        raise HierarchyError(
            f"{name} has {level.size_bytes} bytes, which is no positive multiple of {level.ways} ways x {level.line_bytes} bytes."
        )
    if level.policy not in POLICIES:
        raise HierarchyError(f"{name} has the policy '{level.policy}'; these are known: {', '.join(POLICIES)}.")
    if level.policy == "tree-plru" and level.ways & (level.ways - 1):
        raise HierarchyError(f"{name} has {level.ways} ways; tree-plru needs a power of two.")
    if level.size_bytes > 1 << 40:
        raise HierarchyError(f"{name} has {level.size_bytes} bytes; at most 1 TiB can be simulated.")
    if level.sets > MAX_SETS:
        raise HierarchyError(f"{name} has {level.sets} sets; at most {MAX_SETS} can be simulated: give it more ways.")
    check_options(level)


def check_levels(levels: Sequence[Level]) -> tuple[Level, ...]:
    """Return the levels as a tuple, nearest first.

    Raises :class:`HierarchyError` for an impossible geometry: no level, more than eight, a name twice, a number of ways, a line
    size or a capacity that cannot be, or options that do not go together.
    """
    if not 1 <= len(levels) <= MAX_LEVELS:
        raise HierarchyError(f"A hierarchy has 1 to {MAX_LEVELS} cache levels, not {len(levels)}.")
    for level in levels:
        _check_level(level)
    names = [level.level for level in levels]
    if len(set(names)) != len(names):
        raise HierarchyError(f"The cache levels {', '.join(names)} do not have different names.")
    check_neighbours(levels)
    return tuple(levels)


def resized(level: Level, size_bytes: float) -> Level:
    """Return the level with about this size (within 1/32), and a number of sets of five binary digits and zeros behind them.

    So a sample of one set in 16 or 32 holds whole sets of it, also where ways or size are no power of two (105 MiB in 15 ways).
    """
    sets = max(size_bytes / (level.ways * level.line_bytes), 1.0)
    step = 2 ** max(math.floor(math.log2(sets)) - 4, 0)
    return msgspec.structs.replace(level, size_bytes=round(sets / step) * step * level.ways * level.line_bytes)


def parse_levels(documents: Iterable[Mapping[str, Any]], where: str = "The hierarchy") -> tuple[Level, ...]:
    """Return checked levels from JSON objects; raises :class:`HierarchyError` with ``where`` in front."""
    try:
        return check_levels(msgspec.convert(list(documents), list[Level]))
    except msgspec.ValidationError as error:
        raise HierarchyError(f"{where} is not valid: {error}.") from error
    except HierarchyError as error:
        raise HierarchyError(f"{where} is not possible: {error}") from error

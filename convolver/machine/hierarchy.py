"""Levels of caches and TLBs: their geometry, what else they may do, and which of it goes together; checked once, here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from convolver._native._core import lib
from convolver._native.enums import enum_names
from convolver.errors import HierarchyError

MAX_WAYS: int = lib.CV_SIM_MAX_WAYS
MAX_LEVELS: int = lib.CV_SIM_MAX_LEVELS
MAX_SETS: int = lib.CV_SIM_MAX_SETS
POLICIES = enum_names("cv_sim_policy", "CV_SIM_")
"""Replacement policies; these names, and those of the four tuples below, stand at their number in the C core."""
DEPENDENT_POLICIES = frozenset(["drrip"])
"""Those whose sets depend on each other, so that some sets cannot be simulated without the others."""
INCLUSIONS = enum_names("cv_inclusion", "CV_")
TAKE_VICTIMS = ("exclusive", "victim")
"""Levels that are filled by what leaves the level above."""
INDICES = enum_names("cv_index", "CV_INDEX_")
PAGE_FRAMES = "page-frames"
"""The index of a cache that looks for physical addresses: pages of 4 KiB lie in frames at random."""
PREFETCHERS = enum_names("cv_prefetcher", "CV_PREFETCH_")
WRITES = ("back", "through")
SEMANTICS = enum_names("cv_semantics", "CV_")
"""What a write does: as the levels say, or as in one of three other simulators."""


class Prefetcher(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``degree``: lines asked for at once; ``entries``: sites or streams that are known at a time."""

    kind: str
    degree: int = 1
    entries: int = 16


class Level(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One cache level. ``size_bytes`` is the capacity one core sees; any number of sets is allowed.

    The fields below ``policy`` are explained in docs/cache-model.md; a level that has one is simulated by the detailed engine.
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


def _is_power_of_two(number: int) -> bool:
    """True for 1, 2, 4, ..."""
    return number > 0 and number & (number - 1) == 0


def _check_names(level: Level) -> None:
    for what, value, known in (
        ("inclusion", level.inclusion, INCLUSIONS),
        ("index", level.index, INDICES),
        ("write", level.write, WRITES),
        ("prefetcher", level.prefetcher.kind if level.prefetcher else "none", PREFETCHERS),
    ):
        if value not in known:
            raise HierarchyError(f"{level.level} has the {what} '{value}'; these are known: {', '.join(known)}.")


def _check_numbers(level: Level) -> None:
    name, sector = level.level, level.sector_bytes
    if sector and not (_is_power_of_two(sector) and max(8, level.line_bytes // 64) <= sector <= level.line_bytes):
        raise HierarchyError(
            f"{name} has sectors of {sector} bytes; a power of two from 8 bytes, and 1/64 of a line, to a line is needed."
        )
    if not 0 <= level.write_combining <= 64:
        raise HierarchyError(f"{name} combines writes in {level.write_combining} entries; 0 to 64 are possible.")
    if not 0 <= level.seed < 1 << 64:
        raise HierarchyError(f"{name} has the seed {level.seed}; 0 to 2^64 - 1 are possible.")
    if level.prefetcher and not (1 <= level.prefetcher.degree <= 64 and 1 <= level.prefetcher.entries <= 65536):
        raise HierarchyError(f"The prefetcher of {name} is not possible: its degree is 1 to 64, its entries 1 to 65536.")


def _check_index(level: Level) -> None:
    name, slices = level.level, level.slices
    if level.index in ("xor", PAGE_FRAMES) and not _is_power_of_two(level.sets):
        raise HierarchyError(f"{name} has {level.sets} sets; the index '{level.index}' needs a power of two.")
    if level.index == "intel-slices" and slices not in (2, 4, 8):
        raise HierarchyError(f"{name} has {slices} slices; 'intel-slices' is known for 2, 4 and 8.")
    if not level.index.endswith("slices") and slices != 1:
        raise HierarchyError(f"{name} has {slices} slices, but the index '{level.index}'; use 'intel-slices' or 'mixed-slices'.")
    if slices < 1 or level.sets % slices:
        raise HierarchyError(f"{name} has {level.sets} sets, which {slices} slices cannot share evenly.")


def _check_options(level: Level) -> None:
    """Raise :class:`HierarchyError` for an option that is unknown or impossible for the level alone."""
    _check_names(level)
    _check_numbers(level)
    _check_index(level)
    if level.inclusion in TAKE_VICTIMS and (level.write != "back" or level.prefetcher):
        raise HierarchyError(f"{level.level} is filled from the level above only: it is write-back and has no prefetcher.")


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
    _check_options(level)


def _check_together(levels: Sequence[Level]) -> None:
    """Raise :class:`HierarchyError` where levels do not go together, nearest first."""
    for number, level in enumerate(levels):
        above = levels[:number]
        if level.inclusion == "inclusive" and any(each.line_bytes > level.line_bytes for each in above):
            raise HierarchyError(f"{level.level} cannot be inclusive: a level above has larger lines.")
        if any(each.shared for each in above) and not level.shared:
            raise HierarchyError(f"{level.level} is private, but a level above is shared; below a shared level all are shared.")
        if level.inclusion in TAKE_VICTIMS:
            _check_takes_victims(level, above[-1] if above else None)


def _check_takes_victims(level: Level, above: Level | None) -> None:
    if above is None:
        raise HierarchyError(f"{level.level} cannot be {level.inclusion}: it is the first level.")
    shapes = [(each.line_bytes, each.sector_bytes or each.line_bytes) for each in (above, level)]
    if shapes[0] != shapes[1] or above.write != "back":
        raise HierarchyError(
            f"{level.level} cannot be {level.inclusion}: the level above needs the same lines and sectors, and write-back."
        )


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
    _check_together(levels)
    return tuple(levels)


def resized(level: Level, size_bytes: float) -> Level:
    """Return the level with about this size (within 1/32), and a number of sets of five binary digits and zeros after them.

    So a sample of one set in 16 or 32 holds whole sets of it, also where ways or size are no power of two (105 MiB in 15 ways).
    """
    sets = max(size_bytes / (level.ways * level.line_bytes), 1.0)
    step = 2 ** max(math.floor(math.log2(sets)) - 4, 0)
    return msgspec.structs.replace(level, size_bytes=round(sets / step) * step * level.ways * level.line_bytes)


def parse_levels(documents: Iterable[Mapping[str, Any]], where: str = "The hierarchy") -> tuple[Level, ...]:
    """Return checked levels from JSON objects; raises :class:`HierarchyError` with ``where`` in front."""
    try:
        return check_levels(msgspec.convert(list(documents), list[Level]))
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise HierarchyError(f"{where} is not valid: {error}.") from error
    except HierarchyError as error:
        raise HierarchyError(f"{where} is not possible: {error}") from error


def is_plain(levels: Sequence[Level]) -> bool:
    """True for what the fast engine simulates: write-back, write-allocate, non-inclusive, one line size, no option."""
    return all(
        level.inclusion == "non-inclusive"
        and level.write == "back"
        and level.write_allocate
        and not level.write_combining
        and level.sector_bytes in (0, level.line_bytes)
        and level.line_bytes == levels[0].line_bytes
        and (level.index == "modulo" or (level.index == PAGE_FRAMES and level.policy != "lru"))
        and level.prefetcher is None
        and level.seed == 0
        for level in levels
    )


def check_semantics(semantics: str, levels: Sequence[Level]) -> None:
    """Raise :class:`HierarchyError` for unknown semantics and for levels that they are not defined for."""
    if semantics not in SEMANTICS:
        raise HierarchyError(f"The semantics '{semantics}' are not known; these are: {', '.join(SEMANTICS)}.")
    if semantics in ("cachegrind", "pycachesim") and not is_plain(levels):
        raise HierarchyError(f"The semantics '{semantics}' are defined for levels without options only.")


PAGE_SIZES = (1 << 12, 1 << 21, 1 << 30)
"""Pages that x86-64 has."""
MAX_TLB_LEVELS: int = lib.CV_DETAILED_MAX_LEVELS


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
        if sum(level.page_bytes == size for level in levels) > MAX_TLB_LEVELS:
            raise HierarchyError(f"The TLB has more than {MAX_TLB_LEVELS} levels.")
    return tuple(levels)


def levels_for(levels: Sequence[TlbLevel], page_bytes: int) -> tuple[TlbLevel, ...]:
    """Return the levels that hold pages of this size; raises :class:`HierarchyError` when a TLB has none."""
    found = tuple(level for level in levels if level.page_bytes == page_bytes)
    if levels and not found:
        raise HierarchyError(f"The TLB holds no pages of {page_bytes} bytes.")
    return found

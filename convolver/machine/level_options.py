"""What a cache level may do beyond holding lines: names of the options, and which of them go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from convolver.errors import HierarchyError

if TYPE_CHECKING:
    from convolver.machine.hierarchy import Level

INCLUSIONS = ("non-inclusive", "inclusive", "exclusive", "victim")
TAKE_VICTIMS = ("exclusive", "victim")
"""Levels that are filled by what leaves the level above."""
INDICES = ("modulo", "xor", "intel-slices", "mixed-slices")
PREFETCHERS = ("none", "next-line", "stride", "stream")
WRITES = ("back", "through")
SEMANTICS = ("write-back", "no-write-backs", "cachegrind", "pycachesim")
"""What a write does: as the levels say, or as in one of three other simulators."""


class Prefetcher(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``degree``: lines asked for at once; ``entries``: sites or streams that are known at a time."""

    kind: str
    degree: int = 1
    entries: int = 16


def is_power_of_two(number: int) -> bool:
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
    if sector and not (is_power_of_two(sector) and max(8, level.line_bytes // 64) <= sector <= level.line_bytes):
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
    if level.index == "xor" and not is_power_of_two(level.sets):
        raise HierarchyError(f"{name} has {level.sets} sets; the index 'xor' needs a power of two.")
    if level.index == "intel-slices" and slices not in (2, 4, 8):
        raise HierarchyError(f"{name} has {slices} slices; 'intel-slices' is known for 2, 4 and 8.")
    if not level.index.endswith("slices") and slices != 1:
        raise HierarchyError(f"{name} has {slices} slices, but the index '{level.index}'; use 'intel-slices' or 'mixed-slices'.")
    if slices < 1 or level.sets % slices:
        raise HierarchyError(f"{name} has {level.sets} sets, which {slices} slices cannot share evenly.")


def check_options(level: Level) -> None:
    """Raise :class:`HierarchyError` for an option that is unknown or impossible for the level alone."""
    _check_names(level)
    _check_numbers(level)
    _check_index(level)
    if level.inclusion in TAKE_VICTIMS and (level.write != "back" or level.prefetcher):
        raise HierarchyError(f"{level.level} is filled from the level above only: it is write-back and has no prefetcher.")


def check_neighbours(levels: Sequence[Level]) -> None:
    """Raise :class:`HierarchyError` where levels do not go together, nearest first."""
    for place, level in enumerate(levels):
        above = levels[:place]
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


def is_plain(levels: Sequence[Level]) -> bool:
    """True for what the fast engine simulates: write-back, write-allocate, non-inclusive, one line size, no option."""
    return all(
        level.inclusion == "non-inclusive"
        and level.write == "back"
        and level.write_allocate
        and not level.write_combining
        and level.sector_bytes in (0, level.line_bytes)
        and level.line_bytes == levels[0].line_bytes
        and level.index == "modulo"
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

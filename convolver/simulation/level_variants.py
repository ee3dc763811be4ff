"""What if: variants of one cache level of a machine, all simulated in one pass."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from convolver.errors import HierarchyError, UsageError
from convolver.machine.hierarchy import Level, Prefetcher, check_levels, resized
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.targets import MachineLike, Target, targets
from convolver.units import format_bytes


def _label(machine: Target, level: Level) -> str:
    parts = [f"{level.level} {format_bytes(level.size_bytes)}", f"{level.ways} ways", level.policy, *level_words(level)]
    return f"{machine.name}: {', '.join(parts)}"


def level_words(level: Level) -> list[str]:
    """Return what a level's inclusion and prefetcher are, where they are not the usual ones."""
    words = [level.inclusion] if level.inclusion != "non-inclusive" else []
    return [*words, level.prefetcher.kind] if level.prefetcher else words


def _nearest_possible(level: Level) -> Level:
    """Return the level with a capacity of whole sets near its own."""
    row = level.ways * level.line_bytes
    return level if level.size_bytes < row or not level.size_bytes % row else resized(level, level.size_bytes)


def _prefetcher(own: Prefetcher | None, kind: str) -> Prefetcher | None:
    """Return the prefetcher of a variant: the level's own degree and entries, where it has some."""
    if kind == "none":
        return None
    return msgspec.structs.replace(own, kind=kind) if own else Prefetcher(kind=kind)


def variants(
    machine: MachineLike,
    level: str,
    *,
    sizes: Sequence[int] = (),
    ways: Sequence[int] = (),
    policies: Sequence[str] = (),
    inclusions: Sequence[str] = (),
    prefetchers: Sequence[str] = (),
) -> list[Target]:
    """Return the machine with every combination of the given capacities (bytes), ways, policies, ... of one level.

    What is not given stays as it is; the machine itself is among the variants, first. A capacity that is no multiple of a way is
    rounded to a number of sets that set samples hold, and of variants that are called alike the first is taken.
    Raises :class:`UsageError` for an unknown level or more than 256 variants, :class:`HierarchyError` for an impossible geometry.
    """
    (own,) = targets(machine)
    number = next((number for number, each in enumerate(own.hierarchy) if each.level == level), None)
    if number is None:
        known = ", ".join(each.level for each in own.hierarchy)
        raise UsageError(f"'{own.name}' has no cache level '{level}'; it has {known}.")
    base = own.hierarchy[number]
    kinds = prefetchers or [base.prefetcher.kind if base.prefetcher else "none"]
    asked = (sizes or [base.size_bytes], ways or [base.ways], policies or [base.policy], inclusions or [base.inclusion], kinds)
    found = {_label(own, base): base}
    for size, way, policy, inclusion, kind in itertools.product(*asked):
        changed = {"size_bytes": size, "ways": max(way, 1), "policy": policy, "inclusion": inclusion}
        prefetcher = _prefetcher(base.prefetcher, kind)
        each = _nearest_possible(msgspec.structs.replace(base, **changed, prefetcher=prefetcher))
        found.setdefault(_label(own, each), each)
    if len(found) > 256:
        raise UsageError(f"{len(found)} variants are too many for one pass; ask for at most 256.")
    try:
        return [_with_level(own, number, each) for each in found.values()]
    except HierarchyError as error:
        raise HierarchyError(f"A variant of {level} is not possible: {error}") from error


def _with_level(machine: Target, number: int, level: Level) -> Target:
    levels = [*machine.hierarchy[:number], level, *machine.hierarchy[number + 1 :]]
    return Target(_label(machine, level), machine.system._replace(hierarchy=check_levels(levels)))


def compared(rates: HitRates) -> list[dict[str, Any]]:
    """Return per variant the share of all accesses that each level misses, ``missing``, and that of the last, ``memory``.

    Local miss rates are multiplied, since levels may come from different samples; None where nothing was sampled.
    """
    rows = []
    for machine in rates.machines:
        missing: dict[str, float | None] = {}
        share: float | None = 1.0
        for level in rates.totals(machine):
            local = level["misses"] / level["accesses"] if level["accesses"] else None
            share = share * local if share is not None and local is not None else None
            missing[level["level"]] = share
        rows.append({"machine": machine, "missing": missing, "memory": share})
    return rows

"""CPU ratios of a campaign's programs between every ordered pair of measured machines, beside what is trivial to say of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from statistics import median
from typing import Any

from convolver.convolution.block_times import BlockTimes
from convolver.convolution.cpu_ratio import ratio_interval
from convolver.convolution.system_time import ratio_with_system
from convolver.validating.campaign import Campaign, Condition, Job, Mode
from convolver.validating.statistics import HALVES, errors, half

ONE_FACTOR = "one factor"
"""The baseline that gives all programs of a pair of machines the median of their measured ratios."""


def whole_machines(campaign: Campaign) -> list[Condition]:
    """Return the conditions that are machines and no state of one: the base, and those measured elsewhere."""
    return [one for one in campaign.condition if one.profile or one.name == campaign.base_name]


def pair_rows(
    job: Job,
    mode: Mode,
    method: str,
    machines: Sequence[Condition],
    times: Mapping[str, BlockTimes],
    measured: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return one row for each ordered pair of these machines with times and a measurement of the job.

    ``predicted`` and ``measured`` are seconds on ``base`` over seconds on ``target``; ``low`` and ``high`` the ends of the 90 %
    interval, None where the times have none.
    """
    names = [one.name for one in machines if one.name in times and one.name in measured]
    rows = []
    for base, target in permutations(names, 2):
        first, second = times[base], times[target]
        predicted = first.ratio_to(second)
        if predicted is None:
            continue
        known = measured[base]["measured_seconds"] / measured[target]["measured_seconds"]
        ends = ratio_interval(first, second)
        systems = (first.system, second.system)
        low, high = (ratio_with_system(end, second.seconds, systems) for end in ends) if ends else (None, None)
        row: dict[str, Any] = {"program": job.program, "input": job.input, "origin": job.origin, "mode": mode, "method": method}
        row |= {"base": base, "target": target, "predicted": predicted, "low": low, "high": high, "measured": known}
        rows.append({**row, "error": predicted / known - 1})
    return rows


def pair_statistics(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return errors of the ratio by pair of machines, mode and method, of all programs, by origin, and of both halves.

    Each entry has ``base``, ``target``, ``mode``, ``method`` (those of the rows, and :data:`ONE_FACTOR`), ``origin``, ``count``,
    ``error`` and, for methods with intervals, ``coverage``. The factor of a group is the median of its own measured ratios, which
    no prediction knows.
    """
    found = []
    names = ["", *dict.fromkeys(row["origin"] for row in rows if row["origin"]), *HALVES]
    for pair in dict.fromkeys((row["base"], row["target"], row["mode"]) for row in rows):
        of_pair = [row for row in rows if (row["base"], row["target"], row["mode"]) == pair]
        for name in names:
            group = [row for row in of_pair if name in ("", row["origin"], half(row["program"]))]
            methods = {method: [row for row in group if row["method"] == method] for method in _methods(group)}
            methods[ONE_FACTOR] = _one_factor(next(iter(methods.values()), []))
            for method, chosen in methods.items():
                if chosen:
                    entry = dict(zip(("base", "target", "mode"), pair, strict=True))
                    found.append({**entry, "method": method, "origin": name or "all", **_summary(chosen)})
    return found


def _methods(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def _one_factor(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    factor = median(row["measured"] for row in rows) if rows else 0.0
    return [{**row, "predicted": factor, "low": None, "high": None, "error": factor / row["measured"] - 1} for row in rows]


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    of_ratio = errors(row["error"] for row in rows)
    inside = [row["low"] <= row["measured"] <= row["high"] for row in rows if row["low"] is not None]
    coverage = sum(inside) / len(inside) if inside else None
    return {"count": len(rows), "error": of_ratio._asdict() if of_ratio else None, "coverage": coverage}

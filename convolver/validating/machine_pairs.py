"""CPU ratios of a campaign's programs between every ordered pair of measured machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

from convolver.convolution.block_times import BlockTimes
from convolver.convolution.choice import compared
from convolver.validating.campaign import Campaign, Condition, Job, Mode


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
        if first.ratio_to(second) is None:
            continue
        predicted, ends = compared(first, second)
        known = measured[base]["measured_seconds"] / measured[target]["measured_seconds"]
        low, high = ends or (None, None)
        row: dict[str, Any] = {"program": job.program, "input": job.input, "origin": job.origin, "mode": mode, "method": method}
        row |= {"base": base, "target": target, "predicted": predicted, "low": low, "high": high, "measured": known}
        rows.append({**row, "error": predicted / known - 1})
    return rows

"""Which of several machines runs a program best, for its time or for its price: a ranking with what cannot be decided.

Machines are compared with the best one by the ratio of their times, whose common errors cancel (docs/theory.md, intervals): two
intervals may overlap and the ratio still decide.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from convolver.convolution.block_times import BlockTimes
from convolver.convolution.cpu_ratio import ratio_interval
from convolver.convolution.system_time import ratio_with_system
from convolver.convolution.uncertainty import interval_ends
from convolver.convolution.verdict import CANNOT_TELL, SLOWER, verdict
from convolver.errors import FormatError, UsageError
from convolver.machine.states import is_another

BEST = "best"
DEARER = "dearer"
HOUR = 3600.0


class RankedMachine(NamedTuple):
    """One machine of a ranking, by the time that a user waits for (:attr:`BlockTimes.awaited`).

    ``seconds`` and ``interval`` (90 %, s) are of one run; ``ratio`` is the best machine's time over this one's, with its 90 %
    ``ratio_interval`` (None where it is not known), and ``verdict`` what it says: best, slower or cannot tell.

    ``price`` is for an hour; ``cost`` and ``cost_interval`` are of one run in the same currency, ``cost_verdict`` compares with
    the cheapest run, and ``efficient`` says that no machine is both faster and cheaper (Pareto front). None without a price.

    ``processor_seconds`` of all threads and the ``cores`` that they had: None where one thread ran.
    """

    machine: str
    projected: bool
    seconds: float
    interval: tuple[float, float]
    ratio: float
    ratio_interval: tuple[float, float] | None
    verdict: str
    price: float | None = None
    cost: float | None = None
    cost_interval: tuple[float, float] | None = None
    cost_verdict: str | None = None
    efficient: bool | None = None
    processor_seconds: float | None = None
    cores: int | None = None


def load_prices(path: str | Path) -> dict[str, float]:
    """Return prices per hour by name of machine, from CSV with the columns machine and price_per_hour.

    Raises :class:`FormatError` for a file without these columns or without prices and for a price that is not a number above 0.
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets begin with a mark
            table = csv.DictReader((line for line in file if not line.startswith("#")), skipinitialspace=True)
            rows = list(table)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{path} cannot be read as prices ({error}); give CSV with machine,price_per_hour.") from error
    found: dict[str, float] = {}
    if not {"machine", "price_per_hour"} <= {*(table.fieldnames or ())}:
        raise FormatError(f"{path} has no columns machine and price_per_hour in its first line.")
    if not rows:
        raise FormatError(f"{path} has no prices below its first line.")
    for number, row in enumerate(rows, 2):
        try:
            price = float(row["price_per_hour"])
        except (TypeError, ValueError):
            price = math.nan
        if not (price > 0 and math.isfinite(price)):
            raise FormatError(f"{path}, row {number}: '{row['price_per_hour']}' is no price above 0.")
        found[row["machine"]] = price
    return found


def compared(best: BlockTimes, other: BlockTimes) -> tuple[float, tuple[float, float] | None]:
    """Return best time / other time, elapsed where several threads ran, else of the processor with system time; and its 90 %
    interval (None where the times have none)."""
    if best.elapsed is not None and other.elapsed is not None:
        return _elapsed_ratio(best.elapsed, other.elapsed)
    ratio, ends = best.ratio_to(other), ratio_interval(best, other)
    if ratio is None:
        raise UsageError(f"The program takes no time on '{other.machine}'; choose machines with other profiles.")
    if ends is None:
        return ratio, None
    low, high = (ratio_with_system(end, other.seconds, (best.system, other.system)) for end in ends)
    return ratio, (low, high)


def _elapsed_ratio(best: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[float, tuple[float, float] | None]:
    ratio = best["seconds"] / other["seconds"]
    if best["draws_seconds"] is None or other["draws_seconds"] is None:
        return ratio, None
    low, high = interval_ends(np.array(best["draws_seconds"]) / np.array(other["draws_seconds"]))
    return ratio, (min(float(low), ratio), max(float(high), ratio))


def choose(
    times: Sequence[BlockTimes], prices: Mapping[str, float] | None = None, measured: float | None = None
) -> list[RankedMachine]:
    """Return the machines by rising time.

    ``measured`` is the native time (s, elapsed where several threads ran) on the machine of the first of ``times``: others then
    take measured / ratio of the times. ``prices`` are for an hour, by name of machine; machines without a price have no cost.
    Raises :class:`UsageError` where no price is for one of the machines.
    """
    prices = prices or {}
    if prices and not prices.keys() & {one.machine for one in times}:
        raise UsageError(f"No price is for one of these machines: {', '.join(one.machine for one in times)}.")
    order = sorted(times, key=lambda one: one.awaited[0])
    found = []
    for one in order:
        seconds, low, high = one.awaited
        if measured is not None and one is not times[0]:
            ratio, ends = compared(times[0], one)
            seconds = measured / ratio
            low, high = (seconds, seconds) if ends is None else (measured / ends[1], measured / ends[0])
        elif measured is not None:
            seconds = low = high = measured
        ratio, ends = compared(order[0], one)
        words = BEST if one is order[0] else verdict(ends)
        projected = is_another(one.machine, bool(one.header.get("projected")))
        ranked = RankedMachine(one.machine, projected, seconds, (low, high), ratio, ends, words, prices.get(one.machine))
        if one.elapsed is not None:
            ranked = ranked._replace(processor_seconds=one.total[0], cores=one.elapsed["cores"])
        found.append(ranked)
    return _with_costs(found, {one.machine: one for one in order})


def _with_costs(choices: Sequence[RankedMachine], times: Mapping[str, BlockTimes]) -> list[RankedMachine]:
    """Return the choices with what a run costs on those that have a price."""
    costs = {one.machine: one.price * one.seconds / HOUR for one in choices if one.price is not None}
    if not costs:
        return list(choices)
    cheapest = min(costs, key=lambda name: costs[name])
    front = math.inf
    found = []
    for one in choices:  # by rising time: a machine is efficient if no faster one costs as little
        if one.price is None:
            found.append(one)
            continue
        cost = costs[one.machine]
        ends = (one.interval[0] * one.price / HOUR, one.interval[1] * one.price / HOUR)
        words = BEST if one.machine == cheapest else _dearer(times, cheapest, one, costs)
        found.append(one._replace(cost=cost, cost_interval=ends, cost_verdict=words, efficient=cost < front))
        front = min(front, cost)
    return found


def _dearer(times: Mapping[str, BlockTimes], cheapest: str, one: RankedMachine, costs: Mapping[str, float]) -> str:
    """Return whether a run surely costs more than on the cheapest machine."""
    ratio, ends = compared(times[cheapest], times[one.machine])
    if ends is None:
        return CANNOT_TELL
    price = costs[cheapest] / costs[one.machine] / ratio  # what prices alone make of the ratio of costs
    words = verdict((ends[0] * price, ends[1] * price))
    return DEARER if words == SLOWER else words


def rows(choices: Sequence[RankedMachine]) -> list[dict[str, Any]]:
    """Return the choices as rows of data, the best first."""
    return [one._asdict() for one in choices]

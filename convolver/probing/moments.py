"""One point of several probes of a machine, taken together.

The core's own cycles are the same at any moment: what a moment adds is a disturbance, so the quietest one counts. The last cache
and memory are shared with whatever else the machine, or its host, does at a moment, and a program that runs at some moment meets
its usual state: there the median of the moments counts, and their spread says how far a single one lies from it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from statistics import median
from typing import Any, TypeVar

from convolver.machine.core_figures import CoreFigure
from convolver.machine.maps import Point

STABLE_SPREAD = 0.05
"""A time is settled when it is known within this."""
CAPACITIES = (
    "window.",
    "front.targets",
    "front.code",
    "front.loop",
    "front.width",
    "front.entry",
    "front.fetch",
    "forward.pairs",
    "forward.named",
)
"""Figures that count entries or slots: a disturbed core, whose other thread has a part of them, shows too few."""
WITNESS = "witness.taken"
"""Figure that says whether another thread shared the core: the cycles of a taken branch, twice as many while it does."""
ALIKE = 1.15
"""Samples and moments count whose witness takes at most so many times the least of the run."""
NARROW = 0.1
"""Width of the interval, as a share of a number of entries, up to which that is known."""
_Item = TypeVar("_Item")
_NORMAL = 1.4826
"""A normal distribution's standard deviation over the median distance from its median."""


def quietest(seconds: Sequence[float]) -> tuple[float, float, bool]:
    """Return the least time, how far above it the second lies, relative to it, and whether these two agree."""
    best = sorted(seconds)[:2]
    spread = best[-1] / best[0] - 1
    return best[0], spread, spread < STABLE_SPREAD


def usual(seconds: Sequence[float]) -> tuple[float, float, bool]:
    """Return the median time, the deviation of a single moment from it, relative to it, and whether the median is settled.

    The deviation is robust: the median distance from the median, scaled to a standard deviation (of two, half their distance).
    """
    center = median(seconds)
    apart = median(abs(one - center) for one in seconds)
    spread = (apart if len(seconds) < 3 else _NORMAL * apart) / center
    return center, spread, spread / math.sqrt(len(seconds)) < STABLE_SPREAD


def alone_limit(looks: Iterable[float]) -> float:
    """Return the most cycles of a taken branch on a core that nothing shares, given those of a whole run; 0 without any."""
    ordered = sorted(looks)
    return ALIKE * ordered[len(ordered) // 100] if ordered else 0.0


def grouped(items: Iterable[_Item], key: Callable[[_Item], Any]) -> dict[Any, list[_Item]]:
    """Return the items of several moments that are of the same thing, by what ``key`` says it is."""
    groups: dict[Any, list[_Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def quiet_moments(moments: Iterable[Sequence[CoreFigure]], alone: float = math.inf) -> list[Sequence[CoreFigure]]:
    """Return the moments at which the core was not shared all the time: their taken branches take as many cycles as at any, and
    as ``alone``, the least that anything else saw.

    Moments of older probes, which did not look, count where there are no others.
    """
    moments = list(moments)
    looked = [(cycles, moment) for moment in moments if (cycles := taken_cycles(moment))]
    least = min([alone, *(cycles for cycles, _ in looked)])
    return [moment for cycles, moment in looked if cycles <= ALIKE * least] if looked else moments


def taken_cycles(figures: Iterable[CoreFigure]) -> float | None:
    """Return the cycles of a taken branch on the core alone, as far as a probe saw it; None where it did not look."""
    return next((figure.value for figure in figures if figure.name == WITNESS), None)


def quietest_figures(moments: Iterable[Sequence[CoreFigure]], alone: float = math.inf) -> tuple[CoreFigure, ...]:
    """Return each figure of a core as the quietest of :func:`quiet_moments` has it: the fewest cycles; of known numbers of
    entries the most. Empty where none is quiet."""
    figures = chain.from_iterable(quiet_moments(moments, alone))

    def entries(figure: CoreFigure) -> tuple[bool, float]:
        return figure.high - figure.low <= NARROW * figure.value, figure.value

    return tuple(
        max(group, key=entries) if name.startswith(CAPACITIES) else min(group, key=lambda figure: figure.value)
        for name, group in grouped(figures, lambda figure: figure.name).items()
    )


def merge_points(points: Sequence[Point], factors: Sequence[float], *, near: bool) -> Point:
    """Return one point of several probes as one; ``factors`` take each probe's clock to the fastest.

    Near points keep the quietest probe, at one clock; others the median of the probes' median samples. ``rounds_seconds`` then
    holds one time a probe.
    """
    if near:
        pairs = list(zip(points, factors, strict=True))
        centers = [point.seconds_per_reference * factor for point, factor in pairs]
        samples = [sample * factor for point, factor in pairs for sample in point.samples_seconds]
        seconds, spread, stable = quietest(centers)
    else:
        centers = [median(point.samples_seconds or (point.seconds_per_reference,)) for point in points]
        samples = [sample for point in points for sample in point.samples_seconds]
        seconds, spread, stable = usual(centers)
    one = len(points) == 1
    return Point(
        working_set_bytes=points[0].working_set_bytes,
        seconds_per_reference=seconds,
        samples_seconds=tuple(samples),
        references_per_sample=points[0].references_per_sample,
        spread=points[0].spread if one else round(spread, 5),
        stable=points[0].stable if one else stable,
        rounds_seconds=tuple(centers),
        rejected_samples=sum(point.rejected_samples for point in points),
    )

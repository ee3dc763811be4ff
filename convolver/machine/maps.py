"""MAPS curves: seconds per reference over the working set, and the plateau that each cache level makes in them.

A curve is what one probe kernel measured (Snavely et al., "Memory Access Pattern Signature"): its points hold a robust center and
every sample it came from. Between two points the curve is interpolated linearly in log(working set), log(seconds), where both a
cache's plateaus and the ramps between them are close to straight lines; outside of the measured range the nearest end is held and
the result is flagged as extrapolated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

import msgspec

from convolver.errors import PredictionError, SchemaError
from convolver.machine.hierarchy import Level

MEMORY = "memory"
"""Name of the level beyond the last cache level, in every lookup by level."""

_INSIDE = 0.7  # a working set above this share of a level already loses lines to conflicts and to page coloring
_BEYOND = 2.0  # a working set below this multiple of a level still finds a good part of its lines in it


class Point(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One measured working set of a curve.

    ``seconds_per_reference`` is the minimum over rounds of the rounds' 10th percentiles; ``rounds_seconds`` holds these, and
    ``samples_seconds`` all accepted samples of all rounds. ``spread`` is relative: the rounds' disagreement, or the half width of
    the confidence interval of the only round. ``stable`` is off where the measurement ended by its time limit.
    """

    working_set_bytes: int
    seconds_per_reference: float
    samples_seconds: tuple[float, ...] = ()
    references_per_sample: int = 0
    spread: float = 0.0
    stable: bool = True
    rounds_seconds: tuple[float, ...] = ()
    rejected_samples: int = 0


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one reference; ``extrapolated`` where no measured point supports it."""

    seconds_per_reference: float
    spread: float
    extrapolated: bool
    kernel: str = ""


class Curve(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one kernel measured, by working set.

    ``pattern`` is one of unit, stride, random, chase, or a pattern of one kernel alone (gather, sequential_chase, stream_hot);
    ``operation`` is load, store, copy or update; a reference is one load or one store instruction of ``width_bytes``. ``chains``
    counts independent pointer chases, ``stride_bytes`` is the distance of a strided kernel's references.
    ``beside`` is the kernel that the other threads run, where that is not the same.
    """

    kernel: str
    pattern: str
    operation: str
    points: tuple[Point, ...]
    width_bytes: int = 8
    stride_bytes: int = 0
    chains: int = 1
    threads: int = 1
    page_bytes: int = 4096
    beside: str = ""

    def at(self, working_set_bytes: float) -> Rate:
        """Return the rate at a working set: interpolated, or the nearest end's, flagged."""
        points = self.points
        if working_set_bytes <= points[0].working_set_bytes:
            return self._held(points[0], working_set_bytes < points[0].working_set_bytes)
        for left, right in pairwise(points):
            if working_set_bytes <= right.working_set_bytes:
                return self._between(left, right, working_set_bytes)
        return self._held(points[-1], True)

    def _held(self, point: Point, extrapolated: bool) -> Rate:
        return Rate(
            seconds_per_reference=point.seconds_per_reference,
            spread=point.spread,
            extrapolated=extrapolated,
            kernel=self.kernel,
        )

    def _between(self, left: Point, right: Point, working_set_bytes: float) -> Rate:
        share = math.log(working_set_bytes / left.working_set_bytes)
        share /= math.log(right.working_set_bytes / left.working_set_bytes)
        low, high = math.log(left.seconds_per_reference), math.log(right.seconds_per_reference)
        return Rate(
            seconds_per_reference=math.exp(low + share * (high - low)),
            spread=max(left.spread, right.spread),
            extrapolated=False,
            kernel=self.kernel,
        )


def check_curves(curves: Iterable[Curve]) -> tuple[Curve, ...]:
    """Return the curves with their points ordered by working set; raises :class:`SchemaError` for an impossible one."""
    return tuple(_check_curve(curve) for curve in curves)


def _check_curve(curve: Curve) -> Curve:
    points = sorted(curve.points, key=lambda point: point.working_set_bytes)
    if not points:
        raise SchemaError(f"the curve of '{curve.kernel}' has no point")
    if curve.width_bytes < 1 or curve.threads < 1 or curve.page_bytes < 1 or curve.chains < 1:
        raise SchemaError(f"the curve of '{curve.kernel}' has a width, chains, threads or page size below 1")
    for left, right in pairwise(points):
        if left.working_set_bytes == right.working_set_bytes:
            raise SchemaError(f"the curve of '{curve.kernel}' has two points at {left.working_set_bytes} bytes")
    for point in points:
        if point.working_set_bytes < 1 or not 0 < point.seconds_per_reference < math.inf:
            raise SchemaError(f"the curve of '{curve.kernel}' has a point without a positive working set and time")
    return msgspec.structs.replace(curve, points=tuple(points))


def working_set_range(levels: Sequence[Level], name: str) -> tuple[float, float]:
    """Return the working sets, in bytes, whose references the level ``name`` (or :data:`MEMORY`) serves for the most part.

    A level's range starts at twice the previous level or at the geometric middle of the two, whichever is larger, and ends at
    0.7 of its own size; memory's starts at twice the last level. Raises :class:`PredictionError` for an unknown level.
    """
    if name == MEMORY:
        return _BEYOND * levels[-1].size_bytes, math.inf
    names = [level.level for level in levels]
    if name not in names:
        raise PredictionError(f"The machine has no cache level '{name}': its levels are {', '.join(names)} and {MEMORY}.")
    index = names.index(name)
    high = _INSIDE * levels[index].size_bytes
    if index == 0:
        return 1.0, high
    inner = levels[index - 1].size_bytes
    low = max(_BEYOND * inner, math.sqrt(inner * levels[index].size_bytes))
    # Levels closer to each other than a factor of three have no interior: the least bad place is the end of the outer one.
    return min(low, high), high


def plateau(curve: Curve, levels: Sequence[Level], name: str) -> Rate:
    """Return the rate of the level ``name`` on a curve: the median of the points well inside it.

    Where no point lies inside, the curve is evaluated at the (geometric) middle of the range; memory without a point beyond the
    last level is the largest point, flagged as extrapolated.
    """
    low, high = working_set_range(levels, name)
    inside = [point for point in curve.points if low <= point.working_set_bytes <= high]
    if not inside:
        return curve.at(low if high == math.inf else math.sqrt(low * high))
    if name == MEMORY:
        # Reuse across passes still hits in a last level twice exceeded, so only the far end counts.
        last = 0.99 * inside[-1].working_set_bytes / 2  # sizes of projected machines are rounded
        inside = [point for point in inside if point.working_set_bytes >= last]
    return Rate(
        seconds_per_reference=median(point.seconds_per_reference for point in inside),
        spread=max(point.spread for point in inside),
        extrapolated=False,
        kernel=curve.kernel,
    )

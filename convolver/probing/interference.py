"""What other CPUs do to this one: curves beside streams, CPUs that share its core, lines that leave the last cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from convolver.machine.hierarchy import Level
from convolver.machine.maps import Curve
from convolver.machine.profile import Contention, DetectedLevel, Neighbour, Residency
from convolver.machine.this_machine import sibling_cpus
from convolver.probing.curves import curves, summaries
from convolver.probing.detect import detect_levels, effective_hierarchy
from convolver.probing.plan import LOADED, SECOND_BUSY, Effort, Item, Plan, working_sets
from convolver.probing.runner import Kernel, run_plan, tell
from convolver.probing.samples import Line
from convolver.progress import SILENT, Progress

_ALONE = Item("instruction", 0)
_MOST_OTHERS = 16
"""Other CPUs to look at; siblings that the kernel reports come first."""
_RISE = 0.5
"""A line counts as gone when a load takes this share of the way from the last cache to memory."""
_ALIKE = 1.4
"""Dependent loads without a pause take so many times as long as on their curve at most, or the moment was another one."""
_MOMENTS = 4
"""Times that residency is probed, at most, until a moment is undisturbed."""


def other_cpus(cpu: int, allowed: Sequence[int], progress: Progress = SILENT) -> tuple[Neighbour, ...]:
    """Return for each other CPU how much slower instructions run on ``cpu`` while it is busy."""
    reported = sibling_cpus(cpu)
    others = sorted((one for one in allowed if one != cpu), key=lambda one: (one not in reported, one))
    found = []
    for other in others[:_MOST_OTHERS]:
        plan = Plan(name="other", items=(_ALONE, *SECOND_BUSY), rounds=2, most_rounds=4, budget_seconds=0.5, other=other)
        by_key = summaries(run_plan(plan, cpu, progress))
        alone, together = by_key.get(("instruction", 1, 0)), by_key.get(("instruction", 2, 0))
        if alone and together:
            slowdown = round(together.seconds / alone.seconds, 3)
            found.append(Neighbour(cpu=other, slowdown=slowdown, reported_sibling=other in reported))
    return tuple(found)


def loaded_curves(
    plan: Plan, cpu: int, kernels: Mapping[str, Kernel], page_bytes: int, progress: Progress, partial: Path | None
) -> tuple[Curve, ...]:
    """Measure a plan whose other threads stream, and return its curves."""
    plan = plan.restricted(name for name, kernel in kernels.items() if kernel.supported)
    own = partial.with_name(f"{partial.name}.loaded") if partial else None
    found = beside(run_plan(plan, cpu, progress, own), plan, kernels, page_bytes)
    if own:
        own.unlink(missing_ok=True)
    return found


def beside(lines: Sequence[Line], plan: Plan, kernels: Mapping[str, Kernel], page_bytes: int) -> tuple[Curve, ...]:
    """Return the curves of what was measured while the plan's other threads streamed."""
    return tuple(msgspec.structs.replace(curve, beside=plan.beside) for curve in curves(summaries(lines), kernels, page_bytes))


def busy_hierarchies(maps: Sequence[Curve], reported: Sequence[Level]) -> tuple[Contention, ...]:
    """Return the caches that one of several busy CPUs was seen to have, for each number of them."""
    found = []
    for curve in maps:
        if curve.kernel == "chase" and curve.threads > 1 and reported:
            detected = detect_levels(curve, len(reported))
            hierarchy = effective_hierarchy(reported, detected)
            found.append(Contention(threads=curve.threads, beside=curve.beside, hierarchy=hierarchy))
    return tuple(found)


def residency(cpu: int, inner: Level, last: DetectedLevel, chase: Curve) -> Residency | None:
    """Measure how long a line that is left alone survives in the last cache; None where that cache cannot be seen, or other work
    pushed lines out at once each time.

    ``inner`` is the level before it, ``chase`` the curve of dependent loads. Raises :class:`ProbeError`.
    """
    size = max(min(round((inner.size_bytes * last.size_bytes) ** 0.5), last.low_bytes), 2 * inner.size_bytes)
    for _ in range(_MOMENTS):
        points = tell("residency", "--residency", "--cpu", str(cpu), "--bytes", str(size // 64 * 64))
        found = survival([(point["pause_seconds"], point["seconds_per_line"]) for point in points], chase, size)
        if found is not None:
            return found
    return None


def survival(pairs: Sequence[tuple[float, float]], chase: Curve, size_bytes: int) -> Residency | None:
    """Return the longest pause after which most lines are still there: the last before half of the rise to memory's latency; None
    where they are gone without a pause, though the curve of dependent loads found them."""
    near, memory = chase.at(size_bytes).seconds_per_reference, chase.points[-1].seconds_per_reference
    if not pairs or pairs[0][0] > 0 or pairs[0][1] >= min(0.8 * memory, _ALIKE * near):
        return None
    limit = pairs[0][1] + _RISE * (memory - pairs[0][1])
    survived = 0.0
    for pause, seconds in pairs:
        if seconds > limit:
            return Residency(seconds=survived, at_least=False, working_set_bytes=size_bytes, points=tuple(pairs))
        survived = pause
    return Residency(seconds=survived, at_least=True, working_set_bytes=size_bytes, points=tuple(pairs))


def loaded_plan(plan: Plan) -> Plan:
    """Return the plan of loaded latency beside another plan: some kernels while the other CPUs copy memory."""
    sizes = working_sets(plan.largest_bytes // 4, 1)
    return Plan(
        name="loaded",
        items=tuple(Item(kernel, size, count) for count in plan.loaded for size in sizes for kernel in LOADED),
        rounds=2,
        most_rounds=3,
        budget_seconds=10.0,
        pages=plan.pages,
        beside="copy",
        effort=Effort(limit_seconds=0.03, warmup_seconds=0.03),
        near_bytes=plan.near_bytes,
    )

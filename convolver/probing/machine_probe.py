"""Measures this machine: plan -> samples -> machine profile."""

from __future__ import annotations

import datetime
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from convolver.errors import HierarchyError, MachineError, NoiseWarning, ProbeError, UsageError
from convolver.machine.catalog import host_name
from convolver.machine.hierarchy import Level, resized
from convolver.machine.maps import Curve
from convolver.machine.noise import is_disturbed, unsettled_share
from convolver.machine.profile import DetectedLevel, MachineProfile, Neighbour, Residency
from convolver.machine.this_machine import describe_cpu, read_hierarchy
from convolver.probing.core_probe import measure_core
from convolver.probing.curves import curves, throughputs
from convolver.probing.curves import summaries as summaries_of
from convolver.probing.detect import detect_all, effective_hierarchy
from convolver.probing.interference import busy_hierarchies, loaded_curves, loaded_plan, neighbours, residency
from convolver.probing.kernel import measure_kernel
from convolver.probing.plan import (
    FULL_LARGEST_BYTES,
    LOADED,
    QUICK_LARGEST_BYTES,
    SMALLEST_BYTES,
    Plan,
    full_plan,
    largest_working_set,
    quick_plan,
    working_sets,
)
from convolver.probing.runner import Kernel, list_kernels, run_plan
from convolver.probing.samples import Line, Summary
from convolver.progress import SILENT, Progress

_HUGE_PAGE_BYTES = 2 << 20


def available_bytes() -> int:
    """Return the memory that can be used without swapping, within the limits of this control group."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        available = int(fields["MemAvailable"].split()[0]) * 1024
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        return min(available, int(limit)) if limit.isdigit() else available
    except (OSError, KeyError, ValueError):
        return available


def default_cpu() -> int:
    """Return the last CPU this process may use: the first ones serve most interrupts."""
    return max(os.sched_getaffinity(0))


def _reported(cpu: int) -> tuple[Level, ...]:
    try:
        return read_hierarchy(cpu)
    except (MachineError, HierarchyError):
        return ()  # some containers hide the caches; detection must do


def _page_bytes(pages: str, described: dict[str, Any]) -> int:
    huge = pages in ("thp", "2m") or (pages == "default" and described["transparent_huge_pages"] == "always")
    return _HUGE_PAGE_BYTES if huge else int(described["page_bytes"])


def _neighbour_slowdown(summaries: dict[tuple[str, int, int], Summary]) -> float | None:
    """Return how much slower instructions run while another CPU is busy: 1 for a core of its own, 1.3 to 2 for a shared one."""
    alone, together = summaries.get(("instruction", 1, 0)), summaries.get(("instruction", 2, 0))
    return round(together.seconds / alone.seconds, 3) if alone and together else None


def geometry(reported: tuple[Level, ...], detected: tuple[DetectedLevel, ...]) -> tuple[Level, ...]:
    """Return the levels to simulate, as reported or as the curves show them; raises :class:`ProbeError` for neither."""
    if reported:
        return effective_hierarchy(reported, detected)
    if not detected:
        raise ProbeError("The kernel reports no caches and none was detected; measure more working sets with --full.")
    # Eight ways of 64-byte lines are a guess; capacities matter far more to hit rates than associativity.
    return tuple(resized(Level(level=seen.level, size_bytes=seen.size_bytes, ways=8), seen.size_bytes) for seen in detected)


def _patience_seconds(plan: Plan, lines: Sequence[Line]) -> float:
    """Return how long the probe went on measuring behind its budget because the machine was disturbed."""
    if not plan.patience_seconds or len(lines) <= plan.rounds * len(plan.items):
        return 0.0
    return round(max(sum(line.elapsed_seconds for line in lines) - plan.budget_seconds, 0.0), 2)


def _noise(lines: Sequence[Line], summaries: dict[tuple[str, int, int], Summary]) -> dict[str, Any]:
    accepted = sum(len(line.samples_seconds) for line in lines)
    rejected = sum(line.rejected for line in lines)
    cycles = sorted(line.cycle_seconds for line in lines)
    return {
        "rejected_share": round(rejected / (accepted + rejected), 4),
        "unstable_share": round(unsettled_share(summaries.values()), 4),
        "median_spread": round(median(summary.spread for summary in summaries.values()), 5),
        "cycle_seconds_least": cycles[0],
        "cycle_seconds_median": median(cycles),
        "neighbour_slowdown": _neighbour_slowdown(summaries),
    }


def _provenance(
    plan: Plan, cpu: int, compiler: str, started: datetime.datetime, load_before: Sequence[float], noise: dict[str, Any]
) -> dict[str, Any]:
    return {
        "kind": "measured",
        "measured": True,
        "created": started.isoformat(timespec="seconds"),
        "duration_seconds": round((datetime.datetime.now(datetime.UTC) - started).total_seconds(), 2),
        "host": host_name(),
        "cpu": cpu,
        "compiler": compiler,
        "plan": plan.name,
        "plan_id": plan.id,
        "rounds": plan.rounds,
        "most_rounds": plan.most_rounds,
        "pages": plan.pages,
        "effort": msgspec.to_builtins(plan.effort),
        "load_before": list(load_before),
        "load_after": list(os.getloadavg()),
        "noise": noise,
    }


def _huge_curves(
    plan: Plan, cpu: int, kernels: dict[str, Kernel], page_bytes: int, progress: Progress
) -> tuple[tuple[Curve, ...], str]:
    """Return the curves on huge pages, and why there are none where the plan asks for them."""
    if not plan.huge or page_bytes == _HUGE_PAGE_BYTES:
        return (), ""
    try:
        lines = run_plan(plan.on_huge_pages(), cpu, progress)
        return curves(summaries_of(lines), kernels, _HUGE_PAGE_BYTES), ""
    except ProbeError as error:
        return (), f"Memory's latency and a page walk's are told apart by small pages alone: {error}"


class _Around(NamedTuple):
    """What other CPUs do to this one."""

    maps: tuple[Curve, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    residency: Residency | None = None


def _surroundings(
    plan: Plan,
    cpu: int,
    kernels: dict[str, Kernel],
    maps: Sequence[Curve],
    hierarchy: Sequence[Level],
    detected: Sequence[DetectedLevel],
    progress: Progress,
    partial: Path | None,
) -> _Around:
    """Measure what the plan asks for beyond its points."""
    allowed = sorted(os.sched_getaffinity(0))
    loaded: tuple[Curve, ...] = ()
    if plan.loaded:
        sizes = working_sets(plan.largest_bytes // 4, 1)
        page_bytes = _page_bytes(plan.pages, describe_cpu(cpu))
        busy = loaded_plan(sizes, LOADED, plan.loaded, plan.pages)
        busy = msgspec.structs.replace(busy, near_bytes=plan.near_bytes)
        loaded = loaded_curves(busy, cpu, kernels, page_bytes, progress, partial)
    if not plan.surroundings:
        return _Around(loaded)
    chase = [curve for curve in maps if curve.kernel == "chase" and curve.threads == 1]
    lives = None
    if chase and len(detected) == len(hierarchy) > 1:
        lives = residency(cpu, hierarchy[-2], detected[-1], chase[0].points[-1].seconds_per_reference)
    return _Around(loaded, neighbours(cpu, allowed, progress) if len(allowed) > 1 else (), lives)


def choose_plan(
    *,
    full: bool = False,
    cpu: int | None = None,
    pages: str = "default",
    threads: Sequence[int] | None = None,
    largest_bytes: int | None = None,
) -> Plan:
    """Return the quick or the full plan with working sets that fit this machine, or up to ``largest_bytes``.

    ``threads`` are the numbers of CPUs for which the full plan has curves (default: one, and all).

    Raises :class:`UsageError` when there are fewer CPUs than threads or the working sets do not fit into memory.
    """
    available, cpus = available_bytes(), len(os.sched_getaffinity(0))
    threads = threads or ((1, cpus) if full and cpus > 1 else (1,))
    if max(threads) > cpus:
        raise UsageError(f"{max(threads)} threads need as many CPUs; this process may use {cpus}.")
    if max(threads) > 1 and not full:
        raise UsageError("Curves of several threads belong to the full plan; add --full.")
    if largest_bytes is not None and not SMALLEST_BYTES <= largest_bytes <= available // 2:
        raise UsageError(f"Working sets can have {SMALLEST_BYTES} to {available // 2} bytes here, not {largest_bytes}.")
    cap = FULL_LARGEST_BYTES if full else QUICK_LARGEST_BYTES
    reported = _reported(default_cpu() if cpu is None else cpu)
    largest = largest_bytes or largest_working_set(reported, available, cap)
    plan = full_plan(largest, pages=pages, threads=threads, cpus=cpus) if full else quick_plan(largest, pages=pages, cpus=cpus)
    return msgspec.structs.replace(plan, near_bytes=near_bytes(reported))


def near_bytes(levels: Sequence[Level]) -> int:
    """Return the largest working set in caches of the core's clock: most of the level before the last, which cores share."""
    return levels[-2].size_bytes * 3 // 4 if len(levels) > 1 else 0


def probe(
    plan: Plan | None = None, *, cpu: int | None = None, progress: Progress = SILENT, partial: Path | None = None
) -> MachineProfile:
    """Measure this machine and return its profile; the default plan is the quick one, about ten seconds.

    ``cpu`` is the CPU to measure on (default: the last one allowed). ``partial`` names a file in which an interrupted run keeps
    what it measured and from which the next one resumes; it is deleted at the end. A disturbed machine is measured for longer
    (:class:`Plan`). Raises :class:`ToolNotFoundError` when the
    probe is not built, :class:`ProbeError` when it fails; warns with :class:`NoiseWarning` on a busy machine.
    """
    chosen = default_cpu() if cpu is None else cpu
    kernels, compiler = list_kernels()
    reported = _reported(chosen)
    plan = plan or choose_plan(cpu=cpu)
    plan = plan.restricted(name for name, kernel in kernels.items() if kernel.supported)
    before, started = os.getloadavg(), datetime.datetime.now(datetime.UTC)
    lines = run_plan(plan, chosen, progress, partial)
    summaries = summaries_of(lines)
    described = describe_cpu(chosen)
    page_bytes = _page_bytes(plan.pages, described)
    maps = curves(summaries, kernels, page_bytes)
    huge_maps, without_huge = _huge_curves(plan, chosen, kernels, page_bytes, progress)
    detected = detect_all(maps, len(reported) or 3)
    noise = {**_noise(lines, summaries), "patience_seconds": _patience_seconds(plan, lines)}
    hierarchy = geometry(reported, detected)
    around = _surroundings(plan, chosen, kernels, maps, hierarchy, detected, progress, partial)
    maps += around.maps
    profile = MachineProfile(
        name=host_name(),
        hierarchy=hierarchy,
        hierarchy_reported=reported if hierarchy != reported else (),
        detected=detected,
        cpu={**described, "measured_hertz": round(1 / noise["cycle_seconds_least"], -6)},
        maps=maps,
        huge_maps=huge_maps,
        floating_point=throughputs(summaries, kernels),
        core=measure_core(chosen, plan.pages, progress) if plan.core else (),
        kernel=measure_kernel(chosen, progress) if plan.core else (),
        neighbours=around.neighbours,
        residency=around.residency,
        contention=busy_hierarchies(maps, reported),
        provenance={
            **_provenance(plan, chosen, compiler, started, before, noise),
            **({"without_huge_pages": without_huge} if without_huge else {}),
        },
    )
    if partial:
        partial.unlink(missing_ok=True)
    if is_disturbed(share := noise["unstable_share"]):
        warnings.warn(
            f"{share:.0%} of the points did not settle (load {before[0]:.1f}): probe again on a quiet machine.",
            NoiseWarning,
            stacklevel=2,
        )
    return profile

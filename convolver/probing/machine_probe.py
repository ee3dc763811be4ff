"""Measures this machine: plan -> samples -> machine profile."""

from __future__ import annotations

import datetime
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from convolver.errors import HierarchyError, MachineError, NoiseWarning, ProbeError, ProbeKilledError, UsageError
from convolver.machine.catalog import host_name
from convolver.machine.core_figures import CoreFigure, MixedKind
from convolver.machine.hierarchy import Level, resized
from convolver.machine.kernel_costs import KernelCost
from convolver.machine.maps import Curve
from convolver.machine.profile import DetectedLevel, MachineProfile, Neighbour, Residency
from convolver.machine.profile_check import is_disturbed, unsettled_share
from convolver.machine.this_machine import describe_cpu, read_hierarchy
from convolver.probing.core_probe import measure_core
from convolver.probing.curves import curves, throughputs
from convolver.probing.curves import summaries as summaries_of
from convolver.probing.detect import detect_all, effective_hierarchy
from convolver.probing.interference import busy_hierarchies, loaded_curves, loaded_plan, other_cpus, residency
from convolver.probing.kernel import kernel_costs, kernel_samples
from convolver.probing.moments import quiet_moments, quietest_figures
from convolver.probing.plan import (
    FULL_LARGEST_BYTES,
    QUICK_LARGEST_BYTES,
    SMALLEST_BYTES,
    Plan,
    full_plan,
    largest_working_set,
    quick_plan,
)
from convolver.probing.port_probe import least_taken, port_figures, port_samples
from convolver.probing.runner import Kernel, list_kernels, run_plan
from convolver.probing.samples import Line, Summary
from convolver.progress import SILENT, Progress
from convolver.units import format_share

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


def page_bytes_of(pages: str, described: dict[str, Any]) -> int:
    """Return how large the pages of a plan's working sets are on a machine."""
    huge = pages in ("thp", "2m") or (pages == "default" and described["transparent_huge_pages"] == "always")
    return _HUGE_PAGE_BYTES if huge else int(described["page_bytes"])


def _busy_slowdown(summaries: dict[tuple[str, int, int], Summary]) -> float | None:
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
    """Return how long the probe went on measuring beyond its budget because the machine was disturbed."""
    if not plan.patience_seconds or len(lines) <= plan.rounds * len(plan.items):
        return 0.0
    return round(max(sum(line.elapsed_seconds for line in lines) - plan.budget_seconds, 0.0), 2)


def _noise(lines: Sequence[Line], summaries: dict[tuple[str, int, int], Summary]) -> dict[str, Any]:
    accepted = sum(len(line.samples_seconds) for line in lines)
    rejected = sum(line.rejected for line in lines)
    alone = [line for line in lines if line.threads == 1] or lines
    return {
        "rejected_share": round(rejected / (accepted + rejected), 4),
        "unstable_share": round(unsettled_share(summaries.values()), 4),
        "median_spread": round(median(summary.spread for summary in summaries.values()), 5),
        "cycle_seconds_least": min(line.cycle_seconds for line in lines),
        "cycle_seconds_median": median(median(line.clocks_seconds or (line.cycle_seconds,)) for line in alone),
        "neighbour_slowdown": _busy_slowdown(summaries),
    }


class Measured(NamedTuple):
    """What was measured on a machine and read of its system: all that a profile is made from.

    ``lines`` of the plan, ``huge_lines`` of the same on huge pages (or ``without_huge``, why there are none), ``core`` and
    ``kernel``; ``described`` and ``reported`` as :mod:`convolver.machine.this_machine` reads them; loads of the last minutes.
    """

    plan: Plan
    cpu: int
    kernels: dict[str, Kernel]
    compiler: str
    host: str
    described: dict[str, Any]
    reported: tuple[Level, ...]
    lines: list[Line]
    huge_lines: list[Line]
    without_huge: str
    core: tuple[CoreFigure, ...]
    ports: tuple[MixedKind, ...]
    kernel: tuple[KernelCost, ...]
    started: datetime.datetime
    duration_seconds: float
    load_before: tuple[float, ...]
    load_after: tuple[float, ...]


def _provenance(measured: Measured, noise: dict[str, Any]) -> dict[str, Any]:
    plan = measured.plan
    known = {
        "kind": "measured",
        "measured": True,
        "created": measured.started.isoformat(timespec="seconds"),
        "duration_seconds": round(measured.duration_seconds, 2),
        "host": measured.host,
        "cpu": measured.cpu,
        "compiler": measured.compiler,
        "plan": plan.name,
        "plan_id": plan.id,
        "rounds": plan.rounds,
        "most_rounds": plan.most_rounds,
        "pages": plan.pages,
        "effort": msgspec.to_builtins(plan.effort),
        "load_before": list(measured.load_before),
        "load_after": list(measured.load_after),
        "noise": noise,
    }
    return {**known, **({"without_huge_pages": measured.without_huge} if measured.without_huge else {})}


WITHOUT_HUGE = "Memory's latency and a page walk's are distinguished by small pages alone: "


def _huge_lines(plan: Plan, cpu: int, page_bytes: int, progress: Progress) -> tuple[list[Line], str]:
    """Return what was measured on huge pages, and why there is nothing where the plan asks for it."""
    if not plan.huge or page_bytes == _HUGE_PAGE_BYTES:
        return [], ""
    try:
        return run_plan(plan.on_huge_pages(), cpu, progress), ""
    except ProbeKilledError:
        raise
    except ProbeError as error:
        return [], f"{WITHOUT_HUGE}{error}"


class Around(NamedTuple):
    """What other CPUs do to this one."""

    maps: tuple[Curve, ...] = ()
    other_cpus: tuple[Neighbour, ...] = ()
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
) -> Around:
    """Measure what the plan asks for beyond its points."""
    allowed = sorted(os.sched_getaffinity(0))
    loaded: tuple[Curve, ...] = ()
    if plan.loaded:
        page_bytes = page_bytes_of(plan.pages, describe_cpu(cpu))
        loaded = loaded_curves(loaded_plan(plan), cpu, kernels, page_bytes, progress, partial)
    if not plan.surroundings:
        return Around(loaded)
    chase = [curve for curve in maps if curve.kernel == "chase" and curve.threads == 1]
    lives = None
    if chase and len(detected) == len(hierarchy) > 1:
        lives = residency(cpu, hierarchy[-2], detected[-1], chase[0])
    return Around(loaded, other_cpus(cpu, allowed, progress) if len(allowed) > 1 else (), lives)


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

    def core_now() -> tuple[CoreFigure, ...]:
        return measure_core(chosen, plan.pages, progress) if plan.core else ()

    def ports_now() -> list[dict[str, Any]]:
        return port_samples(chosen, progress) if plan.surroundings else []

    def kernel_now() -> list[dict[str, Any]]:
        return kernel_samples(chosen, progress) if plan.core else []

    between = plan.surroundings and plan.rounds > 1  # a full probe looks at the core and the kernel between its parts, too
    core = [core_now()]
    lines = run_plan(plan, chosen, progress, partial)
    kernel = kernel_now()
    if between:
        core.append(core_now())
    mixes = [ports_now()]
    described = describe_cpu(chosen)
    huge, without_huge = _huge_lines(plan, chosen, page_bytes_of(plan.pages, described), progress)
    if between:
        core.append(core_now())
        kernel += kernel_now()
    mixes.append(ports_now())
    core.append(core_now())
    mixes.append(ports_now())
    alone = least_taken(core, mixes)
    if plan.surroundings and not quiet_moments(core, alone):
        core.append(core_now())
    figures, ports = quietest_figures(core, alone), port_figures(mixes, alone)
    seconds, after = (datetime.datetime.now(datetime.UTC) - started).total_seconds(), os.getloadavg()
    about = (plan, chosen, kernels, compiler, host_name(), described, reported)
    measured = Measured(*about, lines, huge, without_huge, figures, ports, kernel_costs(kernel), started, seconds, before, after)
    profile = profile_of(
        measured, lambda maps, levels, seen: _surroundings(plan, chosen, kernels, maps, levels, seen, progress, partial)
    )
    if partial:
        partial.unlink(missing_ok=True)
    return profile


def profile_of(
    measured: Measured, surroundings: Callable[[Sequence[Curve], Sequence[Level], Sequence[DetectedLevel]], Around] | None = None
) -> MachineProfile:
    """Return the profile of a machine from its measurements; ``surroundings`` measures what depends on its caches.

    Warns with :class:`NoiseWarning` where they were disturbed; raises :class:`ProbeError` where no cache is known.
    """
    plan, kernels, reported = measured.plan, measured.kernels, measured.reported
    summaries = summaries_of(measured.lines)
    page_bytes = page_bytes_of(plan.pages, measured.described)
    maps = curves(summaries, kernels, page_bytes)
    detected = detect_all(maps, len(reported) or 3)
    noise = {**_noise(measured.lines, summaries), "patience_seconds": _patience_seconds(plan, measured.lines)}
    hierarchy = geometry(reported, detected)
    around = Around() if surroundings is None else surroundings(maps, hierarchy, detected)
    maps += around.maps
    huge = curves(summaries_of(measured.huge_lines), kernels, _HUGE_PAGE_BYTES) if measured.huge_lines else ()
    profile = MachineProfile(
        name=measured.host,
        hierarchy=hierarchy,
        hierarchy_reported=reported if hierarchy != reported else (),
        detected=detected,
        cpu={**measured.described, "measured_hertz": round(1 / noise["cycle_seconds_least"], -6)},
        maps=maps,
        huge_maps=huge,
        floating_point=throughputs(summaries, kernels),
        core=measured.core,
        core_ports=measured.ports,
        kernel=measured.kernel,
        neighbours=around.other_cpus,
        residency=around.residency,
        contention=busy_hierarchies(maps, reported),
        provenance=_provenance(measured, noise),
    )
    if is_disturbed(share := noise["unstable_share"]):
        warnings.warn(
            f"{format_share(share)} of the points did not settle (load {measured.load_before[0]:.1f}): "
            "probe again on a quiet machine.",
            NoiseWarning,
            stacklevel=2,
        )
    return profile

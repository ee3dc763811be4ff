"""Several probes of one machine -> one profile of its usual state."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median
from typing import Any

import msgspec

from convolver.errors import UsageError
from convolver.machine.hierarchy import Level
from convolver.machine.kernel_costs import KernelCost
from convolver.machine.maps import Curve, Point
from convolver.machine.profile import MachineProfile, Neighbour, Residency, Throughput
from convolver.machine.profile_check import unsettled_share
from convolver.probing.detect import detect_all
from convolver.probing.interference import busy_hierarchies
from convolver.probing.machine_probe import geometry, near_bytes
from convolver.probing.moments import grouped, merge_points, quietest, quietest_figures


def merge(profiles: Sequence[MachineProfile]) -> MachineProfile:
    """Return the machine of several probes, made at different moments, as one profile without a calibration.

    Registers and private caches are taken from the quietest probe, at the fastest clock of all; the last cache, memory and the
    kernel's costs are the median of the probes (:mod:`convolver.probing.moments`), with the spread between them. Name, settings
    and network are those of the first profile that has them.

    Raises :class:`UsageError` where the profiles are fewer than two, projected or of different machines, pages or levels.
    """
    _check(profiles)
    first = profiles[0]
    reported = _reported(first)
    best = min(_clock(profile, "cycle_seconds_least") for profile in profiles)
    factors = [best / clock if (clock := _clock(profile, "cycle_seconds_least")) else 1.0 for profile in profiles]
    maps, huge_maps = (
        _curves([(curve, factor) for own, factor in zip(kind, factors, strict=True) for curve in own], near_bytes(reported))
        for kind in ([profile.maps for profile in profiles], [profile.huge_maps for profile in profiles])
    )
    floating_point = _throughputs(profiles, factors)
    detected = detect_all(maps, len(reported) or 3)
    hierarchy = geometry(reported, detected)
    return msgspec.structs.replace(
        first,
        hierarchy=hierarchy,
        hierarchy_reported=reported if hierarchy != reported else (),
        detected=detected,
        cpu={**first.cpu, **({"measured_hertz": round(1 / best, -6)} if best else {})},
        maps=maps,
        huge_maps=huge_maps,
        floating_point=floating_point,
        core=quietest_figures(profile.core for profile in profiles),
        core_ports=next((profile.core_ports for profile in profiles if profile.core_ports), ()),
        kernel=_kernel(profiles),
        neighbours=_other_cpus(profiles),
        residency=_residency(profiles),
        contention=busy_hierarchies(maps, reported),
        calibration=None,
        network=next((profile.network for profile in profiles if profile.network), None),
        provenance=_provenance(profiles, maps, floating_point),
    )


def _reported(profile: MachineProfile) -> tuple[Level, ...]:
    return profile.hierarchy_reported or profile.hierarchy


def _clock(profile: MachineProfile, name: str) -> float:
    return float(profile.provenance.get("noise", {}).get(name, 0.0))


def _check(profiles: Sequence[MachineProfile]) -> None:
    if len(profiles) < 2:
        raise UsageError("One profile is merged with nothing; give at least two probes of the machine.")

    def kind(profile: MachineProfile) -> tuple[object, ...]:
        levels = [(level.level, level.line_bytes) for level in _reported(profile)]
        inner = [level.size_bytes for level in _reported(profile)[:-1]]
        return profile.cpu.get("model"), levels, inner, profile.provenance.get("pages", "default")

    for profile in profiles:
        if profile.projected or not profile.maps:
            raise UsageError(f"'{profile.name}' was not measured; only what `convolver probe` wrote can be merged.")
        if kind(profile) != kind(profiles[0]):
            raise UsageError(
                f"'{profile.name}' ({profile.id[:12]}) differs in processor, levels or pages from '{profiles[0].name}'; "
                "only probes of one machine can be merged."
            )


def _curves(shaped: Sequence[tuple[Curve, float]], near: int) -> tuple[Curve, ...]:
    """Return every curve that some profile has, point by point of those that have it, given all with their profiles' factors."""
    found = []
    for group in grouped(shaped, lambda pair: msgspec.structs.replace(pair[0], points=())).values():
        points = grouped(
            ((point, factor) for curve, factor in group for point in curve.points), lambda pair: pair[0].working_set_bytes
        )
        merged = []
        for size in sorted(points):
            ones, clocks = zip(*points[size], strict=True)
            # Busy CPUs have a clock of their own, which profiles do not keep.
            merged.append(merge_points(ones, clocks if group[0][0].threads == 1 else [1.0] * len(ones), near=size <= near))
        found.append(msgspec.structs.replace(group[0][0], points=tuple(merged)))
    return tuple(found)


def _throughputs(profiles: Sequence[MachineProfile], factors: Sequence[float]) -> tuple[Throughput, ...]:
    steadied = [
        msgspec.structs.replace(
            entry,
            seconds=entry.seconds * factor,
            samples_seconds=tuple(sample * factor for sample in entry.samples_seconds),
        )
        for profile, factor in zip(profiles, factors, strict=True)
        for entry in profile.floating_point
    ]
    found = []
    for group in grouped(steadied, lambda entry: (entry.kernel, entry.width_bytes)).values():
        own = min(group, key=lambda entry: entry.seconds)
        _, spread, stable = quietest([entry.seconds for entry in group])
        found.append(own if len(group) == 1 else msgspec.structs.replace(own, spread=round(spread, 5), stable=stable))
    return tuple(found)


def _kernel(profiles: Sequence[MachineProfile]) -> tuple[KernelCost, ...]:
    groups = grouped((cost for profile in profiles for cost in profile.kernel), lambda cost: cost.name)
    return tuple(
        KernelCost(
            name=name,
            seconds=median(cost.seconds for cost in group),
            low=min(cost.low for cost in group),
            high=max(cost.high for cost in group),
        )
        for name, group in groups.items()
    )


def _other_cpus(profiles: Sequence[MachineProfile]) -> tuple[Neighbour, ...]:
    groups = grouped((one for profile in profiles for one in profile.neighbours), lambda one: one.cpu)
    return tuple(
        msgspec.structs.replace(group[0], slowdown=round(median(one.slowdown for one in group), 3)) for group in groups.values()
    )


def _residency(profiles: Sequence[MachineProfile]) -> Residency | None:
    seen = sorted((profile.residency for profile in profiles if profile.residency), key=lambda one: one.seconds)
    return seen[(len(seen) - 1) // 2] if seen else None


def _provenance(profiles: Sequence[MachineProfile], maps: Sequence[Curve], entries: Sequence[Throughput]) -> dict[str, Any]:
    kept = [profile.provenance for profile in profiles]
    points: list[Point | Throughput] = [point for curve in maps if not curve.beside for point in curve.points]
    points += entries
    noises = [one.get("noise", {}) for one in kept]
    noise = {
        "rejected_share": round(mean(one.get("rejected_share", 0.0) for one in noises), 4),
        "unstable_share": round(unsettled_share(points), 4),
        "median_spread": round(median(point.spread for point in points), 5),
        "cycle_seconds_least": min(_clock(profile, "cycle_seconds_least") for profile in profiles),
        "cycle_seconds_median": median(_clock(profile, "cycle_seconds_median") for profile in profiles),
        "neighbour_slowdown": median(known)
        if (known := [one["neighbour_slowdown"] for one in noises if one.get("neighbour_slowdown")])
        else None,
    }
    loads = {
        name: [median(column) for column in zip(*(one.get(name, [0.0]) for one in kept), strict=False)]
        for name in ("load_before", "load_after")
    }
    merged = [{"id": profile.id, "created": profile.provenance.get("created", "")} for profile in profiles]
    duration = round(sum(one.get("duration_seconds", 0.0) for one in kept), 2)
    return {**kept[0], "duration_seconds": duration, **loads, "noise": noise, "merged": merged}

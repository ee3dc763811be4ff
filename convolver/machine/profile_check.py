"""What is doubtful about a machine profile, in sentences: for a human before a prediction, not for the code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, Protocol

from convolver.machine.contention import busy_counts, shares_core
from convolver.machine.maps import MEMORY, plateau
from convolver.machine.profile import MachineProfile
from convolver.units import format_bytes, format_share

UNSETTLED_SHARE = 0.2
"""A probe more of whose points than this did not settle was disturbed."""


class Timed(Protocol):
    """A time that is known well enough, or not: of a point, an instruction, or the rounds of either."""

    @property
    def stable(self) -> bool:
        """Whether the time settled."""


def unsettled_share(timed: Iterable[Timed]) -> float:
    """Return the share of times that did not settle; 1 where there are none."""
    stable = [one.stable for one in timed]
    return 1 - sum(stable) / len(stable) if stable else 1.0


def reported_unsettled_share(profile: MachineProfile) -> float:
    """Return the share of its points that did not settle, as the profile's probe reported it; 0 where it does not say."""
    return float(profile.provenance.get("noise", {}).get("unstable_share", 0.0))


def is_disturbed(share: float) -> bool:
    """Tell whether so large a share of the points did not settle that the probe should go on, or be repeated."""
    return share > UNSETTLED_SHARE


NEEDED = (("unit", "load"), ("unit", "store"), ("random", "load"), ("chase", "load"))
"""Curves without which a prediction falls back on cruder ones."""

_HALF_OCTAVE = 0.5
_REJECTED_SHARE = 0.1
_CLOCK_RANGE = 1.05
_BUSY_LOAD = 0.5
_SHARED_CORE = 1.25
_UNSURE = 0.6
_SLACK = 0.9  # an outer level may come out this much faster than an inner one before it is odd


class Finding(NamedTuple):
    """One observation; ``severity`` is ``note`` (know it) or ``warning`` (do not trust it without a reason)."""

    severity: str
    sentence: str


def check_profile(profile: MachineProfile) -> list[Finding]:
    """Return what is doubtful about the profile; an empty list is a clean one."""
    if not profile.maps:
        return [Finding("warning", "It has no measured maps: simulation works, prediction does not.")]
    return [
        *_origin(profile),
        *_completeness(profile),
        *_noise(profile),
        *_geometry(profile),
        *_order(profile),
        *_surroundings(profile),
    ]


def projection_doubt(profile: MachineProfile) -> str:
    """Return one sentence on how much a projection's factors widen the intervals of its levels; empty where they do not."""
    known = profile.calibration
    if known is None or not any(known.assumed):
        return ""
    levels = [*(level.level for level in profile.hierarchy[1:]), MEMORY]
    parts = [f"{level} {100 * deviation:.0f} %" for level, deviation in zip(levels, known.assumed, strict=True) if deviation]
    return f"No single factor fits all access patterns of a level, so intervals are wider than the base's: {', '.join(parts)}."


def _origin(profile: MachineProfile) -> Iterator[Finding]:
    if profile.projected:
        base = (profile.derived_from or {}).get("name", "an unnamed machine")
        yield Finding("note", f"It is projected from {base} by {len(profile.changes)} changes; nothing in it was measured.")
        if doubt := projection_doubt(profile):
            yield Finding("note", doubt)
    if hypervisor := profile.cpu.get("hypervisor"):
        yield Finding("note", f"In a virtual machine ({hypervisor}), other VMs share its last-level cache and memory.")


def _completeness(profile: MachineProfile) -> Iterator[Finding]:
    have = {(curve.pattern, curve.operation) for curve in profile.maps}
    for pattern, operation in NEEDED:
        if (pattern, operation) not in have:
            yield Finding("warning", f"It has no {pattern} {operation} curve.")
    last = profile.hierarchy[-1]
    for curve in profile.maps:
        if curve.threads == 1 and curve.pattern == "unit" and curve.points[-1].working_set_bytes < 2 * last.size_bytes:
            yield Finding("warning", f"Its curves end before memory: the largest working set is less than twice {last.level}.")
            break
    if not profile.floating_point:
        yield Finding("warning", "It has no measured instructions: compute-bound blocks cost nothing.")
    if profile.calibration is None:
        yield Finding("note", "It is not calibrated: times follow from its curves alone, without an interval.")
    if not profile.kernel:
        yield Finding("note", "It has no costs of the kernel: system time is not predicted (probe again).")


def _noise(profile: MachineProfile) -> Iterator[Finding]:
    noise = profile.provenance.get("noise", {})
    load, cpus = profile.provenance.get("load_before", [0.0])[0], profile.cpu.get("cpus", 1)
    if load > _BUSY_LOAD * cpus:
        yield Finding("warning", f"The machine was busy when it was probed: load {load:.1f} on {cpus} CPUs.")
    if is_disturbed(share := reported_unsettled_share(profile)):
        yield Finding("warning", f"{format_share(share)} of its points did not settle.")
    if noise.get("rejected_share", 0.0) > _REJECTED_SHARE:
        yield Finding("warning", f"{format_share(noise['rejected_share'])} of the samples were interrupted and thrown away.")
    if (slowdown := noise.get("neighbour_slowdown") or 1.0) > _SHARED_CORE:
        yield Finding("note", f"Its CPUs seem to share cores: instructions run {slowdown:.1f} times slower beside a busy one.")
    least, median = noise.get("cycle_seconds_least", 0.0), noise.get("cycle_seconds_median", 0.0)
    if least and median / least > _CLOCK_RANGE:
        yield Finding("note", f"The clock moved: typically {1e-9 / median:.2f} GHz, at best {1e-9 / least:.2f} GHz.")


def _surroundings(profile: MachineProfile) -> Iterator[Finding]:
    for one in profile.neighbours:
        if shares_core(one.slowdown) and not one.reported_sibling:
            yield Finding(
                "note", f"CPU {one.cpu} behaves as a thread of the same core ({one.slowdown:.1f}x), which is not reported."
            )
    if profile.cpu.get("cpus", 1) > 1 and not busy_counts(profile, loaded=False):
        yield Finding("note", "It has no curves of busy CPUs: a rank on a full node cannot be predicted (probe with --full).")
    if profile.limited_residency is not None:
        milliseconds = 1e3 * profile.limited_residency.seconds
        yield Finding("note", f"A line left alone leaves the last cache after {milliseconds:.0f} ms: others share it.")
    for seen in profile.detected[-1:]:
        if seen.confidence < _UNSURE:
            low, high = format_bytes(seen.low_bytes), format_bytes(seen.high_bytes)
            yield Finding("note", f"The kernels disagree on the size of {seen.level}: {low} to {high}.")


def _geometry(profile: MachineProfile) -> Iterator[Finding]:
    reported = {level.level: level.size_bytes for level in profile.hierarchy_reported or profile.hierarchy}
    for seen in profile.detected:
        size = reported.get(seen.level)
        if size is None:
            continue
        octaves = math.log2(size / seen.size_bytes)
        if abs(octaves) > _HALF_OCTAVE:
            direction = "smaller" if octaves > 0 else "larger"
            yield Finding("note", f"{seen.level} looks {2 ** abs(octaves):.1f} times {direction} than reported.")
    missing = len(profile.hierarchy) - len(profile.detected)
    if profile.detected and missing > 0:
        yield Finding("note", f"{missing} of its levels cannot be seen in the chase curve.")


def _order(profile: MachineProfile) -> Iterator[Finding]:
    names = [*(level.level for level in profile.hierarchy), MEMORY]
    for curve in profile.maps:
        seconds = [plateau(curve, profile.hierarchy, name).seconds_per_reference for name in names]
        for (inner, near), (outer, far) in pairwise(zip(names, seconds, strict=True)):
            if far < _SLACK * near:
                yield Finding("warning", f"The kernel {curve.kernel} is faster in {outer} than in {inner}.")

"""Projected machines: a measured profile with stated changes.

What is assumed, so that a projection can be judged:

- a cache whose new size is no whole number of its sets gets the nearest number of ways with which it is one;
- a cache of another size moves the knees of all curves with it: working sets are mapped piecewise linearly in their logarithm, so
  that each old capacity falls on the new one; what lies beyond the last level moves as that level does;
- a level's bandwidth scales what streams through it (unit stride, strides, streams, sequential chase), its latency what waits for
  it (chase, random references, gather: all bound by latency, alone or divided by the misses in flight);
- the core's clock scales instructions and the caches in the core's clock domain: all levels but the last;
- the core's width scales what is fetched, issued and retired in a cycle and all buffers; its ports stay;
- in huge pages no translation is missing;
- the coefficients of the rate model scale as the curves do; since no one factor holds for all that a level is asked for, each
  factor f makes its level uncertain by a share of log f (:data:`FACTOR_DEVIATION`), beside what the base's calibration errs by;
- no point becomes faster than the same curve in the first level.

Samples are dropped: nothing of a projection was measured.

A core beside a busy sibling: nothing is fitted; what the threads take turns in (issue, retirement, fetch, ports) is there every
second cycle, what they divide (buffers, translations, decoded code, the core's own caches) by half. So a thread that waits for
results loses nothing, and one that fills a port or the width takes twice as long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from convolver.errors import UsageError
from convolver.machine.calibration import PAGE, Calibration
from convolver.machine.contention import THREADS_PER_CORE
from convolver.machine.core_figures import CoreFigure
from convolver.machine.cores import NAMED_SETS
from convolver.machine.hierarchy import MAX_WAYS, Level, check_levels
from convolver.machine.maps import MEMORY, Curve, Point, check_curves, plateau
from convolver.machine.profile import MOST_CPUS, MachineProfile, Throughput
from convolver.units import format_bytes, parse_bytes

_STREAMING = ("unit", "stride", "streams", "stream_hot", "chase_sequential")
NO_WALKS = {"page_entries": 0, "walk": 0.0, "walk_latency": 0.0}
"""Coefficients where data lie in huge pages: as many translations reach 512 times as far, beyond what programs here touch."""
_GEOMETRY = ("size", "ways")
_SPEEDS = ("bandwidth", "latency")


FACTOR_DEVIATION = 0.4
"""Deviation of the logarithm of a level's costs by kernel, as a share of that of the factor: about so far apart lay the
slowdowns of streams, and those of what waits, where one busy co-runner made a memory slower for all of them (0.36)."""
_FLOATING = ("throughput.fp_", "throughput.divide_single", "throughput.divide_double", "throughput.root_")
"""Figures of the core that more floating-point operations a second change."""


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What a projection changes: ``sizes`` and ``ways`` by level, ``scales`` by (level, ``bandwidth`` or ``latency``), ``width``
    of the core with its buffers, and whether all data lie in huge pages."""

    sizes: dict[str, int] = {}
    ways: dict[str, int] = {}
    scales: dict[tuple[str, str], float] = {}
    clock: float = 1.0
    flops: float = 1.0
    width: float = 1.0
    huge_pages: bool = False

    def sentences(self) -> tuple[str, ...]:
        """Return one line for each change, for the profile."""
        lines = [f"{level}.size = {format_bytes(size)}" for level, size in self.sizes.items()]
        lines += [f"{level}.ways = {ways}" for level, ways in self.ways.items()]
        lines += [f"{level}.{kind} x {factor:g}" for (level, kind), factor in self.scales.items()]
        core = {"clock": self.clock, "flops": self.flops, "width": self.width}
        lines += [f"core.{kind} x {factor:g}" for kind, factor in core.items() if factor != 1.0]
        return (*lines, "data in huge pages") if self.huge_pages else tuple(lines)


def _split(word: str, example: str) -> tuple[str, str, str]:
    key, equals, value = word.partition("=")
    part, dot, what = key.partition(".")
    if not (equals and dot and part and what and value):
        raise UsageError(f"'{word}' is no change; write for example {example}.")
    return part.strip(), what.strip(), value.strip()


def _factor(word: str, text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0.001 <= factor <= 1000:
        raise UsageError(f"'{word}' needs a factor from 0.001 to 1000.")
    return factor


def parse_changes(sets: Sequence[str], scales: Sequence[str]) -> Changes:
    """Return the changes in words such as ``L2.size=4MiB``, ``L2.ways=8`` (sets) and ``memory.bandwidth=2``, ``core.clock=1.2``.

    Raises :class:`UsageError` for a word that is none.
    """
    geometry: dict[str, dict[str, int]] = {"size": {}, "ways": {}}
    for word in sets:
        level, what, value = _split(word, "L2.size=4MiB or L2.ways=8")
        if what not in _GEOMETRY:
            raise UsageError(f"'{word}' cannot be set; size and ways of a level can.")
        geometry[what][level] = parse_bytes(value)
    speeds: dict[tuple[str, str], float] = {}
    core = {"clock": 1.0, "flops": 1.0, "width": 1.0}
    for word in scales:
        part, what, value = _split(word, "memory.bandwidth=2 or core.clock=1.2")
        if part == "core" and what in core:
            core[what] = _factor(word, value)
        elif part != "core" and what in _SPEEDS:
            speeds[part, what] = _factor(word, value)
        else:
            raise UsageError(f"'{word}' cannot be scaled; LEVEL.bandwidth, LEVEL.latency and core.clock, .flops or .width can.")
    changes = Changes(sizes=geometry["size"], ways=geometry["ways"], scales=speeds)
    return msgspec.structs.replace(changes, **core)


def _nearest_ways(level: Level, size_bytes: int) -> int:
    """Return the number of ways nearest to the level's, the larger of two, with which the size is a whole number of sets.

    105 MiB have 15 ways in one product, and 96 MiB of that cache cannot. Where no number fits, the level's own is refused later.
    A level that the offset in a page indexes then keeps its sets: 48 KiB in 12 ways are 32 KiB in 8, not in 16.
    """

    def fits(ways: int) -> bool:
        return not size_bytes % (ways * level.line_bytes) and (level.policy != "tree-plru" or not ways & (ways - 1))

    if not fits(level.ways) and level.sets * level.line_bytes == PAGE and not size_bytes % PAGE and fits(size_bytes // PAGE):
        return size_bytes // PAGE
    found = (ways for ways in range(1, MAX_WAYS + 1) if fits(ways))
    return min(found, key=lambda ways: (abs(ways - level.ways), -ways), default=level.ways)


def _with_ways(changes: Changes, levels: Sequence[Level]) -> Changes:
    """Return the changes with the ways that the stated sizes need."""
    fitted = {
        level.level: ways
        for level in levels
        if level.level in changes.sizes and level.level not in changes.ways
        if (ways := _nearest_ways(level, changes.sizes[level.level])) != level.ways
    }
    return msgspec.structs.replace(changes, ways={**changes.ways, **fitted})


def _levels(levels: Sequence[Level], changes: Changes) -> tuple[Level, ...]:
    names = [level.level for level in levels]
    for name in [*changes.sizes, *changes.ways]:
        if name not in names:
            raise UsageError(f"The machine has no level '{name}' to set; it has {', '.join(names)}.")
    for name, _ in changes.scales:
        if name not in [*names, MEMORY]:
            raise UsageError(f"The machine has no level '{name}' to scale; it has {', '.join([*names, MEMORY])}.")
    return check_levels(
        [
            msgspec.structs.replace(
                level,
                size_bytes=changes.sizes.get(level.level, level.size_bytes),
                ways=changes.ways.get(level.level, level.ways),
            )
            for level in levels
        ]
    )


def move_working_set(size_bytes: int, old: Sequence[Level], new: Sequence[Level]) -> int:
    """Return the working set that lies relative to the new capacities as ``size_bytes`` lies relative to the old ones."""
    anchors = [(math.log(a.size_bytes), math.log(b.size_bytes)) for a, b in zip(old, new, strict=True)]
    x = math.log(size_bytes)
    if x <= anchors[0][0]:
        return max(round(math.exp(x + anchors[0][1] - anchors[0][0])), 1)
    for (x0, y0), (x1, y1) in pairwise(anchors):
        if x <= x1:
            return round(math.exp(y0 + (x - x0) / (x1 - x0) * (y1 - y0)))
    return round(math.exp(x + anchors[-1][1] - anchors[-1][0]))


def _home(size_bytes: int, levels: Sequence[Level]) -> str:
    return next((level.level for level in levels if size_bytes <= level.size_bytes), MEMORY)


def _time_factor(pattern: str, home: str, levels: Sequence[Level], changes: Changes) -> float:
    if pattern in _STREAMING:
        factor = 1 / changes.scales.get((home, "bandwidth"), 1.0)
    else:
        factor = changes.scales.get((home, "latency"), 1.0)
    own_clock = home != MEMORY and (home != levels[-1].level or len(levels) == 1)
    return factor / changes.clock if own_clock else factor


def _project_curve(curve: Curve, old: Sequence[Level], new: Sequence[Level], changes: Changes) -> Curve:
    first = old[0].level
    floor = plateau(curve, old, first).seconds_per_reference * _time_factor(curve.pattern, first, old, changes)
    points: dict[int, Point] = {}
    for point in curve.points:
        home = _home(point.working_set_bytes, old)
        seconds = point.seconds_per_reference * _time_factor(curve.pattern, home, old, changes)
        size = move_working_set(point.working_set_bytes, old, new)
        points[size] = Point(
            working_set_bytes=size,
            seconds_per_reference=seconds if home == first else max(seconds, floor),
            spread=point.spread,
            stable=point.stable,
        )
    return msgspec.structs.replace(curve, points=tuple(points.values()))


def _project_instruction(entry: Throughput, changes: Changes) -> Throughput:
    wider = entry.flops > 0 and not entry.operation.endswith("_latency")
    seconds = entry.seconds / changes.clock / (changes.flops if wider else 1.0)
    return msgspec.structs.replace(entry, seconds=seconds, samples_seconds=())


def _project_figure(figure: CoreFigure, changes: Changes) -> CoreFigure:
    """Figures are cycles, which no clock changes; independent floating-point instructions take fewer."""
    if not figure.name.startswith(_FLOATING):
        return figure
    value, low, high = (one / changes.flops for one in (figure.value, figure.low, figure.high))
    return msgspec.structs.replace(figure, value=value, low=low, high=high)


def project(base: MachineProfile, name: str, changes: Changes, *, note: str = "") -> MachineProfile:
    """Return the machine ``name`` that differs from ``base`` by ``changes``; see the top of this file for what is assumed.

    Raises :class:`UsageError` for a level that the base does not have, :class:`HierarchyError` for an impossible geometry.
    """
    changes = _with_ways(changes, base.hierarchy)
    levels = _levels(base.hierarchy, changes)
    provenance: dict[str, Any] = {
        "kind": "projected",
        "measured": False,
        "note": note or "Derived from a measured machine by the stated changes; none of its numbers was measured.",
        "method": "capacities move the knees of all curves; factors scale the times of the level in which a working set lies",
        "base": {**_origin(base.provenance, base.cpu), "usual_cycle": round(base.usual_cycle, 5)},
    }
    return MachineProfile(
        name=name,
        hierarchy=levels,
        tlb=base.tlb,
        page_bytes=base.page_bytes,
        semantics=base.semantics,
        projected=True,
        provenance=provenance,
        cpu={**_core(base.cpu, changes.width), "model": f"projected from {base.cpu.get('model', base.name)}"},
        maps=check_curves(_project_curve(curve, base.hierarchy, levels, changes) for curve in base.maps),
        floating_point=tuple(_project_instruction(entry, changes) for entry in base.floating_point),
        core=tuple(_project_figure(figure, changes) for figure in base.core),
        core_ports=base.core_ports,
        kernel=tuple(cost.at(changes.clock) for cost in base.kernel),  # most of it is code that hits the caches
        calibration=_project_calibration(base.calibration, base.hierarchy, changes),
        derived_from={"name": base.name, "id": base.id},
        changes=(*base.changes, *changes.sentences()),
    )


def _project_calibration(known: Calibration | None, old: Sequence[Level], changes: Changes) -> Calibration | None:
    """Scale the coefficients as the curves: streams by bandwidth, what waits by latency, the near levels by the clock."""
    if known is None:
        return None
    levels = [*(level.level for level in old[1:]), MEMORY]

    def scaled(values: Sequence[float], pattern: str) -> tuple[float, ...]:
        return tuple(value * _time_factor(pattern, level, old, changes) for value, level in zip(values, levels, strict=True))

    return msgspec.structs.replace(
        known,
        intervals=_project_intervals(known, levels, old, changes),
        assumed=_assumed(known, levels, changes),
        sequential=scaled(known.sequential, "unit"),
        random=scaled(known.random, "random"),
        write_back=scaled(known.write_back, "unit"),
        latency=scaled(known.latency, "chase"),
        first_latency=known.first_latency * _time_factor("chase", old[0].level, old, changes),
        coming=known.coming / changes.clock,
        window=known.window * changes.width,
        **(NO_WALKS if changes.huge_pages else {}),
    )


def _project_intervals(
    known: Calibration, levels: Sequence[str], old: Sequence[Level], changes: Changes
) -> dict[str, tuple[float, float]]:
    """Scale each interval as its coefficient."""
    patterns = {"sequential": "unit", "random": "random", "write_back": "unit", "latency": "chase"}

    def factor(name: str) -> float:
        kind, _, level = name.partition(" ")
        if kind in patterns and level in levels:
            return _time_factor(patterns[kind], level, old, changes)
        return 1 / changes.clock if kind == "coming" else 1.0

    return {name: (low * factor(name), high * factor(name)) for name, (low, high) in known.intervals.items()}


def _assumed(known: Calibration, levels: Sequence[str], changes: Changes) -> tuple[float, ...]:
    """Return how uncertain the factors make each level's costs, on top of what a base's own factors did."""

    def own(level: str) -> float:
        factors = (factor for (name, _), factor in changes.scales.items() if name == level)
        return FACTOR_DEVIATION * max((abs(math.log(factor)) for factor in factors), default=0.0)

    before = known.assumed or (0.0,) * len(levels)
    found = tuple(round(math.hypot(old, own(level)), 4) for old, level in zip(before, levels, strict=True))
    return found if any(found) else ()


def _core(cpu: Mapping[str, Any], width: float) -> dict[str, Any]:
    """Return what says which core it is, and how many there can be: a projection keeps its pipeline, as wide as ``core_width``
    says, the threads that share it and the CPUs of the largest machine known."""
    width *= cpu.get("core_width", 1.0)
    names = ("vendor", "family", "model_number", THREADS_PER_CORE, MOST_CPUS, *NAMED_SETS)
    kept = {name: cpu[name] for name in names if name in cpu}
    return kept if width == 1.0 else {**kept, "core_width": width}


def _origin(provenance: Mapping[str, Any], cpu: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: provenance[key] for key in ("kind", "created", "plan", "rounds", "pages", "noise", "note") if key in provenance}
    return {**kept, **{key: cpu[key] for key in ("model", "hypervisor", "measured_hertz") if key in cpu}}


CORE_THREADS = "core_threads"
"""Field of a profile's CPU: how many threads share the core (default: 1)."""


def beside_sibling(machine: MachineProfile) -> MachineProfile:
    """Return the machine as a thread sees it whose core runs another thread with as much work.

    Raises :class:`UsageError` or :class:`HierarchyError` where half a cache is none.
    """
    own = machine.hierarchy[:-1] or machine.hierarchy
    ways = {level.level: level.ways // 2 for level in own if not level.ways % 2}  # lines of both are in every set
    changes = Changes(sizes={level.level: level.size_bytes // 2 for level in own}, ways=ways)
    shared = project(machine, f"{machine.name}+sibling", changes)
    said = (*shared.changes, "one of 2 threads of its core")
    return msgspec.structs.replace(shared, cpu={**shared.cpu, CORE_THREADS: 2}, changes=said)

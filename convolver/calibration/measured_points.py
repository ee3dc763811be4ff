"""The rows of a calibration: for each measured point, the work that the simulated caches see, and the seconds of a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver.analyzing.falls import DEPENDENT, RANDOM, Array, fold, page_misses, with_scattered
from convolver.convolution.rates import BlockWork
from convolver.machine.calibration import PAGES, Calibration
from convolver.machine.maps import MEMORY, Curve, plateau
from convolver.machine.profile import MachineProfile
from convolver.probing.record import KernelRuns, RecordedPoint
from convolver.probing.runner import Kernel
from convolver.simulation.hit_rates import HitRates

REFERENCES = 24576
"""Of a point, simulated: a multiple of :data:`convolver.probing.record.WHOLE_TURNS`."""
WARM = 1.1
"""Lines brought before that, as a multiple of those of the largest last level."""
SURE = 0.5
"""Of a machine's residency, for which most lines survive in the last level, the part in which nearly all do."""
RESTARTED = "chase_restarted"
"""A kernel of chains that overlap as far as the core's window reaches: how many run side by side is not known."""


class MeasuredPoint(NamedTuple):
    """One point of a curve."""

    curve: Curve
    working_set_bytes: int
    seconds: float
    spread: float
    huge: bool


@dataclass(frozen=True)
class Rows:
    """Rows of all points on one hierarchy. ``weight``: how much a row counts in the fit, 0 for none. ``level``: what serves
    it. ``huge``: measured on huge pages, while ``work`` is that on small ones."""

    kernels: NDArray[np.str_]
    working_sets: NDArray[np.int64]
    seconds: Array
    work: BlockWork
    weight: Array
    level: tuple[str, ...]
    huge: NDArray[np.bool_]

    def asked(self, calibration: Calibration) -> BlockWork:
        """Return the work, with walks on huge pages as what they cost of one on small pages."""
        part = np.where(self.huge, calibration.huge_walk, 1.0)
        return replace(self.work, walks=self.work.walks * part, chased_walks=self.work.chased_walks * part)


def is_power(size_bytes: int) -> bool:
    """True for a power of two."""
    return size_bytes & (size_bytes - 1) == 0


def _recordable(size_bytes: int) -> int:
    """Return the nearest working set of three significant binary digits: the random kernels need such (the curves of projected
    machines have others)."""
    step = 1 << max(size_bytes.bit_length() - 3, 9)
    return max(round(size_bytes / step) * step, 4096)


def measured_points(profile: MachineProfile, known: Mapping[str, Kernel]) -> list[MeasuredPoint]:
    """Return the points of one thread of kernels that this probe knows: one an octave, and all of dependent loads, which alone
    tell a level's latency.

    They are ordered by working set, chases last in each: so the probe makes each of their cycles once.
    """
    found = [
        MeasuredPoint(curve, point.working_set_bytes, point.seconds_per_reference, point.spread, huge)
        for huge, curves in ((False, profile.maps), (True, profile.huge_maps))
        for curve in curves
        if curve.threads == 1 and curve.kernel in known and curve.pattern != RESTARTED
        for point in curve.points
        if profile.projected or curve.kernel == "chase" or is_power(point.working_set_bytes)
    ]
    return sorted(found, key=lambda one: (one.working_set_bytes, one.curve.pattern.startswith("chase"), one.curve.kernel))


def runs(points: Sequence[MeasuredPoint], largest_bytes: int, pages: str) -> KernelRuns:
    """Return what is simulated for the points, with last levels of up to ``largest_bytes``."""
    warm = int(WARM * largest_bytes / 64)
    recorded = [RecordedPoint(one.curve.kernel, _recordable(one.working_set_bytes), REFERENCES, warm) for one in points]
    return KernelRuns(recorded, pages)


def is_chase(curve: Curve) -> bool:
    """True when each load of the kernel waits for the one before it in its chain."""
    return curve.pattern.startswith("chase")


def core_seconds(profile: MachineProfile) -> dict[str, float]:
    """Return by kernel the seconds of a reference when all of them hit the first level and none waits: the curve's first
    plateau, for chases that of independent loads."""
    levels, first = profile.hierarchy, profile.hierarchy[0].level
    plain = plateau(profile.curve("unit", "load"), levels, first).seconds_per_reference
    return {
        curve.kernel: plain if is_chase(curve) else plateau(curve, levels, first).seconds_per_reference
        for curve in profile.maps
        if curve.threads == 1
    }


def row_weights(points: Sequence[MeasuredPoint], profile: MachineProfile) -> Array:
    """Return 0 for working sets about as large as a level, where conflicts decide, and for those in the last level of which other
    VMs push lines out before they are asked for again; less for points that did not settle."""
    levels, lives = profile.hierarchy, profile.limited_residency
    sizes = np.array([one.working_set_bytes for one in points], dtype=float)
    edge = np.zeros(len(points), dtype=bool)
    for level in levels[1:]:
        edge |= (sizes > 0.7 * level.size_bytes) & (sizes < 1.45 * level.size_bytes)
    if lives is not None:
        turns = np.array([one.seconds * one.working_set_bytes / levels[-1].line_bytes for one in points])
        edge |= (sizes < levels[-1].size_bytes) & (turns > SURE * lives.seconds)
    spread = np.array([one.spread for one in points])
    return np.where(edge, 0.0, 0.1 / np.hypot(0.1, spread))


def make_rows(
    points: Sequence[MeasuredPoint],
    run: KernelRuns,
    rates: HitRates,
    machine: str,
    profile: MachineProfile,
    pages: str = "",
    scattered: str = "",
) -> Rows:
    """Return the rows of the points on one of the simulated hierarchies, and one of the simulated caches of ``pages``.

    ``scattered``: the hierarchy that lines out of order find, where it is another one.

    Everything is per reference as the kernel counts them.
    """
    levels = [level.level for level in profile.hierarchy]
    where = fold(rates.table, machine, levels, len(points) + 1)
    if scattered:
        where = with_scattered(where, fold(rates.table, scattered, levels, len(points) + 1))
    translated = page_misses(rates.table, pages, PAGES, len(points) + 1) if pages else where.page_misses
    features = run.features(len(points) + 1)
    seen = features["references"][1:] / REFERENCES  # tables of offsets are read beside the references that are counted
    lines = where.lines(np.concatenate([[0.0], seen]))[1:]
    core, chases = core_seconds(profile), np.array([is_chase(one.curve) for one in points])
    missing = translated[1:] * seen[:, None]
    missed = (1 - where.served[1:, 0]) * seen
    work = BlockWork(
        core=np.array([core[one.curve.kernel] for one in points]),
        lines=lines,
        written=where.written_back[1:] * seen[:, None],
        between=features["between"][1:],
        coming=features["coming"][1:] * missed,
        alone=features["alone"][1:] * where.served[1:, 0],
        loads=features["loads"][1:] / REFERENCES,
        chased=chases.astype(float),
        chased_share=chases.astype(float),
        chains=np.array([one.curve.chains if is_chase(one.curve) else 1 for one in points], dtype=float),
        walks=np.where(chases, 0.0, missing[:, RANDOM] + missing[:, DEPENDENT]),
        chased_walks=np.where(chases, missing[:, DEPENDENT], 0.0),
    )
    names = [*levels, MEMORY]
    far = np.column_stack([where.served[1:, 0], lines.sum(axis=2)])
    far[:, 0] = 0.02  # a level that serves fewer lines does not decide
    return Rows(
        kernels=np.array([one.curve.kernel for one in points]),
        working_sets=np.array([one.working_set_bytes for one in points]),
        seconds=np.array([one.seconds for one in points]),
        work=work,
        weight=row_weights(points, profile),
        level=tuple(names[index] for index in far.argmax(axis=1)),
        huge=np.array([one.huge for one in points]),
    )

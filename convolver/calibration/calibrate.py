"""Calibrates a measured profile: seconds of computing, no measuring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from convolver.analyzing.analysis_store import code_version
from convolver.analyzing.falls import Array
from convolver.calibration.fit import KNOWN, LIKE, TUPLES, WALKS, Start, fit, left_out
from convolver.calibration.measured_points import MeasuredPoint, Rows, make_rows, measured_points, runs
from convolver.convolution.costs import pattern_cost
from convolver.errors import MachineError, PredictionError
from convolver.machine.calibration import PAGES, Calibration, Residual, page_cache
from convolver.machine.hierarchy import resized
from convolver.machine.maps import MEMORY
from convolver.machine.profile import MachineProfile
from convolver.probing.record import KernelRuns
from convolver.probing.runner import list_kernels
from convolver.progress import SILENT, Progress
from convolver.schema import document_id
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.one_pass import simulate

LAST_LEVELS = (1.0, 0.5, 1.5, 2.0, 3.0, 4.0)
"""Last levels that are tried where the machine does not give one program what it reports, as multiples of the one seen."""
LARGEST_TRIED = 96 << 20
BETTER = 0.97
"""Another last level than the detected one is taken where it makes the cost of the fit at most this share."""
PAGE_ENTRIES = (1024, 1536, 2048, 3072)
"""Translations that the last level of a TLB may keep; none (pages cost nothing) is tried, too."""
LEAST_ROWS = 60
LIKE_KEY = "calibrated_like"
"""Key of a profile's provenance with the id of the profile that it was calibrated like."""
FITTED = (*TUPLES, "blocked", "between", "coming", "window", "near_exponent", "exponent")
"""Coefficients that two states of one machine have in common where no row distinguishes them."""
_JACKKNIFE = 1.96


def simulator_id(profile: MachineProfile, run: KernelRuns) -> str:
    """Return the hash of everything that decides the rows but the measured times."""
    return document_id({"hierarchy": profile.hierarchy_id, "kernels": run.id, "code": code_version()})


def candidates(profile: MachineProfile, like: MachineProfile | None = None) -> list[MachineProfile]:
    """Return the profile with the hierarchies that are tried: its own first, and that of ``like``.

    Where the last level was seen to be far smaller than reported, its size depends on how fast a program goes through it; the
    sizes tried are those between the level before and the reported one.
    """
    *inner, last = profile.hierarchy
    if not profile.hierarchy_reported or not inner:
        return [profile]
    least = resized(last, 2 * inner[-1].size_bytes).size_bytes
    most = min(profile.hierarchy_reported[-1].size_bytes, LARGEST_TRIED)
    sizes = [last.size_bytes * factor for factor in LAST_LEVELS] + ([] if like is None else [like.hierarchy[-1].size_bytes])
    levels = dict.fromkeys(resized(last, size) for size in sizes)
    kept = [one for one in levels if least <= one.size_bytes <= most]
    return [msgspec.structs.replace(profile, hierarchy=(*inner, one)) for one in kept] or [profile]


def starting_point(profile: MachineProfile, page_entries: int = 0, like: MachineProfile | None = None) -> Start:
    """Return coefficients that are right in size, from the curves of the plain kernels, or those of ``like``."""
    levels = profile.hierarchy
    chase, load = pattern_cost(profile.curve("chase"), levels), pattern_cost(profile.curve("unit", "load"), levels)
    random = pattern_cost(profile.curve("random"), levels)
    least = 0.02 * load.reference_seconds

    def positive(values: Sequence[float]) -> tuple[float, ...]:
        return tuple(max(value, least) for value in values)

    found = Calibration(
        simulator="",
        exponent=2.7,
        sequential=positive(load.line_seconds),
        random=positive(random.line_seconds),
        write_back=positive([0.2 * seconds for seconds in load.line_seconds]),
        latency=tuple(chase.reference_seconds + seconds for seconds in chase.line_seconds),
        page_entries=page_entries,
        walk=positive([0.2 * random.line_seconds[-1]])[0],
        walk_latency=positive([0.5 * chase.line_seconds[-1]])[0],
        huge_walk=0.5 if page_entries and profile.huge_maps else 0.0,
        first_latency=chase.reference_seconds,
        blocked=0.5,
        between=0.6,
        alone=0.4,
        coming=0.5 * load.reference_seconds,
        window=150.0,
        points=0,
        median_error=0.0,
        mean_error=0.0,
        intervals={},
    )
    if like is None or like.calibration is None:
        return Start(found)
    known = {name: getattr(like.calibration, name) for name in FITTED}
    walks = {name: getattr(like.calibration, name) for name in WALKS} if like.calibration.page_entries else {}
    others = {name: value for name in KNOWN if getattr(found, name) and (value := getattr(like.calibration, name))}
    return Start(msgspec.structs.replace(found, **known, **walks, **others), LIKE)


class _Tried(NamedTuple):
    """One hierarchy and number of translations, and the fit with them."""

    cost: float
    profile: MachineProfile
    rows: Rows
    start: Start
    vector: Array


def _best(
    profiles: Sequence[MachineProfile],
    points: Sequence[MeasuredPoint],
    run: KernelRuns,
    rates: HitRates,
    like: MachineProfile | None = None,
) -> _Tried:
    """Return the hierarchy and the number of translations with which the fit costs least: another last level than the first (or
    that of ``like``), or pages that cost something (or more or fewer translations than there), only where that is clearly better.
    Rows near an edge count nowhere, so that all compare."""
    tried = []
    for entries in (0, *PAGE_ENTRIES):
        for number, profile in enumerate(profiles):
            rows = make_rows(points, run, rates, str(number), profile, _pages_name(entries) if entries else "")
            start = starting_point(profile, entries, like)
            vector, cost = fit(rows, start)
            tried.append(_Tried(cost / max(rows.weight.sum(), 1.0), profile, rows, start, vector))
    own, best = next((one for one in tried if _same_memory(one, like)), tried[0]), min(tried, key=lambda one: one.cost)
    best = best if best.cost < BETTER * own.cost else own
    return min([best, *_scattered(best, profiles, points, run, rates)], key=lambda one: one.cost)


def _same_memory(tried: _Tried, like: MachineProfile | None) -> bool:
    """Tell whether the last level and the translations are those of ``like``."""
    if like is None or like.calibration is None:
        return False
    same = tried.start.calibration.page_entries == like.calibration.page_entries
    return same and tried.profile.hierarchy[-1].size_bytes == like.hierarchy[-1].size_bytes


def _scattered(
    best: _Tried, profiles: Sequence[MachineProfile], points: Sequence[MeasuredPoint], run: KernelRuns, rates: HitRates
) -> list[_Tried]:
    """Return the fits in which lines out of order find a smaller last level than streams, where they are clearly better; none
    where it is known how long lines survive there, which says the same of slower programs, too."""
    if profiles[0].limited_residency is not None:
        return []
    known, size = best.start.calibration, best.profile.hierarchy[-1].size_bytes
    numbers = {profile.hierarchy[-1].size_bytes: str(number) for number, profile in enumerate(profiles)}
    found = []
    for smaller, number in numbers.items():
        if smaller >= size:
            continue
        pages = _pages_name(known.page_entries) if known.page_entries else ""
        rows = make_rows(points, run, rates, numbers[size], best.profile, pages, number)
        start = Start(msgspec.structs.replace(known, scattered_share=smaller / size), best.start.pull)
        vector, cost = fit(rows, start)
        tried = _Tried(cost / max(rows.weight.sum(), 1.0), best.profile, rows, start, vector)
        found += [tried] if tried.cost < BETTER * best.cost else []
    return found


def _pages_name(entries: int) -> str:
    return f"{PAGES} {entries}"


def calibrate(profile: MachineProfile, *, like: MachineProfile | None = None, progress: Progress = SILENT) -> MachineProfile:
    """Return the profile with its calibration, and the last level that explains its curves best where that is uncertain.

    ``like`` is a calibrated profile of the same machine in another state (beside other work): what the curves
    do not distinguish stays as it is there, so that a ratio of the two states holds what changed, not what two fits happened to
    find. One of another processor, or without a calibration, is left aside.

    A projected profile should be projected from a calibrated one instead, which scales the coefficients; where its base is
    gone, its curves stand for measured ones. Raises :class:`MachineError` for a profile without enough curves.
    """
    known, _ = list_kernels()
    points = measured_points(profile, known)
    if len(points) < LEAST_ROWS:
        raise MachineError(
            f"'{profile.name}' has {len(points)} measured points, {LEAST_ROWS} are needed; calibrate a profile that "
            "`convolver probe` wrote."
        )
    like = like if like is not None and alike(like, profile) else None
    profiles = candidates(profile, like)
    run = runs(points, max(one.hierarchy[-1].size_bytes for one in profiles), str(profile.provenance.get("pages", "default")))
    machines = [
        {"name": str(number), "hierarchy": [msgspec.to_builtins(level) for level in one.hierarchy]}
        for number, one in enumerate(profiles)
    ]
    machines += [
        {"name": _pages_name(entries), "hierarchy": [msgspec.to_builtins(level) for level in page_cache(entries)]}
        for entries in PAGE_ENTRIES
    ]
    rates = simulate(run, machines, progress=progress)
    _, best, rows, start, vector = _best(profiles, points, run, rates, like)
    errors, vectors = left_out(rows, start, vector)
    kept = {key: value for key, value in best.provenance.items() if key != LIKE_KEY}
    return msgspec.structs.replace(
        best,
        calibration=_document(best, run, rows, start, vector, errors, vectors),
        provenance=kept if like is None else {**kept, LIKE_KEY: like.id},
    )


def alike(like: MachineProfile, profile: MachineProfile) -> bool:
    """Tell whether ``like`` was measured and is calibrated, and is of the same kind of processor with the same levels."""
    names = [[level.level for level in one.hierarchy] for one in (like, profile)]
    if like.projected or like.calibration is None:
        return False
    return names[0] == names[1] and like.cpu.get("model") == profile.cpu.get("model")


def calibrated(
    profile: MachineProfile, *, like: MachineProfile | None = None, progress: Progress = SILENT
) -> tuple[MachineProfile, str]:
    """Return :func:`calibrate` of a fresh profile; or, where it has too few curves, the profile and one sentence that says so."""
    try:
        return calibrate(profile, like=like, progress=progress), ""
    except (MachineError, PredictionError) as error:
        return profile, f"The profile is not calibrated: {error}"


def _document(
    profile: MachineProfile, run: KernelRuns, rows: Rows, start: Start, vector: Array, errors: Array, vectors: Array
) -> Calibration:
    levels = [*(level.level for level in profile.hierarchy[1:]), MEMORY]
    # The jackknife over kernels: how far the coefficients move when one is left out.
    count = len(vectors)
    deviation = np.sqrt((count - 1) / count * ((vectors - vectors.mean(axis=0)) ** 2).sum(axis=0))
    names = start.names(levels)
    low, high = (start.values(vector + sign * _JACKKNIFE * deviation) for sign in (-1, 1))
    bounds = zip(names, low, high, strict=True)
    relative = np.abs(np.expm1(errors))
    return msgspec.structs.replace(
        start.with_vector(vector),
        simulator=simulator_id(profile, run),
        points=len(errors),
        median_error=float(np.median(relative)),
        mean_error=float(relative.mean()),
        intervals={name: (float(one), float(other)) for name, one, other in bounds},
        residuals=tuple(
            Residual(kernel=str(kernel), working_set_bytes=int(size), place=level, error=round(float(error), 4))
            for kernel, size, level, error in zip(rows.kernels, rows.working_sets, rows.level, errors, strict=True)
        ),
    )

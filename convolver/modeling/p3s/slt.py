"""The scalable logical trace: one tree of loops and operations for any process count, made from traces at a few.

Phases are related by their order in the tree (functional similarity). Each loop's count is a line in an index of the counts, each
operation has a rule for its partner, a form for its size and one for its work.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from convolver.errors import ExtrapolationWarning, ModelError
from convolver.modeling.p3s.face_forms import ROOTED, Sample, fit_edges, fit_faces, fit_rooted
from convolver.modeling.p3s.nests import Where, fit_nest
from convolver.modeling.p3s.parts import Part, Step, Turn
from convolver.modeling.p3s.pattern import find_pattern
from convolver.modeling.p3s.points import Rates, RatesAt
from convolver.modeling.p3s.rules import GRIDS
from convolver.modeling.p3s.volume import fit_volume
from convolver.modeling.p3s.work_forms import Place, Weight, WorkForm, fit_work, place_of
from convolver.mpi.network import flat_configuration
from convolver.mpi.network_replay import Replayer
from convolver.mpi.time_independent import Operation, Trace, to_events

EXACT_BYTES = 1e-6
"""Largest relative error with which a form of a rank's blocks gives sizes."""
FARTHEST = 4
"""How many times the largest traced count predicted traces were compared with real ones (docs/benchmarks.md)."""
SIMILARITY = 0.95
"""Ranks whose instructions differ by less are one group (the paper's)."""


@dataclass(frozen=True)
class ScalableTrace:
    """The trace for any process count: :meth:`at` makes it for one (the paper's ST4NP)."""

    root: Part
    counts: tuple[int, ...]
    totals: tuple[float, ...] = ()

    def at(self, processes: int, rates: Rates | None = None) -> Trace:
        """Return the operations of every rank at a process count, work included: instructions, or seconds with ``rates``.

        Raises :class:`ModelError` for a count that the program cannot run on, and for fewer processes than were traced; warns
        with :class:`ExtrapolationWarning` beyond :data:`FARTHEST` times the largest traced count.
        """
        return self.performed(processes, lambda rank: self.root.run(rank, processes), rates)

    def performed(self, processes: int, run: Callable[[int], Iterator[Step]], rates: Rates | None = None) -> Trace:
        """Return the operations of a run that each rank makes of the structure's parts, as :meth:`Part.run` yields them.

        ``rates`` and errors as of :meth:`at`. Parts that the structure does not have are marks.
        """
        self._check(processes)
        sizes = {id(part): round(part.volume(processes)) if part.volume else 0 for part in self.root.leaves()}
        grid = _grid(self.root)
        known = None if rates is None else rates.at(self._instructions(processes))
        return [list(self._rank(rank, processes, run(rank), sizes, grid, known)) for rank in range(processes)]

    def _check(self, processes: int) -> None:
        """Raise :class:`ModelError` for a count outside what the rules hold for; warn of one beyond what was ever compared."""
        if processes < min(self.counts):
            raise ModelError(
                f"{processes} processes are fewer than the traced {', '.join(map(str, self.counts))}, and may make other calls; "
                "the rules hold from the smallest traced count up: trace the program there."
            )
        for rule in (part.rule for part in self.root.leaves() if part.rule is not None and part.rule.kind != "root"):
            if processes < 2 or rule.sides(processes) is None:
                raise ModelError(f"{processes} processes are not legal here: they form no {rule.grid} grid as the traces do.")
        if processes > FARTHEST * max(self.counts):
            warnings.warn(
                f"{processes} processes are more than {FARTHEST} times the {max(self.counts)} of the largest trace, as far as "
                "predicted traces were compared with real ones; trace the program on more.",
                ExtrapolationWarning,
                stacklevel=4,
            )

    def instructions(self, processes: int) -> float:
        """Return the work of one process in the mean over a whole run at a process count; raises and warns as :meth:`at`."""
        self._check(processes)
        return self._instructions(processes)

    def _instructions(self, processes: int) -> float:
        grid = _grid(self.root)
        works = (self._works(rank, processes, grid) for rank in range(processes))
        steps = (sum(work(p, t, n) for p, _, t, n in self.root.run(r, processes)) for r, work in enumerate(works))
        return sum(steps) / processes

    def _works(self, rank: int, processes: int, grid: str | None) -> Callable[[Part, Turn, int], float]:
        """Return what gives the work of a rank before an operation in a turn of the loop around it, counted from 1."""
        sides = GRIDS[grid](processes) if grid else None
        place = place_of(rank, sides) if sides else (0, 0)
        known = {(id(part), turn): form(processes, place) for part in self.root.leaves() for turn, form in part.work.items()}

        def work(part: Part, turn: Turn, number: int) -> float:
            nest = part.nests.get(turn)
            return known.get((id(part), turn), 0.0) if nest is None else nest(processes, rank, number - 1)

        return work

    def _rank(
        self,
        rank: int,
        processes: int,
        run: Iterator[Step],
        sizes: Mapping[int, int],
        grid: str | None,
        rates: RatesAt | None,
    ) -> Iterator[Operation]:
        works = self._works(rank, processes, grid)
        for part, partner, turn, number in run:
            size = round(part.faces(processes, rank, number - 1)) if part.faces else sizes.get(id(part), 0)
            work = works(part, turn, number)
            yield Operation(part.name, partner, size, 0, work if rates is None else rates.seconds(id(part), turn, work))

    def equations(self) -> list[dict[str, Any]]:
        """Return one row an operation: name, partner rule, size form, work, weight at the largest traced count."""
        largest = max(self.counts)
        return [
            {
                "operation": part.name,
                "partner": str(part.rule or ""),
                "bytes": _form(part),
                "work": {turn.name.lower(): str(form) for turn, form in sorted({**part.work, **part.nests}.items())},
                "weight": self.root.weight(largest, part),
            }
            for part in self.root.leaves()
        ]

    def drift(self) -> float:
        """Return how much the total work of all ranks changes over the traced counts, as a share of the smallest."""
        return (max(self.totals) - min(self.totals)) / min(self.totals) if self.totals and min(self.totals) > 0 else 0.0


def build(traces: Mapping[int, Trace], *, sizes_to_try: tuple[int, ...] = ()) -> ScalableTrace:
    """Return the scalable trace of traces at three or more process counts.

    ``sizes_to_try`` are problem sizes for structured message sizes. Raises :class:`ModelError` when the calls, a partner or a
    loop's count follow no rule: then P3S does not apply.
    """
    if len(traces) < 2:
        raise ModelError("P3S relates phases over process counts; give traces at two counts at least, better three.")
    traces = {processes: traces[processes] for processes in sorted(traces)}
    root = find_pattern(traces)
    found = {processes: _occurrences(root, trace) for processes, trace in traces.items()}
    totals = tuple(float(sum(o.work for rank in trace for o in rank)) for trace in traces.values())
    grid = _grid(root)
    seen = [
        {processes: leaves[id(part)] for processes, leaves in found.items() if leaves[id(part)].bytes} for part in root.leaves()
    ]
    if _multi_partitioned(root):
        for part, counts in zip(root.leaves(), seen, strict=True):
            _fit_nests(part, counts, sizes_to_try)

    def made(share: float) -> ScalableTrace:
        for part, counts in zip(root.leaves(), seen, strict=True):
            _fit(part, counts, sizes_to_try, grid, share, partial(root.weight, leaf=part, bits=False))
        return ScalableTrace(root, tuple(traces), totals)

    return made(0.0 if grid is not None else _shown_waiting(made, traces))


def _shown_waiting(made: Callable[[float], ScalableTrace], traces: Mapping[int, Trace]) -> float:
    """Return how much of the difference between the mean and the slowest rank counts where all ranks make the same calls:
    1 where each call waits for all, 0 where differences even out; with it replays of the predicted traces last as long as the
    real."""
    real = np.array([_seconds(trace) for trace in traces.values()])
    ends = []
    for share in (0.0, 1.0):
        scalable = made(share)
        ends.append(np.array([_seconds(scalable.at(processes)) for processes in traces]) / real)
    slope = ends[1] - ends[0]
    return float(np.clip(slope @ (1 - ends[0]) / (slope @ slope), 0, 1)) if (slope @ slope) > 1e-12 else 0.0


def _seconds(trace: Trace) -> float:
    """Return the replayed seconds on a network so fast that only the work and the waiting for it count."""
    network = flat_configuration(len(trace), latency_seconds=1e-9, bandwidth_bytes_per_second=1e12)
    return float(Replayer(to_events(trace, seconds_per_work=1e-9)).seconds(network).max())


@dataclass
class Seen:
    """All times that an operation was run at one process count: rank, turn from 0 and bytes in order, and by kind of turn the
    works of each rank."""

    bytes: list[Sample]
    work: dict[Turn, dict[int, list[float]]]
    each: dict[bool, dict[Where, list[float]]]
    """By rank and turn from 0, apart for first turns (True) and later ones."""


def _occurrences(root: Part, trace: Trace) -> dict[int, Seen]:
    found = {
        id(part): Seen([], {turn: defaultdict(list) for turn in Turn}, {first: defaultdict(list) for first in (True, False)})
        for part in root.leaves()
    }
    for rank, operations in enumerate(trace):
        for (part, _, turn, number), operation in zip(root.run(rank, len(trace)), operations, strict=True):
            seen = found[id(part)]
            seen.bytes.append((rank, number - 1, operation.bytes))
            seen.work[turn][rank].append(operation.work)
            seen.each[turn == Turn.FIRST][rank, number - 1].append(operation.work)
    return found


def _multi_partitioned(root: Part) -> bool:
    """Return whether ranks may hold blocks of a multi-partitioned cube: they are neighbors on a square torus."""
    return any(part.rule is not None and (part.rule.kind, part.rule.grid) == ("torus", "square") for part in root.leaves())


def _fit_nests(part: Part, seen: Mapping[int, Seen], sizes: tuple[int, ...]) -> None:
    """Give an operation the work and the bytes of each rank's blocks where these explain them, first turns apart from later ones.

    Turns are those of a sweep where their number grows with the processes; else (time steps) their mean counts.
    """
    turning = len({max(turn for _, turn, _ in all_.bytes) for all_ in seen.values()}) > 1
    for first, turns in ((True, (Turn.FIRST,)), (False, (Turn.MIDDLE, Turn.LAST))):
        form = fit_nest(_means({p: all_.each[first] for p, all_ in seen.items()}, turning), sizes, turning=turning)
        if form is not None:
            part.nests |= dict.fromkeys(turns, form)
    sent: dict[int, dict[Where, list[float]]] = {p: defaultdict(list) for p in seen}
    for processes, all_ in seen.items():
        for rank, turn, size in all_.bytes:
            sent[processes][rank, turn].append(size)
    if any(len({sample[2] for sample in all_.bytes}) > 1 for all_ in seen.values()):
        part.faces = fit_faces({p: all_.bytes for p, all_ in seen.items()}, sizes) or fit_nest(
            _means(sent, turning), sizes, turning=turning, close=EXACT_BYTES
        )


def _means(each: Mapping[int, Mapping[Where, list[float]]], turning: bool) -> dict[int, dict[Where, float]]:
    """Return the mean of the values of each rank and turn, or of each rank, at the counts that have any."""
    means = {}
    for processes, listed in each.items():
        joined: dict[Where, list[float]] = defaultdict(list)
        for (rank, turn), values in listed.items():
            joined[rank, turn if turning else 0] += values
        if joined:
            means[processes] = {where: float(np.mean(values)) for where, values in joined.items()}
    return means


def _fit(part: Part, seen: Mapping[int, Seen], sizes: tuple[int, ...], grid: str | None, waiting: float, weight: Weight) -> None:
    """Give an operation its size form and its work, from all the times that a rank ran it."""
    if part.name != "wait" and part.volume is None:
        means = {p: float(np.mean([sample[2] for sample in all_.bytes])) for p, all_ in seen.items()}
        part.volume = fit_volume(means, sizes_to_try=sizes)
        samples = {p: all_.bytes for p, all_ in seen.items()}
        if part.name in ROOTED:
            part.faces = fit_rooted(samples, sizes)
        elif part.faces is None:
            part.faces = fit_faces(samples, sizes) if grid is None else fit_edges(samples, sizes, grid)
    works = {t: {p: all_.work[t] for p, all_ in seen.items() if all_.work[t]} for t in Turn if t not in part.nests}
    part.work = {}
    for turn in sorted((turn for turn in works if works[turn]), key=lambda turn: -len(works[turn])):
        part.work[turn] = _work(works[turn], sizes, grid, waiting, next(reversed(part.work.values()), None), weight)
    for turn, other in ((Turn.LAST, Turn.FIRST), (Turn.MIDDLE, Turn.LAST), (Turn.FIRST, Turn.MIDDLE)):
        if other in part.work:
            part.work.setdefault(turn, part.work[other])


Works = Mapping[int, Mapping[int, list[float]]]
"""By process count and rank: the works before an operation, in order."""


def _work(
    works: Works, sizes: tuple[int, ...], grid: str | None, waiting: float, like: WorkForm | None, weight: Weight
) -> WorkForm:
    """Return the form of the work before an operation; one that only one count shows grows like ``like``.

    On a mesh it is that of the place with the most work.
    """
    each = {}
    for processes, ranks in works.items():
        sides = GRIDS[grid](processes) if grid else None
        if sides is not None:
            each[processes] = max(_by_place(ranks, sides).values())
            continue
        mean = float(np.mean([work for listed in ranks.values() for work in listed]))
        each[processes] = mean + waiting * (float(np.mean(_slowest(ranks))) - mean) if waiting else mean
    largest = max(each)
    if len(each) == 1 and like is not None and like(largest) > 0:
        form = like.scaled(each[largest] / like(largest))
    else:
        form = fit_work(each, sizes, weight)
    return form if grid is None else replace(form, places=_places(works, each, grid))


def _slowest(ranks: Mapping[int, list[float]]) -> npt.NDArray[np.float64]:
    return np.array(list(ranks.values())).max(axis=0)


def _by_place(ranks: Mapping[int, list[float]], sides: tuple[int, int]) -> dict[Place, float]:
    work: dict[Place, list[float]] = defaultdict(list)
    for rank, listed in ranks.items():
        work[place_of(rank, sides)] += listed
    return {place: float(np.mean(values)) for place, values in work.items()}


def _places(works: Works, each: Mapping[int, float], grid: str) -> tuple[tuple[Place, float], ...]:
    """Return the work at each place of the grid relative to the place with the most, from the largest count that has the place.

    Empty where all places are within one group of similar instructions.
    """
    factors: dict[Place, float] = {}
    for processes, largest in each.items():
        sides = GRIDS[grid](processes)
        if sides is not None and largest > 0:
            factors |= {place: mean / largest for place, mean in _by_place(works[processes], sides).items()}
    alike = not factors or min(factors.values()) >= SIMILARITY * max(factors.values())
    return () if alike else tuple(factors.items())


def _grid(root: Part) -> str | None:
    """Return the grid whose places matter: that of a mesh, which has borders."""
    return next((part.rule.grid for part in root.leaves() if part.rule is not None and part.rule.kind == "mesh"), None)


def _form(part: Part) -> str:
    return str(part.faces or part.volume or "")

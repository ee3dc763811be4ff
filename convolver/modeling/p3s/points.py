"""Measurable points: seconds of an instruction in each operation's work, from timed runs of small workloads on few processes.

The paper measures on as few processes as the predicted instructions of one need: a smaller workload, whose processes execute what
those of the target will, and whose data lie in the same caches. Such a run is counted once and timed, best several times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError
from convolver.modeling.p3s.parts import Part, Turn
from convolver.modeling.p3s.pattern import check
from convolver.mpi.time_independent import Trace

Key = tuple[int, Turn]
"""An operation (id of its part) and the turn of the loop around it."""
Point = Sequence[Trace]
"""The counted trace of a run and one or more timed ones (work in nanoseconds) of the same run."""
NANOSECOND = 1e-9


@dataclass(frozen=True)
class TimedPoint:
    """One point: its ranks, the instructions that one of them executes in the mean, and the seconds of one instruction."""

    ranks: int
    instructions: float
    seconds_per_instruction: float


@dataclass(frozen=True)
class RatesAt:
    """Seconds of an instruction by operation and turn where a process executes so many in all; ``mean`` of all work."""

    known: Mapping[Key, float]
    mean: float

    def seconds(self, part: int, turn: Turn, instructions: float) -> float:
        """Return the seconds of instructions: of another turn of the operation where none has this one, else by the mean."""
        rate = next((self.known[part, t] for t in (turn, *Turn) if (part, t) in self.known), self.mean)
        return rate * instructions


@dataclass(frozen=True)
class Rates:
    """What the points measured, by the instructions of a process, rising; ``known``: the seconds of one by operation and turn,
    with the instructions of a process at the point.

    A process that executes as much has as much data, whatever its share of the problem: the instructions between two calls
    do not say so where the number of calls grows with the processes (a rank of BT has sqrt(P) blocks).
    """

    points: tuple[TimedPoint, ...]
    known: Mapping[Key, tuple[tuple[float, float], ...]]

    def at(self, instructions: float) -> RatesAt:
        """Return the rates where a process executes so many instructions: between points by their logarithm, beyond as at the
        last."""
        mean = _between(((point.instructions, point.seconds_per_instruction) for point in self.points), instructions)
        return RatesAt({key: _between(listed, instructions) for key, listed in self.known.items()}, mean)


def _between(listed: Iterable[tuple[float, float]], instructions: float) -> float:
    counts, rates = np.array(sorted(listed)).T
    return float(np.interp(np.log(instructions), np.log(counts), rates)) if instructions > 0 else float(rates[0])


def measured_rates(root: Part, points: Sequence[Point]) -> Rates:
    """Return the rates of points; of several timed traces the median before each call counts.

    Raises :class:`ModelError` where the traces of a point made different calls, or calls that the structure does not give: its
    loops must turn as often, so that a smaller workload keeps the steps and, on a mesh, the planes.
    """
    found: dict[Key, list[tuple[float, float]]] = defaultdict(list)
    measured = []
    for counted, *timed in points:
        calls = [[o.key for o in rank] for rank in counted]
        if not timed or any([[o.key for o in rank] for rank in trace] != calls for trace in timed):
            raise ModelError("The counted and the timed traces of a point made different MPI calls; record the same run twice.")
        try:
            check(root, {len(counted): counted})
        except ModelError as error:
            raise ModelError(f"A point does not run like the traces, keep its steps and planes: {error}") from error
        work = sums(root, [works(counted), medians(timed)])
        _, instructions, nanoseconds = sum(work.values(), np.zeros(3)).tolist()
        if not instructions:
            raise ModelError("A point of measurement has no work; give pairs of a counted and a timed trace.")
        measured.append(TimedPoint(len(counted), instructions / len(counted), nanoseconds * NANOSECOND / instructions))
        for key, (_, count, time) in work.items():
            if count > 0:
                found[key].append((measured[-1].instructions, float(time * NANOSECOND / count)))
    ordered = tuple(sorted(measured, key=lambda point: point.instructions))
    return Rates(ordered, {key: tuple(sorted(listed)) for key, listed in found.items()})


Works = list[npt.NDArray[np.float64]]
"""The work before each call, by rank."""


def works(trace: Trace) -> Works:
    """Return the work before each call of each rank."""
    return [np.array([operation.work for operation in rank]) for rank in trace]


def medians(traces: Sequence[Trace]) -> Works:
    """Return the median over traces of the same run of the work before each call."""
    return [np.median(ranks, axis=0) for ranks in zip(*map(works, traces), strict=True)]


def sums(root: Part, runs: Sequence[Works]) -> dict[Key, npt.NDArray[np.float64]]:
    """Return, for each operation and turn, how often all ranks made it and the sum of its work in each of the runs."""
    found: dict[Key, npt.NDArray[np.float64]] = defaultdict(lambda: np.zeros(1 + len(runs)))
    processes = len(runs[0])
    for rank in range(processes):
        for (part, _, turn, _), *work in zip(root.run(rank, processes), *(run[rank] for run in runs), strict=True):
            found[id(part), turn] += (1.0, *work)
    return dict(found)

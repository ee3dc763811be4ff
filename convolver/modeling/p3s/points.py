"""Measurable points: seconds of an instruction in each operation's work, from timed runs of small workloads on few processes.

The paper measures on as few processes as the predicted instructions of one need: a smaller workload, whose processes execute what
those of the target will, and whose data lie in the same caches. Such a run is counted once and timed once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from convolver.errors import ModelError
from convolver.modeling.p3s.parts import Part, Turn
from convolver.modeling.p3s.pattern import check
from convolver.mpi.time_independent import Trace

Key = tuple[int, Turn]
"""An operation (id of its part) and the turn of the loop around it."""
NANOSECOND = 1e-9


@dataclass(frozen=True)
class Rates:
    """By operation and turn: the instructions of its work at the measured points, rising, and the seconds of one; ``mean`` is
    the seconds of an instruction of all work."""

    known: dict[Key, tuple[tuple[float, float], ...]]
    mean: float

    def seconds(self, part: int, turn: Turn, instructions: float) -> float:
        """Return the seconds of so many instructions: between points by the logarithm of the instructions, beyond as at the last.

        Where no point has this turn of the operation another of its turns counts, else the mean of all work.
        """
        points = next((self.known[part, t] for t in (turn, *Turn) if (part, t) in self.known), None)
        if points is None or instructions <= 0:
            return self.mean * instructions
        counts, rates = np.array(points).T
        return float(np.interp(np.log(instructions), np.log(counts), rates)) * instructions


def measured_rates(root: Part, points: Sequence[tuple[Trace, Trace]]) -> Rates:
    """Return the rates of points: pairs of a counted and a timed trace (work in nanoseconds) of the same run.

    Raises :class:`ModelError` where the two made different calls, or calls that the structure does not give: its loops must turn
    as often, so that a smaller workload keeps the steps and, on a mesh, the planes.
    """
    found: dict[Key, list[tuple[float, float]]] = defaultdict(list)
    whole = np.zeros(2)
    for counted, timed in points:
        if [[o.key for o in rank] for rank in counted] != [[o.key for o in rank] for rank in timed]:
            raise ModelError("The counted and the timed trace of a point made different MPI calls; record the same run twice.")
        try:
            check(root, {len(counted): counted})
        except ModelError as error:
            raise ModelError(f"A point does not run like the traces, keep its steps and planes: {error}") from error
        sums: dict[Key, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for rank, (count, time) in enumerate(zip(counted, timed, strict=True)):
            for (part, _, turn, _), a, b in zip(root.run(rank, len(counted)), count, time, strict=True):
                one = sums[id(part), turn]
                one[0] += 1
                one[1] += a.work
                one[2] += b.work * NANOSECOND
        for key, (times, instructions, seconds) in sums.items():
            if instructions > 0:
                found[key].append((instructions / times, seconds / instructions))
                whole += (instructions, seconds)
    if not whole[0]:
        raise ModelError("The points of measurement have no work; give pairs of a counted and a timed trace.")
    return Rates({key: tuple(sorted(listed)) for key, listed in found.items()}, float(whole[1] / whole[0]))

"""The workload to measure in place of a target that is too large, and how near measured ones come to it (the paper's table 5).

A process of a smaller problem on few processes shall execute what one of the target will, so that it has as much data and the
same caches hold them. Side N on P processes becomes N * (p / P)^(1/d) on p, where d sides of the domain shrink together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from convolver.errors import ModelError
from convolver.modeling.p3s.points import Rates, sums, works
from convolver.modeling.p3s.slt import ScalableTrace

NEAR = 0.25
"""Largest difference of instructions at which a point stands for the target; the largest in the paper's table 5 is 0.07."""


@dataclass(frozen=True)
class ComparedPoint:
    """A point beside the target: its ranks, the instructions of one, their difference to those of one of the target as a share of
    these, and the seconds of an instruction."""

    ranks: int
    instructions: float
    difference: float
    seconds_per_instruction: float


@dataclass(frozen=True)
class PhaseWork:
    """The work before an operation in one kind of turn at the target.

    ``times`` is how often a rank makes it in the mean, ``instructions`` those of one time; ``seconds`` those of all times of one
    rank in the mean, ``share`` their part of the rank's computation; ``measured`` says whether a point has the operation.
    """

    operation: str
    partner: str
    turn: str
    times: float
    instructions: float
    seconds: float
    share: float
    measured: bool


def similar_side(side: float, processes: int, measured_on: int, dimensions: int = 3) -> float:
    """Return the side of the problem on ``measured_on`` processes whose process executes what one of ``processes`` does.

    Raises :class:`ModelError` for values that are not positive.
    """
    if min(side, processes, measured_on, dimensions) <= 0:
        raise ModelError("A similar workload needs sides, processes and dimensions above 0.")
    return float(side * (measured_on / processes) ** (1 / dimensions))


def compared_points(scalable: ScalableTrace, processes: int, rates: Rates) -> list[ComparedPoint]:
    """Return the points beside a process of the target, fewest instructions first; raises as :meth:`ScalableTrace.at`."""
    target = scalable.instructions(processes)
    return [
        ComparedPoint(point.ranks, point.instructions, point.instructions / target - 1, point.seconds_per_instruction)
        for point in rates.points
    ]


def between_points(points: Sequence[ComparedPoint]) -> bool:
    """Return whether points stand for the target: one comes near it, or it lies between two."""
    differences = [point.difference for point in points]
    return min(map(abs, differences)) <= NEAR or min(differences) < 0 < max(differences)


def phase_works(scalable: ScalableTrace, processes: int, rates: Rates) -> list[PhaseWork]:
    """Return the work of the target at a process count, most seconds first; raises as :meth:`ScalableTrace.at`."""
    root = scalable.root
    found = sums(root, [works(scalable.at(processes)), works(scalable.at(processes, rates))])
    whole = sum(float(seconds) for _, _, seconds in found.values())
    parts = {id(part): part for part in root.leaves()}
    known = {part for part, _ in rates.known}
    rows = []
    for (identity, turn), (times, instructions, seconds) in found.items():
        if instructions > 0:
            rows.append(
                PhaseWork(
                    operation=parts[identity].name,
                    partner=str(parts[identity].rule or ""),
                    turn=turn.name.lower(),
                    times=float(times / processes),
                    instructions=float(instructions / times),
                    seconds=float(seconds / processes),
                    share=float(seconds / whole),
                    measured=identity in known,
                )
            )
    return sorted(rows, key=lambda row: -row.seconds)

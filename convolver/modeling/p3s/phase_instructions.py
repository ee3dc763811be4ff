"""Instructions of phases over process counts: groups, totals, their constancy, the instruction prediction table (equations 1-4).

The paper's equation 4 divides "TotalInstG" by the weight, while its tables use instructions * processes * weight as the total;
this file follows the tables. The total used for prediction is that of the largest traced process count, as in its table 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError


@dataclass(frozen=True)
class PhaseCount:
    """What one phase does on ``processes`` processes: instructions of one process each time, and how often (the weight)."""

    processes: int
    instructions: int
    weight: int

    @property
    def total(self) -> int:
        """Return the instructions of all processes and repetitions (PTInstPhase), exact."""
        return self.instructions * self.processes * self.weight


def groups(instructions: npt.ArrayLike, similarity: float = 0.95) -> list[list[int]]:
    """Return ranks grouped by similar instruction counts: each within ``similarity`` of the largest of its group."""
    counts = np.asarray(instructions, dtype=np.float64)
    result: list[list[int]] = []
    limit = -1.0
    for rank in np.argsort(-counts, kind="stable").tolist():
        if not result or counts[rank] < limit:
            result.append([])
            limit = similarity * counts[rank]
        result[-1].append(rank)
    return [sorted(group) for group in result]


def group_total(instructions: npt.ArrayLike, group: Sequence[int]) -> int:
    """Return the instructions of a group of ranks (equation 3)."""
    return int(np.asarray(instructions)[list(group)].sum())


def spread(totals: Sequence[int]) -> float:
    """Return (largest - smallest) / smallest of totals over process counts."""
    return (max(totals) - min(totals)) / min(totals)


def check_constant(phases: Mapping[int, Sequence[PhaseCount]], tolerance: float = 0.10) -> dict[int, float]:
    """Return the spread of each phase's total over its process counts.

    Raises :class:`ModelError` when one exceeds ``tolerance``: the method rests on totals that do not change with the processes.
    """
    spreads = {phase: spread([row.total for row in rows]) for phase, rows in phases.items()}
    worst = max(spreads, key=lambda phase: spreads[phase])
    if spreads[worst] > tolerance:
        raise ModelError(
            f"The instructions of phase {worst} change by {100 * spreads[worst]:.1f} % with the processes, more than "
            f"{100 * tolerance:.0f} %: total work is not constant, and P3S cannot predict this program."
        )
    return spreads


def predicted_instructions(rows: Sequence[PhaseCount], processes: int, weight: int) -> int:
    """Return a process's instructions of one phase at a larger count (equation 4), to the nearest integer as in table 4."""
    parts = processes * weight
    return (2 * max(rows, key=lambda row: row.processes).total + parts) // (2 * parts)


def prediction_table(
    phases: Mapping[int, Sequence[PhaseCount]], processes: int, weights: Mapping[int, int]
) -> dict[int, PhaseCount]:
    """Return the instruction prediction table: what each phase does at ``processes``."""
    return {
        phase: PhaseCount(processes, predicted_instructions(rows, processes, weights[phase]), weights[phase])
        for phase, rows in phases.items()
    }

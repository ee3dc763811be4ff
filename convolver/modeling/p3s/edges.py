"""Message sizes of block edges on a mesh that do not divide the domain evenly: which row or column of blocks a rank holds.

N cells are cut into as many parts as the process grid has rows or columns; the first N mod parts of them have a cell more (LU,
Sweep3D). What is sent at the domain's border may be cells less, and what surrounds a block cells more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from convolver.modeling.p3s.face_forms import Sample
from convolver.modeling.p3s.rules import GRIDS

_EXACT = 1e-6
_CELLS = (0, 1, 2)


@dataclass(frozen=True)
class EdgeForm:
    """bytes = factor * (cells of the rank's block along ``axis`` (0 rows, 1 columns) + around), fewer at the domain's borders."""

    factor: float
    size: int
    grid: str
    axis: int
    first: int
    last: int
    around: int

    def __call__(self, processes: int, rank: int, turn: int) -> float:
        """Return the bytes of a rank's message; all turns are alike."""
        return float(self.factor * _cells(self, processes, np.array([rank]))[0])

    def __str__(self) -> str:
        """Return the form as text, as the table of equations prints it."""
        said = f"{self.factor:.6g}*{'column' if self.axis else 'row'} block of {self.size}"
        borders = f", {self.first} less in the first, {self.last} in the last" if self.first or self.last else ""
        return said + (f" + {self.around}" if self.around else "") + borders


def _cells(form: EdgeForm, processes: int, ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    rows, columns = GRIDS[form.grid](processes) or (1, 1)
    at, parts = (ranks % columns, columns) if form.axis else (ranks // columns, rows)
    block = form.size // parts + (at < form.size % parts)
    return np.asarray(block + form.around - form.first * (at == 0) - form.last * (at == parts - 1), dtype=np.float64)


def fit_edges(samples: Mapping[int, Sequence[Sample]], sizes: tuple[int, ...], grid: str) -> EdgeForm | None:
    """Return the form that gives every message of every count exactly, the simplest first; None where there is none.

    ``samples`` are rank, turn and bytes of the messages by process count. None, too, where all ranks of each count send the same.
    """
    if all(len({sample[2] for sample in listed}) == 1 for listed in samples.values()):
        return None
    ranks = {p: np.array([sample[0] for sample in listed]) for p, listed in samples.items()}
    target = np.concatenate([[float(sample[2]) for sample in listed] for listed in samples.values()])
    for around, first, last, size, axis in product(_CELLS, _CELLS, _CELLS, sizes, (0, 1)):
        form = EdgeForm(1.0, size, grid, axis, first, last, around)
        cells = np.concatenate([_cells(form, p, listed) for p, listed in ranks.items()])
        if (cells > 0).all() and np.ptp(target / cells) <= _EXACT * float((target / cells).max()):
            return EdgeForm(float((target / cells).mean()), size, grid, axis, first, last, around)
    return None

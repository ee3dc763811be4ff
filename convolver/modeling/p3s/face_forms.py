"""Message sizes that differ between ranks: of block faces, of block edges, and of collectives with a root.

On a torus of q x q ranks each holds q blocks on a diagonal (BT, SP): the coordinate of its block in turn t of a sweep is
a row + b column + c t + d, modulo q. The side of a block is its share of N cells, less what is not sent at the domain's border.

Edges of blocks on a mesh: N cells are cut into as many parts as the process grid has rows or columns; the first N mod parts of
them have a cell more (LU, Sweep3D). What is sent at the domain's border may be cells less, and what surrounds a block cells more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from convolver.modeling.expression import Values
from convolver.modeling.p3s.rules import GRIDS
from convolver.modeling.p3s.volume import VolumeForm, fit_volume

Coordinate = tuple[int, int, int, int]
Sample = tuple[int, int, int]
"""Rank, turn (from 0) and bytes of one message."""

COORDINATES: tuple[Coordinate, ...] = tuple(
    sorted(
        ((a, b, c, d) for a, b, c, d in product((0, 1, -1), repeat=4) if a or b),
        key=lambda one: sum(abs(number) for number in one),
    )
)
_EXACT = 1e-6


@dataclass(frozen=True)
class FaceForm:
    """bytes = factor * side(u) * side(v) of the block with coordinates u and v; ``inner``: cells less at each border."""

    factor: float
    size: int
    inner: int
    first: Coordinate
    second: Coordinate

    def __call__(self, processes: int, rank: int, turn: int) -> float:
        """Return the bytes of a rank's message in a turn."""
        where = np.array([rank]), np.array([turn])
        sides = [_sides(one, processes, *where, self.size, self.inner) for one in (self.first, self.second)]
        return float(self.factor * sides[0][0] * sides[1][0])

    def __str__(self) -> str:
        """Return the form as text, as the table of equations prints it."""
        return f"{self.factor:.6g}*face of a block of {self.size}, {self.inner} less at borders"


def _sides(
    coordinate: Coordinate, processes: int, ranks: npt.NDArray[np.int64], turns: npt.NDArray[np.int64], size: int, inner: int
) -> Values:
    q = math.isqrt(processes)
    a, b, c, d = coordinate
    at = (a * (ranks // q) + b * (ranks % q) + c * turns + d) % q
    block = size // q + (at < size % q)
    return np.asarray(block - inner * ((at == 0) | (at == q - 1)), dtype=np.float64)


def fit_faces(samples: Mapping[int, Sequence[Sample]], sizes: tuple[int, ...]) -> FaceForm | None:
    """Return the form that gives every message of every count exactly, None where there is none or all ranks send the same."""
    if any(math.isqrt(p) ** 2 != p for p in samples) or all(len({s[2] for s in listed}) == 1 for listed in samples.values()):
        return None
    listed = {p: np.array(sorted(set(all_)), dtype=np.int64) for p, all_ in samples.items()}
    target = np.concatenate([rows[:, 2] for rows in listed.values()]).astype(np.float64)
    for size, inner in product(sizes, (0, 1, 2)):
        if size // math.isqrt(max(samples)) <= inner:
            continue
        known = np.log(np.array([_over(c, listed, size, inner) for c in COORDINATES]))
        for one, first in enumerate(COORDINATES):
            rest = np.log(target) - known[one] - known
            found = np.flatnonzero(np.ptp(rest, axis=1) <= _EXACT)
            if len(found):
                factor = math.exp(float(rest[found[0]].mean()))
                return FaceForm(factor, size, inner, first, COORDINATES[found[0]])
    return None


def _over(coordinate: Coordinate, listed: Mapping[int, npt.NDArray[np.int64]], size: int, inner: int) -> Values:
    return np.concatenate([_sides(coordinate, p, rows[:, 0], rows[:, 1], size, inner) for p, rows in listed.items()])


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


ROOTED = ("gather", "gatherv", "scatter", "scatterv")


@dataclass(frozen=True)
class RootedForm:
    """Bytes of one rank's part by ``part``, those of all processes at ``root``."""

    root: int
    part: VolumeForm

    def __call__(self, processes: int, rank: int, turn: int) -> float:
        """Return the bytes of a rank; all turns are alike."""
        each = round(self.part(processes))
        return float(each * processes if rank == self.root else each)

    def __str__(self) -> str:
        """Return the form as text, as the table of equations prints it."""
        return f"{self.part}, *P at rank {self.root}"


def fit_rooted(samples: Mapping[int, Sequence[Sample]], sizes: tuple[int, ...]) -> RootedForm | None:
    """Return the form where one rank, the same at every count, has the bytes of all, which have one size; None elsewhere.

    ``samples`` are rank, turn and bytes of the collective by process count.
    """
    parts: dict[int, float] = {}
    roots = set()
    for processes, listed in samples.items():
        found = {rank: {size for r, _, size in listed if r == rank} for rank in range(processes)}
        most = max(found, key=lambda rank: max(found[rank], default=0))
        others = {size for rank, all_ in found.items() if rank != most for size in all_}
        if len(others) != 1 or found[most] != {processes * min(others)} or not min(others):
            return None
        roots.add(most)
        parts[processes] = float(min(others))
    return RootedForm(roots.pop(), fit_volume(parts, sizes_to_try=sizes)) if len(roots) == 1 else None

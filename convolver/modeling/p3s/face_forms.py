"""Message sizes of block faces that differ between ranks: whose block a rank holds in which turn of a multi-partition sweep.

On a torus of q x q ranks each holds q blocks on a diagonal (BT, SP): the coordinate of its block in turn t of a sweep is
a row + b column + c t + d, modulo q. The side of a block is its share of N cells, less what is not sent at the domain's border.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
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

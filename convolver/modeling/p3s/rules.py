"""Rules from a rank to its partner that hold for every process count: the general equations' families.

A rule is a function (rank, P) -> partner, or None where the rank has none (the border of a mesh). Processes are seen as a grid of
R x C: square where P is a square, else rows and columns as powers of two, or the balanced factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from convolver.errors import ModelError

Partner: TypeAlias = int | None
Grid: TypeAlias = Callable[[int], tuple[int, int] | None]


def square(p: int) -> tuple[int, int] | None:
    """Return the q x q grid of a square count."""
    q = math.isqrt(p)
    return (q, q) if q * q == p else None


def powers(p: int) -> tuple[int, int] | None:
    """Return the power-of-two grid with as many or twice as many columns as rows."""
    if p & (p - 1):
        return None
    k = p.bit_length() - 1
    return 2 ** (k // 2), 2 ** (k - k // 2)


def powers_tall(p: int) -> tuple[int, int] | None:
    """Return the power-of-two grid with as many or twice as many rows as columns."""
    grid = powers(p)
    return (grid[1], grid[0]) if grid else None


def balanced(p: int) -> tuple[int, int]:
    """Return the factors of a count that are nearest each other, rows at most columns."""
    rows = next(r for r in range(math.isqrt(p), 0, -1) if p % r == 0)
    return rows, p // rows


def balanced_tall(p: int) -> tuple[int, int] | None:
    """Return the balanced factors with rows at least columns."""
    rows, columns = balanced(p)
    return columns, rows


def line(p: int) -> tuple[int, int] | None:
    """Return all processes in one row: rings and chains."""
    return 1, p


GRIDS: dict[str, Grid] = {
    "line": line,
    "square": square,
    "powers": powers,
    "powers tall": powers_tall,
    "balanced": balanced,
    "balanced tall": balanced_tall,
}


@dataclass(frozen=True)
class Rule:
    """One member of a family: ``kind`` with the steps or the mask that makes it definite.

    ``torus`` and ``mesh`` step (rows, columns) on a grid, around its edges or not; ``exchange`` flips the bit 2^first below the
    highest (``side`` "C" or "P") or from the lowest ("1"); ``transpose`` swaps row and column; ``root`` is always rank ``first``.
    """

    kind: str
    grid: str
    first: int = 0
    second: int = 0
    side: str = ""

    def sides(self, processes: int) -> tuple[int, int] | None:
        """Return rows and columns of the rule's grid, None where it does not exist at this count."""
        return GRIDS[self.grid](processes)

    def __call__(self, rank: int, processes: int) -> Partner:
        """Return the partner of a rank; None at a border, ValueError where the grid does not exist at this count."""
        if self.kind == "root":
            return self.first
        sides = self.sides(processes)
        if sides is None:
            raise ValueError(f"{processes} processes form no {self.grid} grid")
        if self.kind == "transpose":
            return _transpose(rank, *sides)
        if self.kind == "exchange":
            return self._exchange(rank, processes, *sides)
        rows, columns = sides
        row, column = rank // columns + self.first, rank % columns + self.second
        if self.kind == "torus":
            return row % rows * columns + column % columns
        return row * columns + column if 0 <= row < rows and 0 <= column < columns else None

    def _exchange(self, rank: int, processes: int, rows: int, columns: int) -> Partner:
        span = {"C": columns, "R": rows, "P": processes, "1": 1}[self.side]
        mask = span >> self.first if self.side != "1" else 1 << self.first
        if mask == 0 or (self.side != "1" and self.first == 0):
            return None
        mask *= columns if self.side == "R" else 1
        partner = rank ^ mask
        return partner if partner < processes else None

    def __str__(self) -> str:
        """Return the rule in words, as the table of equations prints it."""
        if self.kind == "root":
            return f"rank {self.first}"
        if self.kind == "transpose":
            return f"transposed on the {self.grid} grid"
        if self.kind == "exchange":
            return (
                f"bit {'2^' + str(self.first) if self.side == '1' else self.side + '/2^' + str(self.first)} flipped ({self.grid})"
            )
        return f"{self.kind} step ({self.first:+d}, {self.second:+d}) on the {self.grid} grid"


def _transpose(rank: int, rows: int, columns: int) -> Partner:
    """Return the partner that holds the transposed block; on a grid with twice as many columns, pairs of columns count as one
    (as in NPB's CG)."""
    if rows == columns:
        return rank % rows * rows + rank // rows
    if columns == 2 * rows:
        half = rank // 2
        return 2 * (half % rows * rows + half // rows) + rank % 2
    return None


_STEPS = sorted({*product(range(-2, 3), repeat=2)} - {(0, 0)}, key=lambda s: (abs(s[0]) + abs(s[1]), -s[1], -s[0]))
"""Shortest first, so that the simplest of equal rules is found first."""


def families() -> Iterator[Rule]:
    """Yield every rule that is tried, simple ones first: meshes and tori (static, EC2), exchanges and permutations (EC1)."""
    for kind in ("mesh", "torus"):
        for grid in GRIDS:
            for first, second in _STEPS:
                if grid != "line" or first == 0:
                    yield Rule(kind, grid, first, second)
    for grid in ("square", "powers", "powers tall"):
        yield Rule("transpose", grid)
    for side, grid in (
        ("1", "line"),
        ("P", "line"),
        ("C", "powers"),
        ("C", "powers tall"),
        ("R", "powers"),
        ("R", "powers tall"),
    ):
        for level in range(0 if side == "1" else 1, 16):
            yield Rule("exchange", grid, level, 0, side)
    yield Rule("root", "line")


def general_equation(partners: Mapping[int, Sequence[Partner]]) -> Rule:
    """Return the simplest rule that gives the partners of every rank at every traced count.

    Raises :class:`ModelError` when no family does: the pattern is irregular, and P3S does not apply.
    """
    for rule in families():
        if _explains(rule, partners):
            return rule
    counts = ", ".join(str(count) for count in partners)
    raise ModelError(f"No rule gives the partners at {counts} processes; the pattern is irregular or needs other counts.")


def _explains(rule: Rule, partners: Mapping[int, Sequence[Partner]]) -> bool:
    try:
        return all(rule(rank, count) == to for count, listed in partners.items() for rank, to in enumerate(listed))
    except ValueError:
        return False

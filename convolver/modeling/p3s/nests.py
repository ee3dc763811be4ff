"""Loop nests over the blocks of a multi-partitioned domain: what the block that a rank holds in a turn costs, and what it sends.

On q x q ranks a cube of N^3 cells is cut into q^3 blocks, of which each rank holds q on a diagonal, so that a sweep along any
side keeps all ranks busy (Naik, 1995; BT and SP): block c of the rank in row r and column k is at (k + c, r - c, c), modulo q.
Loop nests over a block of sides x, y, z execute a sum of products of these, or of X, Y, Z, the sides without the cells at the
domain's border. Counts are exact and blocks differ between ranks and turns, so that few process counts tell many terms apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from convolver.modeling.expression import Values

Where = tuple[int, int]
"""A rank and a turn, from 0."""

CELLS = ("XYZ", "XY", "XZ", "YZ", "X", "Y", "Z", "1", "xyz", "xy", "xz", "yz", "x", "y", "z")
FACES = ("yz:x<q", "xz:y<q", "xy:z<q", "yz:x>1", "xz:y>1", "xy:z>1")
"""Faces that blocks have in common with the next one along a side, or with the one before: not at the domain's border."""
PRODUCTS = (*CELLS, *FACES)
_EVERY = "all "
"""Before a product: its sum over all blocks of the rank."""
CLOSE = 0.02
"""Largest relative error of a rank and turn with which a form is taken."""
_EXACT = 1e-3
_BETTER = 0.5
_ROUNDING = 1e-9
_DIGITS = 9


@dataclass(frozen=True)
class Sweep:
    """Which block a turn is about: that in layer ``turn + ahead`` along an axis (0, 1, 2), from the far end if ``backward``."""

    axis: int
    backward: bool = False
    ahead: int = 0

    def __str__(self) -> str:
        """Return the sweep as text."""
        return ("-" if self.backward else "+") + "xyz"[self.axis]


@dataclass(frozen=True)
class NestForm:
    """Work before an operation, or bytes: the sum of coefficient * product over the block of the turn or all blocks of the rank.

    ``turning`` says whether the turn matters; ``error`` is the largest relative error of a rank and turn of the traces.
    """

    size: int
    sweep: Sweep
    turning: bool
    terms: tuple[tuple[str, float], ...]
    error: float

    def __call__(self, processes: int, rank: int, turn: int) -> float:
        """Return the work or the bytes of a rank in a turn, from 0."""
        works = _works(self, processes)
        return float(works[turn % len(works) if self.turning else 0, rank])

    def __str__(self) -> str:
        """Return the sum as text."""
        said = " + ".join(f"{c:.5g}" + ("" if name == "1" else f"*{name}") for name, c in self.terms)
        own = any(not name.startswith(_EVERY) for name, _ in self.terms)
        return f"{said} of a block of {self.size}" + (f", sweep {self.sweep}" if own else "")


def fit_nest(
    works: Mapping[int, Mapping[Where, float]], sizes: Sequence[int], *, turning: bool, close: float = CLOSE
) -> NestForm | None:
    """Return the form of ``works``, by process count, rank and turn; None where none gives all of them within ``close``.

    ``sizes`` are the sides N to try. The block of the turn is tried first, then all blocks of the rank, then both together; the
    first that is exact is taken. None, too, for one count, counts that are no squares, works of 0 and where no more works differ
    than there are terms: nothing would test these.
    """
    if len(works) < 2 or any(math.isqrt(p) ** 2 != p or p < 4 for p in works):
        return None
    target = np.array([work for all_ in works.values() for work in all_.values()])
    if target.min() <= 0:
        return None
    # Each count weighs the same, however many ranks it has; errors are relative.
    weight = np.concatenate([np.full(len(all_), len(all_) ** -0.5) for all_ in works.values()])
    differing = len({float(f"{work:.{_DIGITS}g}") for work in target.tolist()})
    best: tuple[float, NestForm] | None = None
    for scope in (CELLS, _sums(), (*CELLS, *_sums())):
        sweeps = product(range(3), (False, True), (0, 1, -1)) if "X" in scope else [(0, False, 0)]
        for (axis, backward, ahead), size in product(sweeps, sizes):
            form = NestForm(size, Sweep(axis, backward, ahead), turning, tuple((name, 1.0) for name in scope), math.inf)
            distance, made = _fitted(form, works, target, weight)
            if len(made.terms) < differing and (best is None or distance < _BETTER * best[0]):
                best = distance, made
        if best is not None and best[1].error <= min(_EXACT, close):
            break
    return best[1] if best is not None and best[1].error <= close else None


def _sums() -> tuple[str, ...]:
    return (*(_EVERY + name for name in PRODUCTS), "1")


def _fitted(form: NestForm, works: Mapping[int, Mapping[Where, float]], target: Values, weight: Values) -> tuple[float, NestForm]:
    """Return the distance and the form with coefficients, none negative: a loop executes no fewer instructions for more cells."""
    names = list(dict.fromkeys(name for name, _ in form.terms))
    rows = [_columns(form, p, names)[:, *np.array([[turn, rank] for rank, turn in all_]).T] for p, all_ in works.items()]
    matrix = np.concatenate(rows, axis=1).T / target[:, None]
    scale = np.abs(matrix).max(axis=0)
    scale[scale == 0] = 1.0
    solved, distance = nnls(matrix / scale * weight[:, None], weight)
    error = float(np.abs(matrix @ (solved / scale) - 1).max())
    terms = tuple((n, float(c)) for n, c, part in zip(names, solved / scale, solved, strict=True) if part > _ROUNDING)
    return float(distance), NestForm(form.size, form.sweep, form.turning, terms, error)


def _columns(form: NestForm, processes: int, names: Sequence[str]) -> Values:
    """Return the products by name, turn and rank."""
    table, at = _products(processes, form.size), _block(form.sweep, processes)
    ranks = np.arange(processes)
    columns = []
    for name in names:
        values = table[PRODUCTS.index(name.removeprefix(_EVERY))]
        alone = values[at, ranks] if not name.startswith(_EVERY) else np.broadcast_to(values.sum(axis=0), at.shape)
        columns.append(alone)
    return np.array(columns)


@lru_cache(maxsize=4096)
def _works(form: NestForm, processes: int) -> Values:
    columns = _columns(form, processes, [name for name, _ in form.terms])
    return np.tensordot(np.array([coefficient for _, coefficient in form.terms]), columns, axes=1)


@lru_cache(maxsize=256)
def _products(processes: int, size: int) -> Values:
    """Return the products of the sides of each block: by name, number of the block and rank."""
    q = math.isqrt(processes)
    at = _places(processes)
    sides = (size // q + (at < size % q)).astype(np.float64)
    x, y, z = sides
    X, Y, Z = np.maximum(sides - (at == 0) - (at == q - 1), 0.0)
    one = np.ones_like(x)
    cells = [X * Y * Z, X * Y, X * Z, Y * Z, X, Y, Z, one, x * y * z, x * y, x * z, y * z, x, y, z]
    faces = np.array([y * z, x * z, x * y])
    return np.array([*cells, *(faces * (at < q - 1)), *(faces * (at > 0))])


@lru_cache(maxsize=256)
def _places(processes: int) -> npt.NDArray[np.int64]:
    """Return the place of each block of each rank along the three sides."""
    q = math.isqrt(processes)
    row, column = np.divmod(np.arange(processes), q)
    number = np.arange(q)[:, None]
    return np.array([(column + number) % q, (row - number) % q, number + 0 * row])


@lru_cache(maxsize=1024)
def _block(sweep: Sweep, processes: int) -> npt.NDArray[np.int64]:
    """Return the number of the block that each turn of a sweep is about, by turn and rank."""
    q = math.isqrt(processes)
    along = _places(processes)[sweep.axis]
    turns = np.arange(q)
    layers = ((q - 1 - turns if sweep.backward else turns) + sweep.ahead) % q
    return np.array([np.argmax(along == layer, axis=0) for layer in layers])

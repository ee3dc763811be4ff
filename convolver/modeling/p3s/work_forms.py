"""The work before an operation over process counts: constant totals where they are, else sums of what blocks of a domain cost.

The paper takes the total of all processes as constant. It is, up to surfaces: a block of n^3 cells has ghost cells, buffers and
loop overheads that grow as n^2, n and 1, and their share grows with the processes. With exact counts three traces are enough to
tell these apart, so each operation's work is a sum of few such terms, none negative; the constant total is the simplest of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from scipy.optimize import nnls

from convolver.modeling.p3s.rules import balanced

Place = tuple[int, int]
"""Where on a grid a rank is, in rows and columns: 1 first, 2 inside, 3 last, 4 the only one."""

Form = Callable[[int, int], float]
"""What the work of one process each time can be proportional to: a function of process count and problem size."""

PLAIN: dict[str, Form] = {
    "1/P": lambda p, n: 1 / p,
    "1": lambda p, n: 1.0,
    "1/q^3": lambda p, n: p**-1.5,
    "1/q": lambda p, n: p**-0.5,
    "1/R": lambda p, n: 1 / balanced(p)[0],
    "1/C": lambda p, n: 1 / balanced(p)[1],
}
"""Equal shares of a domain; q = sqrt(P), R x C the process grid."""
CUBES: dict[str, Form] = {
    "1": lambda p, n: 1.0,
    "ceil(N/q)": lambda p, n: float(block_of(p, n)),
    "ceil(N/q)^2": lambda p, n: float(block_of(p, n) ** 2),
    "ceil(N/q)^3": lambda p, n: float(block_of(p, n) ** 3),
    "q*ceil(N/q)^2": lambda p, n: math.sqrt(p) * block_of(p, n) ** 2,
    "q*ceil(N/q)^3": lambda p, n: math.sqrt(p) * block_of(p, n) ** 3,
}
COLUMNS: dict[str, Form] = {
    "1": lambda p, n: 1.0,
    "ceil(N/R)": lambda p, n: float(-(-n // balanced(p)[0])),
    "ceil(N/C)": lambda p, n: float(-(-n // balanced(p)[1])),
    "ceil(N/R)*ceil(N/C)": lambda p, n: float(-(-n // balanced(p)[0]) * -(-n // balanced(p)[1])),
}
"""The largest block of a domain of N cells a side, cut in three or two directions."""
FORMS = {**PLAIN, **CUBES, **COLUMNS}
TOTAL = "1/(P*W)"
"""The paper's law: the total over all processes and repetitions W is constant."""
Weight = Callable[[int], int]
_ENOUGH = 0.002
_OVERHEAD = 0.1
"""Largest share of work that no process is relieved of, beside work that is shared: loop overheads, not blocks."""


def block_of(processes: int, size: int) -> int:
    """Return the side of the largest block where each side is cut into sqrt(P) parts."""
    return math.ceil(size / math.sqrt(processes) - 1e-9)


def _value(name: str, processes: int, size: int, weight: Weight | None) -> float:
    return 1 / (processes * (weight(processes) if weight else 1)) if name == TOTAL else FORMS[name](processes, size)


@dataclass(frozen=True)
class WorkForm:
    """Work of one process each time: the sum of coefficient * form(P, N), times the factor of the rank's place on the grid.

    ``error`` is the largest relative error on the traces.
    """

    terms: tuple[tuple[str, float], ...]
    error: float = 0.0
    size: int = 1
    places: tuple[tuple[Place, float], ...] = ()
    weight: Weight | None = field(default=None, compare=False, repr=False)

    def __call__(self, processes: int, place: Place = (0, 0)) -> float:
        """Return the work of one process each time, at least 0."""
        value = sum(coefficient * _value(name, processes, self.size, self.weight) for name, coefficient in self.terms)
        return max(value, 0.0) * dict(self.places).get(place, 1.0)

    def fixed_share(self, processes: int) -> float:
        """Return the share of what does not fall with the processes, 0 where it is all there is."""
        fixed = dict(self.terms).get("1", 0.0)
        return fixed / self(processes) if len(self.terms) > 1 else 0.0

    def scaled(self, factor: float) -> WorkForm:
        """Return the same form with other coefficients, without places."""
        return replace(self, terms=tuple((name, c * factor) for name, c in self.terms), places=())

    def __str__(self) -> str:
        """Return the sum as text."""
        return " + ".join(f"{c:.5g}" + ("" if name == "1" else f"*{name}") for name, c in self.terms) or "0"


def place_of(rank: int, sides: tuple[int, int]) -> Place:
    """Return where on the grid a rank is."""

    def along(index: int, length: int) -> int:
        return 4 if length == 1 else 1 if index == 0 else 3 if index == length - 1 else 2

    return along(rank // sides[1], sides[0]), along(rank % sides[1], sides[1])


def fit_work(each: Mapping[int, float], sizes: tuple[int, ...] = (), weight: Weight | None = None) -> WorkForm:
    """Return the form of the work of one process each time (``each``), by process count; ``weight``: how often it occurs.

    The fewest terms that explain the traces within 0.2 %; where none do, the best. There are fewer terms than counts, so that the
    traces test them, and no coefficient is negative: what is fitted between blocks must not go under 0 beyond them.
    """
    if max(each.values()) == 0:
        return WorkForm(())
    if min(each.values()) <= 0 or len(each) == 1:
        largest = max(each)
        return WorkForm(((TOTAL, each[largest] * largest * (weight(largest) if weight else 1)),), math.inf, weight=weight)
    families: list[tuple[Iterable[str], int]] = [((TOTAL, *PLAIN), 1)]
    families += [(forms, size) for size in sizes for forms in (CUBES, COLUMNS)]
    best: WorkForm | None = None
    for number in range(1, max(len(each), 2)):
        made = [_sum(names, each, size, weight) for forms, size in families for names in combinations(forms, number)]
        nearest = min((work for work in made if work.fixed_share(max(each)) <= _OVERHEAD), key=lambda work: work.error)
        if best is None or nearest.error < 0.5 * best.error:
            best = nearest
        if best.error <= _ENOUGH:
            break
    assert best is not None
    return best


def _sum(names: tuple[str, ...], each: Mapping[int, float], size: int, weight: Weight | None) -> WorkForm:
    target = np.array(list(each.values()))
    matrix = np.array([[_value(name, p, size, weight) for name in names] for p in each])
    scale = np.abs(matrix).max(axis=0)
    scaled = matrix / scale / target[:, None]
    coefficients = nnls(scaled, np.ones(len(target)))[0] / scale
    error = float(np.max(np.abs(matrix @ coefficients / target - 1)))
    return WorkForm(tuple((n, float(c)) for n, c in zip(names, coefficients, strict=True) if c), error, size, weight=weight)

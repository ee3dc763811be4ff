"""Genetic programming for the correction term: tournament selection, elitism, summands scaled in closed form.

Small by intent: on few points large trees never beat the model they correct; populations of some hundred and short trees do.
Trees are judged by the errors of points that their coefficients have not seen (:mod:`convolver.modeling.mecp.linear_scaling`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from convolver.modeling.mecp.linear_scaling import MOST, scale, summands
from convolver.modeling.mecp.operon import search_operon
from convolver.modeling.mecp.trees import Tree, crossover, evaluate_tree, mutate, random_tree, text_of

Values = npt.NDArray[np.float64]

_LARGEST = 1e9


@dataclass(frozen=True)
class Settings:
    """Search settings; the paper's are 3000 trees, 100 generations, 90 % crossover, 10 % mutation, depth 7.

    ``search`` is ``own`` or ``operon``; the latter knows no weights and no parsimony.
    """

    population: int = 150
    generations: int = 25
    crossover: float = 0.9
    mutation: float = 0.1
    depth: int = 4
    length: int = 14
    tournament: int = 5
    parsimony: float = 0.01
    search: str = "own"


@dataclass(frozen=True)
class BestTree:
    """The best tree: its summands, their coefficients, an offset, and the error of left-out points with the price of length."""

    tree: Tree
    parts: tuple[Tree, ...]
    coefficients: tuple[float, ...]
    offset: float
    error: float

    def values(self, columns: Mapping[str, Values], size: int) -> Values:
        """Return the term's values at ``size`` points."""
        total = np.full(size, self.offset)
        for part, coefficient in zip(self.parts, self.coefficients, strict=True):
            total = total + coefficient * evaluate_tree(part, columns, size)
        return total

    def text(self) -> str:
        """Return the term as an expression of its variables."""
        products = (f"{c!r}*({text_of(p)})" for c, p in zip(self.coefficients, self.parts, strict=True))
        return " + ".join([repr(self.offset), *products])


class _Judge:
    """Scales trees to the wanted corrections; values of summands, which many trees share, are computed once."""

    def __init__(self, columns: Mapping[str, Values], wanted: Values, weights: Values, parsimony: float) -> None:
        self._columns, self._wanted, self._weights, self._parsimony = columns, wanted, weights, parsimony
        self._base = float((weights * wanted**2).sum()) or 1.0
        self._known: dict[Tree, Values | None] = {}

    def __call__(self, tree: Tree) -> BestTree:
        parts = summands(tree)
        columns = [self._values(part) for part in parts[:MOST]]
        usable = [column for column in columns if column is not None]
        if 0 < len(parts) == len(usable):
            scaling = scale(np.column_stack(usable), self._wanted, self._weights)
            if scaling is not None:
                error = scaling.error / self._base + self._parsimony * len(tree)
                return BestTree(tree, parts, scaling.coefficients, scaling.offset, error)
        return BestTree(tree, (), (), float(np.average(self._wanted, weights=self._weights)), np.inf)

    def _values(self, part: Tree) -> Values | None:
        if part not in self._known:
            with np.errstate(all="ignore"):
                values = evaluate_tree(part, self._columns, len(self._wanted))
                fine = np.isfinite(values).all() and np.abs(values).max() < _LARGEST
            self._known[part] = values if fine else None
        return self._known[part]


def evolve(
    columns: Mapping[str, Values], wanted: Values, weights: Values, *, seed: int, settings: Settings | None = None
) -> BestTree:
    """Return the tree whose scaled summands explain ``wanted`` best: squares of left-out points, and a price for length."""
    use = settings or Settings()
    rng = np.random.default_rng(seed)
    names = tuple(columns)
    judged = _Judge(columns, wanted, weights, use.parsimony)
    if use.search == "operon":
        return judged(search_operon(columns, wanted, seed=seed, settings=use))
    depths = rng.integers(1, use.depth + 1, use.population)
    trees = [random_tree(rng, names, int(depth), bool(rng.integers(2))) for depth in depths]
    people = [judged(tree) for tree in trees if len(tree) <= use.length] or [judged((names[0],))]
    known = {found.tree: found for found in people}
    for _ in range(use.generations):
        people.sort(key=lambda found: found.error)
        children = people[: max(1, use.population // 50)]
        while len(children) < use.population:
            tree = _parent(rng, people, use).tree
            if rng.random() < use.crossover:
                tree = crossover(rng, tree, _parent(rng, people, use).tree, use.length)
            if rng.random() < use.mutation or tree in known:
                tree = mutate(rng, tree, names, use.length)
            if tree not in known:
                known[tree] = judged(tree)
            children.append(known[tree])
        people = children
    return min(people, key=lambda found: found.error)


def _parent(rng: np.random.Generator, people: list[BestTree], use: Settings) -> BestTree:
    picks = rng.integers(len(people), size=min(use.tournament, len(people)))
    return min((people[i] for i in picks), key=lambda found: found.error)

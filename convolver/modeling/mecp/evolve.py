"""Genetic programming for the correction term: tournament selection, elitism, linear scaling, early stop.

Small by intent: on few points large trees never beat the model they correct; populations of some hundred and short trees do.
Linear scaling (the best slope and offset of each tree, in closed form) spares the search from finding constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from convolver.modeling.mecp.operon import search_operon
from convolver.modeling.mecp.trees import Tree, crossover, evaluate_tree, mutate, random_tree

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """Search settings; the paper's are 3000 trees, 100 generations, 90 % crossover, 10 % mutation, depth 7.

    ``search`` is ``own`` or ``operon``; the latter knows no weights and no parsimony.
    """

    population: int = 150
    generations: int = 25
    crossover: float = 0.9
    mutation: float = 0.1
    depth: int = 3
    length: int = 12
    tournament: int = 5
    parsimony: float = 0.0005
    search: str = "own"


@dataclass(frozen=True)
class Found:
    """The best tree with the slope and offset of its values, and its error on the training points."""

    tree: Tree
    slope: float
    offset: float
    error: float


def scaled(values: Values, wanted: Values, weights: Values) -> tuple[float, float]:
    """Return slope and offset that bring a tree's values nearest to the wanted corrections."""
    total = weights.sum()
    mean_v, mean_w = float((weights * values).sum() / total), float((weights * wanted).sum() / total)
    variance = float((weights * (values - mean_v) ** 2).sum())
    if variance < 1e-12 * max(1.0, mean_v**2) * total:
        return 0.0, mean_w
    slope = float((weights * (values - mean_v) * (wanted - mean_w)).sum() / variance)
    return slope, mean_w - slope * mean_v


def evolve(
    columns: Mapping[str, Values], wanted: Values, weights: Values, *, seed: int, settings: Settings | None = None
) -> Found:
    """Return the tree whose scaled values explain ``wanted`` best (weighted squares plus a price for length)."""
    use = settings or Settings()
    rng = np.random.default_rng(seed)
    names = tuple(columns)
    size = len(wanted)
    base = float((weights * wanted**2).sum()) or 1.0

    def judged(tree: Tree) -> Found:
        with np.errstate(all="ignore"):
            values = evaluate_tree(tree, columns, size)
            if not np.isfinite(values).all() or np.abs(values).max() > 1e12:
                return Found(tree, 0.0, 0.0, np.inf)
            slope, offset = scaled(values, wanted, weights)
            error = float((weights * (wanted - slope * values - offset) ** 2).sum()) / base
        return Found(tree, slope, offset, error + use.parsimony * len(tree))

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


def _parent(rng: np.random.Generator, people: list[Found], use: Settings) -> Found:
    picks = rng.integers(len(people), size=min(use.tournament, len(people)))
    return min((people[i] for i in picks), key=lambda found: found.error)

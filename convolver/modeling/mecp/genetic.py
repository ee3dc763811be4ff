"""Genetic algorithm for the parameters of the model while the correction term stays (cases 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from convolver.modeling.mecp.correct import Corrected
    from convolver.modeling.mecp.semi_empirical import SemiEmpirical
    from convolver.modeling.table import Observations

Values = npt.NDArray[np.float64]


def minimise(
    cost: Callable[[Values], float],
    low: Values,
    high: Values,
    start: Values,
    *,
    seed: int,
    population: int = 24,
    generations: int = 15,
) -> Values:
    """Return the best point of a real-coded genetic algorithm in a box: blend crossover, normal mutation, two elite.

    ``start`` is one of the first population, so the result is never worse than it.
    """
    rng = np.random.default_rng(seed)
    people = np.vstack([start, rng.uniform(low, high, (population - 1, len(start)))])
    costs = np.array([cost(person) for person in people])
    for _ in range(generations):
        order = np.argsort(costs)
        people, costs = people[order], costs[order]
        parents = rng.integers(population, size=(population - 2, 2, 3)).min(axis=2)  # tournaments of three in rank order
        blend = rng.uniform(-0.25, 1.25, (population - 2, len(start)))
        children = people[parents[:, 0]] * blend + people[parents[:, 1]] * (1 - blend)
        moved = rng.random(children.shape) < 0.1
        children = np.clip(children + moved * rng.normal(0, 0.1, children.shape) * (high - low), low, high)
        people = np.vstack([people[:2], children])
        costs = np.concatenate([costs[:2], [cost(child) for child in children]])
    return np.asarray(people[int(np.argmin(costs))])


def search_parameters(
    form: SemiEmpirical, data: Observations, fitted: Mapping[str, float], result: Corrected, *, seed: int, shift: float
) -> dict[str, float]:
    """Return parameters within ``shift`` (relative) of their fit and within their bounds that serve the corrected model best."""
    names = list(form.bounds)
    start = np.array([fitted[name] for name in names])
    box = np.array([form.bounds[name] for name in names])
    low = np.maximum(np.minimum(start * (1 - shift), start * (1 + shift)), box[:, 0])
    high = np.minimum(np.maximum(start * (1 - shift), start * (1 + shift)), box[:, 1])

    def cost(point: Values) -> float:
        values = replace(result, parameters=dict(zip(names, point.tolist(), strict=True)))(data.x)
        total = float((np.sqrt(data.y) * np.log(np.maximum(values, 1e-300) / data.y) ** 2).sum())
        return total if np.isfinite(total) else np.inf

    best = minimise(cost, low, high, start, seed=seed)
    return dict(zip(names, best.tolist(), strict=True))

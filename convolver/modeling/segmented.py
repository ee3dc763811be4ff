"""Segmented scaling models: two normal forms with a change point, where one law does not explain all points."""

from __future__ import annotations

import msgspec
import numpy as np

from convolver.errors import ModelError, ModelUsageError
from convolver.modeling.expression import evaluate
from convolver.modeling.model_artifact import Model, Term
from convolver.modeling.normal_form import fit_normal_form, rank
from convolver.modeling.table import Observations

_LEAST = 3
_GAIN = 10.0
_EXACT = 1e-9


def change_point(data: Observations, *, least: int = _LEAST) -> tuple[float, float] | None:
    """Return the largest x of the first segment and the smallest of the second, or None where one law explains the data.

    Every split with at least ``least`` points a side is tried; the segments' joint relative error must fall to a tenth of the
    single law's, or to zero.
    """
    (name,) = data.features
    order = np.argsort(data.x[name], kind="stable")
    points = data.take(order)
    whole = _squares(points)
    best: tuple[float, int] | None = None
    for cut in range(least, len(points) - least + 1):
        index = np.arange(len(points))
        error = _squares(points.take(index < cut)) + _squares(points.take(index >= cut))
        if best is None or error < best[0] - _EXACT:
            best = (error, cut)
    if best is None or best[0] * _GAIN >= whole or whole < _EXACT:
        return None
    x = points.x[name]
    return float(x[best[1] - 1]), float(x[best[1]])


def _squares(data: Observations) -> float:
    """Return the sum of squared relative residuals of the best normal form of a segment."""
    best = rank(data, select="leave-one-out", nonnegative=False)[0]
    matrix = np.column_stack([np.broadcast_to(evaluate(term, data.x), data.y.shape) for term in best.terms])
    scale = np.where(data.y > 0, data.y, np.abs(data.y).max())
    solution, *_ = np.linalg.lstsq(matrix / scale[:, None], data.y / scale, rcond=None)
    return float((((matrix @ solution - data.y) / scale) ** 2).sum())


def fit_segmented(data: Observations, /, *, least: int = _LEAST) -> Model:
    """Fit a normal form with one change point; without one, this is the plain normal form.

    Raises :class:`ModelError` for more than one parameter or too few points.
    """
    if len(data.features) != 1:
        raise ModelUsageError("Segmented models have one parameter; fit the others with the normal form.")
    if len(np.unique(data.x[data.features[0]])) < 2 * least:
        raise ModelError(f"A segmented model needs at least {2 * least} points, {least} on each side.")
    (name,) = data.features
    found = change_point(data, least=least)
    if found is None:
        model = fit_normal_form(data)
        return msgspec.structs.replace(model, notes=(*model.notes, "one law explains all points: no change point"))
    left, right = (fit_normal_form(data.take(mask), select="leave-one-out", nonnegative=False) for mask in _sides(data, found))
    middle = (found[0] + found[1]) / 2
    terms = [*_named("below", left), *_named("above", right)]
    formula = f"where({name} < {middle!r}, {_sum('below', left)}, {_sum('above', right)})"
    notes = (f"change between {name} = {found[0]:g} and {found[1]:g}", f"below: {left.equation()}", f"above: {right.equation()}")
    return Model(
        name="segmented",
        kind="segmented",
        target=data.target,
        features=data.features,
        terms=tuple(terms),
        formula=formula,
        notes=notes,
        quality={"change_low": found[0], "change_high": found[1]},
    )


def _sides(data: Observations, found: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    x = data.x[data.features[0]]
    return x <= found[0], x >= found[1]


def _named(side: str, model: Model) -> list[Term]:
    """Return the terms of one side under the names that they have in the formula."""
    return [msgspec.structs.replace(term, expression=f"{side}_{number}") for number, term in enumerate(model.active, 1)]


def _sum(side: str, model: Model) -> str:
    return " + ".join(f"{side}_{number}*{term.expression}" for number, term in enumerate(model.active, 1))

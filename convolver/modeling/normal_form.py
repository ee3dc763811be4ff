"""Scaling models in Extra-P's performance model normal form: sums of c x^i log2(x)^j and products of these over parameters; two
of them with a change point, and the power law.

Exponents are those published with Extra-P (42 terms and the constant). Selection is by the small-sample Akaike criterion of
relative residuals (``select="leave-one-out"`` by the relative leave-one-out error); coefficients must not be negative. Both keep
the mean error at 4 times the measured range under half of the noise (tests/bench/models_normal_form.py). With several parameters,
whole levels are left out instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain, combinations, product
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError, ModelUsageError
from convolver.modeling.base import linear_model, parameter_term
from convolver.modeling.expression import Values, evaluate
from convolver.modeling.model_artifact import Model, Term
from convolver.modeling.regress import Fit, ols, relative_weights
from convolver.modeling.table import Observations

_POWERS = {
    0: "1/4 1/3 1/2 2/3 3/4 4/5 1 5/4 4/3 3/2 5/3 7/4 2 9/4 7/3 5/2 8/3 11/4 3",
    1: "0 1/4 1/3 1/2 2/3 3/4 1 5/4 4/3 3/2 2 5/2 3",
    2: "0 1/4 1/3 1/2 2/3 3/4 1 3/2 2 5/2",
}
_FALLING = "1/4 1/3 1/2 2/3 3/4 1 3/2 2"
EXPONENTS = tuple((Fraction(word), logs) for logs, words in _POWERS.items() for word in words.split())
"""The (i, j) of x^i log2(x)^j that Extra-P tries by default."""
NEGATIVE = tuple((-Fraction(word), 0) for word in _FALLING.split())
"""Terms that fall with x, for strong scaling."""
_FLOOR = 1e-20
_KEPT = {2: 10, 3: 3}
_MAX_PAIR_POINTS = 7


def term_text(name: str, power: Fraction | float, logs: int) -> str:
    """Return the expression of a term: ``p^(1/3)*log2(p)``, ``log2(p)^2``."""
    fraction = Fraction(power)
    parts = []
    if fraction:
        plain = fraction.denominator == 1 and fraction > 0
        parts.append(name if fraction == 1 else f"{name}^{fraction}" if plain else f"{name}^({fraction})")
    if logs:
        parts.append(f"log2({name})" + (f"^{logs}" if logs > 1 else ""))
    return "*".join(parts) or "1"


def candidates(name: str, values: Values, y: Values, *, negative: bool | None = None) -> list[str]:
    """Return the terms to try in one parameter; falling ones when ``negative`` or, by default, when y falls with x.

    Terms with logarithms need values >= 1, as a logarithm below zero is no cost.
    """
    if (values <= 0).any():
        raise ModelError(f"The normal form needs values of {name} above 0.")
    falling = _falls(values, y) if negative is None else negative
    used = [(i, j) for i, j in EXPONENTS if j == 0 or values.min() >= 1]
    return [term_text(name, i, j) for i, j in (*used, *(NEGATIVE if falling else ()))]


def _falls(values: Values, y: Values) -> bool:
    """Return whether y falls with the values more often than it rises, over all pairs of points (Kendall's sign)."""
    signs = np.sign(values[:, None] - values) * np.sign(y[:, None] - y)
    return bool(signs.sum() < 0)


class Scored(msgspec.Struct, frozen=True):
    """A hypothesis: its terms, criterion (smaller is better) and relative leave-one-out error."""

    terms: tuple[str, ...]
    criterion: float
    left_out: float


def score(y: Values, columns: Sequence[Values], terms: Sequence[str], select: str, nonnegative: bool) -> Scored | None:
    """Return the criterion of one hypothesis from relative least squares, None where it cannot be fitted or has a coefficient
    below zero though ``nonnegative``."""
    scale = _scale(y)
    matrix, wanted = np.column_stack([*columns]) / scale[:, None], y / scale
    count, size = matrix.shape
    norms = np.sqrt((matrix**2).sum(axis=0))
    q, r = np.linalg.qr(matrix / norms)
    if count <= size or np.abs(np.diag(r)).min() < 1e-9:
        return None
    target = q.T @ wanted
    if nonnegative and (np.linalg.solve(r, target) < -1e-9 * np.abs(target).max()).any():
        return None
    residual = wanted - q @ target
    leverage = np.clip((q**2).sum(axis=1), 0, 1 - 1e-9)
    left_out = float(np.sqrt(np.mean((residual / (1 - leverage)) ** 2)))
    if select == "leave-one-out":
        return Scored(tuple(terms), 2 * count * np.log(max(left_out, _FLOOR**0.5)) + 1e-6 * size, left_out)
    if count - size - 1 <= 0:
        return None
    rss = max(float(residual @ residual), _FLOOR)
    return Scored(tuple(terms), count * np.log(rss / count) + 2 * size + 2 * size * (size + 1) / (count - size - 1), left_out)


def _scale(y: Values) -> Values:
    """Return what residuals are relative to: the values themselves or, where one is 0 or less, their largest size."""
    return y if (y > 0).all() else np.full(len(y), max(float(np.abs(y).max()), 1e-300))


def _search(data: Observations, hypotheses: Sequence[tuple[str, ...]], select: str, nonnegative: bool) -> list[Scored]:
    """Return the hypotheses that could be fitted, best first; equal ones in the order given, which is from simple to complex."""
    names = dict.fromkeys(chain.from_iterable(hypotheses))
    columns = {name: np.broadcast_to(evaluate(name, data.x), data.y.shape) for name in names}
    levels = _levels(data) if len(data.features) > 1 else []
    found = []
    for terms in hypotheses:
        item = score(data.y, [columns[t] for t in terms], terms, select, nonnegative)
        if item is not None and levels:
            item = _by_levels(data.y, np.column_stack([columns[t] for t in terms]), terms, levels)
        found.append(item)
    return sorted((item for item in found if item is not None), key=lambda item: item.criterion)


Masks = list[tuple[npt.NDArray[np.bool_], bool]]


def _levels(data: Observations) -> Masks:
    """Return a mask for each level of each parameter, and whether it is the highest of its parameter."""
    result = []
    for values in data.x.values():
        levels = np.unique(values)
        result += [(values == level, bool(level == levels[-1])) for level in levels if len(levels) > 2]
    return result


def _by_levels(y: Values, matrix: Values, terms: tuple[str, ...], levels: Masks) -> Scored | None:
    """Return the criterion from predicting whole levels of a parameter: points of a level share what disturbs them, so single
    points left out prove little. The highest levels, which extrapolate, count as much as all together."""
    scale, squares = _scale(y), []
    scaled, wanted = matrix / scale[:, None], y / scale
    for mask, top in levels:
        solution, _, rank, _ = np.linalg.lstsq(scaled[~mask], wanted[~mask], rcond=1e-10)
        if rank < len(terms):
            return None
        squares.append((float(np.mean((scaled[mask] @ solution - wanted[mask]) ** 2)), top))
    every = float(np.mean([square for square, _ in squares]))
    highest = float(np.mean([square for square, top in squares if top]))
    criterion = len(y) * (np.log(max(every, _FLOOR)) + np.log(max(highest, _FLOOR))) / 2 + 2 * len(terms)
    return Scored(tuple(terms), criterion, float(np.sqrt(every)))


def _hypotheses(data: Observations, negative: bool | None, terms: int) -> list[tuple[str, ...]]:
    """Return the hypotheses of one parameter: the constant, one term with and without it, and pairs where asked and possible."""
    (name,) = data.features
    singles = candidates(name, data.x[name], data.y, negative=negative)
    result: list[tuple[str, ...]] = [("1",), *(("1", term) for term in singles), *((term,) for term in singles)]
    if terms >= 2 and len(np.unique(data.x[name])) >= _MAX_PAIR_POINTS:
        result += [("1", *pair) for pair in combinations(singles, 2)]
    return result


def _several(data: Observations, negative: bool | None, select: str) -> list[tuple[str, ...]]:
    """Return the hypotheses of several parameters: sums of products of the terms that explain each parameter alone best."""
    keep = _KEPT.get(len(data.features), 2)
    best = [_best_along(data, name, negative, select)[:keep] for name in data.features]
    result: list[tuple[str, ...]] = [("1",)]
    for chosen in product(*best):
        subsets = [s for size in range(1, len(chosen) + 1) for s in combinations(chosen, size)]
        products = ["*".join(subset) for subset in subsets]
        for size in range(1, min(len(products), 3) + 1):
            result += [("1", *group) for group in combinations(products, size)]
            result += [tuple(group) for group in combinations(products, size)]
    return list(dict.fromkeys(result))


def _best_along(data: Observations, name: str, negative: bool | None, select: str) -> list[str]:
    """Return terms of one parameter ordered by how well they explain the lines along it, the other parameters fixed."""
    others = [key for key in data.features if key != name]
    keys = np.array(list(zip(*(data.x[key] for key in others), strict=True)))
    totals: dict[str, float] = {}
    for key in np.unique(keys, axis=0):
        line = data.take((keys == key).all(axis=1))
        if len(line) < 3:
            continue
        for term in candidates(name, data.x[name], data.y, negative=negative):
            column = np.broadcast_to(evaluate(term, line.x), line.y.shape)
            item = score(line.y, [np.ones(len(line)), column], ("1", term), "leave-one-out", False)
            totals[term] = totals.get(term, 0.0) + (item.criterion if item else 0.0)
    if not totals:
        raise ModelError(f"No line along {name} has three points with the other parameters fixed; measure such points.")
    return sorted(totals, key=lambda term: totals[term])


def fit_normal_form(
    data: Observations,
    /,
    *,
    select: str = "evidence",
    terms: int = 1,
    negative: bool | None = None,
    nonnegative: bool = True,
) -> Model:
    """Fit the normal form to one or several parameters and return the best hypothesis.

    ``select`` is ``evidence`` or ``leave-one-out``; ``terms=2`` also tries pairs of terms (one parameter, seven points or more);
    ``negative`` forces terms that fall with x on or off; ``nonnegative`` refuses negative coefficients, which are no costs.
    """
    if select not in ("evidence", "leave-one-out"):
        raise ModelUsageError(f"The selection '{select}' is unknown; use evidence or leave-one-out.")
    ranked = rank(data, select=select, terms=terms, negative=negative, nonnegative=nonnegative)
    best = ranked[0]
    matrix = np.column_stack([np.broadcast_to(evaluate(t, data.x), data.y.shape) for t in best.terms])
    relative = bool((data.y > 0).all())
    fit: Fit = ols(data.y, matrix, best.terms, relative_weights(data.y) if relative else None)
    known: dict[str, Any] = {"left_out_relative_rms": best.left_out, "hypotheses": len(ranked)}
    notes = _rivals(data, ranked)
    return linear_model(fit, data, kind="normal-form", relative=relative, quality=known, notes=notes)


def rank(
    data: Observations, *, select: str = "evidence", terms: int = 1, negative: bool | None = None, nonnegative: bool = True
) -> list[Scored]:
    """Return every hypothesis with its criterion, best first; raises :class:`ModelError` when none can be fitted."""
    several = len(data.features) > 1
    hypotheses = _several(data, negative, select) if several else _hypotheses(data, negative, terms)
    ranked = _search(data, hypotheses, select, nonnegative)
    if not ranked:
        raise ModelError(f"{len(data)} points are too few for the normal form; measure at least 4, better 6.")
    return ranked


def _rivals(data: Observations, ranked: list[Scored]) -> tuple[str, ...]:
    """Return notes naming hypotheses that the data cannot tell from the best one."""
    close = [item for item in ranked[1:4] if item.criterion - ranked[0].criterion < 2]
    return tuple(f"nearly as good: {' + '.join(item.terms)}" for item in close)


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


def fit_power_law(data: Observations, /) -> Model:
    """Fit the power law by least squares of logarithms; raises :class:`ModelError` for values <= 0."""
    if (data.y <= 0).any() or any((values <= 0).any() for values in data.x.values()):
        raise ModelError("A power law needs values and features above 0; leave other points out.")
    design = np.column_stack([np.ones(len(data)), *(np.log(values) for values in data.x.values())])
    fit = ols(np.log(data.y), design, ("1", *data.features))
    names = ["c", *(f"b_{name}" for name in data.features)]
    values = [float(np.exp(fit.coefficients[0])), *fit.coefficients[1:].tolist()]
    errors = [values[0] * float(fit.standard_errors[0]), *fit.standard_errors[1:].tolist()]
    return Model(
        name="power-law",
        kind="power-law",
        target=data.target,
        features=data.features,
        formula="c*" + "*".join(f"{name}^b_{name}" for name in data.features),
        terms=tuple(parameter_term(*item, fit.degrees_of_freedom) for item in zip(names, values, errors, strict=True)),
        residual_variance=fit.residual_variance,
        degrees_of_freedom=fit.degrees_of_freedom,
        relative=True,
    )

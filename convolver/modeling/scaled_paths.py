"""Equation 2 for programs that hide transfers: T(P, L, BW) as the longest of a few paths, each scaled with P.

The linear-models paper scales one line, alpha'(P) LF(P) + beta'(P) L + gamma'(P) / BW. Where computation hides transfers, the
line of a P is a mixture of its paths, and how they mix changes with P; the coefficients of one path scale smoothly (the latencies
of SP's longest chain of messages with sqrt(P), while those of the mixture follow no simple function).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError
from convolver.modeling.base import parameter_term
from convolver.modeling.basis import BASES, choose_basis
from convolver.modeling.cross_validation import per_count
from convolver.modeling.expression import evaluate
from convolver.modeling.linear import FACTORS, UNITS, factors_of, term_of
from convolver.modeling.longest_paths import longest_paths
from convolver.modeling.model_artifact import Lookup, Model, Term
from convolver.modeling.regress import Fit
from convolver.modeling.table import Observations

Values = npt.NDArray[np.float64]
Scaled = list[dict[str, Fit]]
"""For each path the fits of alpha, beta and gamma over P."""

_WORTH = 0.7
_COEFFICIENT_UNITS = {"alpha": "s", "beta": "1", "gamma": "B"}


def fit_scaled_paths(
    data: Observations,
    /,
    *,
    locality: Mapping[Any, float] | None = None,
    corrected: bool = False,
    paths: int | None = None,
    most: int = 3,
    alpha: float = 0.05,
) -> Model:
    """Fit T = max over a few paths of alpha'(P) LF(P) + beta'(P) L + gamma'(P) / BW to a sweep over P, L and BW.

    ``paths`` sets their number; without it another one must reduce the error of left-out P to less than 70 %, up to ``most``.
    ``locality`` and ``corrected`` are those of the kind linear, ``alpha`` the level of its t-tests. Intervals include the error
    of whole left-out P. Raises :class:`ModelError` for fewer than three P or eight samples a path and P.
    """
    factors = factors_of(data, locality)
    counts = np.unique(data.x["P"])
    if len(counts) < 3:
        raise ModelError(f"{len(counts)} process counts do not show how paths scale; sweep at least three.")
    used = np.ones(len(counts)) if corrected else np.array([factors[count] for count in counts])
    tried: dict[int, tuple[float, Values, Values]] = {}
    for number in (paths,) if paths else range(1, most + 1):
        found = _coefficients(data, counts, used, number)
        guess = _left_out(data, counts, used, found, alpha)
        tried[number] = (float(np.sqrt(np.mean((guess / data.y - 1) ** 2))), found, guess)
    number = next(iter(tried))
    for more in tried:
        number = more if tried[more][0] < _WORTH * tried[number][0] else number
    scatter, found, left_out = tried[number]
    scaled = _scale(counts, found, alpha)
    terms, formula = _written(scaled, locality is not None, alpha)
    predicted = _predict(scaled, data, np.interp(data.x["P"], counts, used))
    lookup = {"LF": Lookup(of="P", points=tuple(sorted(factors.items())))} if locality is not None else {}
    fields: dict[str, Any] = {"formula": formula, "tables": lookup, "feature_units": UNITS, "relative": True, "scatter": scatter}
    return Model(
        name="scaled-paths",
        kind="scaled-paths",
        target=data.target,
        features=(*data.features, *lookup),
        terms=tuple(terms),
        quality={"paths": number, "left_out_P_relative_rms": scatter},
        validation=per_count(data.x["P"], data.y, predicted, _own(data, counts, used, found), left_out),
        residual_variance=float(np.mean((predicted / data.y - 1) ** 2)),
        degrees_of_freedom=len(data) - len(terms),
        **fields,
    )


def _coefficients(data: Observations, counts: Values, factors: Values, number: int) -> Values:
    """Return alpha' (without locality), beta and gamma of each P's paths, from the shortest work to the longest: (P, path, 3)."""
    rows = []
    for count, factor in zip(counts, factors, strict=True):
        part = data.take(data.x["P"] == count)
        fits = longest_paths(part.x["L"], part.x["BW"], part.y, number)
        # a P with fewer paths has some of them twice, which changes no maximum
        fits = (*[fits[0]] * (number - len(fits)), *fits)
        rows.append([(fit["alpha"] / factor, fit["beta"], fit["gamma"]) for fit in fits])
    return np.array(rows)


def _own(data: Observations, counts: Values, factors: Values, found: Values) -> Values:
    """Return the seconds of each P's own paths at each observation."""
    at = np.searchsorted(counts, data.x["P"])
    times = np.stack([factors[at], data.x["L"], 1 / data.x["BW"]], axis=-1)
    return np.asarray((found[at] * times[:, None, :]).sum(axis=-1).max(axis=1))


def _scale(counts: Values, found: Values, alpha: float) -> Scaled:
    return [
        {name: choose_basis(counts, found[:, path, index], BASES[name], alpha=alpha) for index, name in enumerate(FACTORS)}
        for path in range(found.shape[1])
    ]


def _predict(scaled: Sequence[Mapping[str, Fit]], data: Observations, factors: Values) -> Values:
    """Return the seconds of the longest path at each observation."""
    times = {"alpha": factors, "beta": data.x["L"], "gamma": 1 / data.x["BW"]}
    paths = [np.sum([times[name] * _value(fit, data.x["P"]) for name, fit in path.items()], axis=0) for path in scaled]
    return np.asarray(np.max(paths, axis=0))


def _value(fit: Fit, counts: Values) -> Values:
    return fit.predict(np.column_stack([np.broadcast_to(evaluate(name, {"P": counts}), counts.shape) for name in fit.names]))


def _left_out(data: Observations, counts: Values, factors: Values, found: Values, alpha: float) -> Values:
    """Return predictions of all samples of each P from the paths of the others."""
    guess = np.empty(len(data))
    for index, count in enumerate(counts):
        rest, held = np.arange(len(counts)) != index, data.x["P"] == count
        scaled = _scale(counts[rest], found[rest], alpha)
        guess[held] = _predict(scaled, data.take(held), np.full(held.sum(), factors[index]))
    return guess


def _written(scaled: Scaled, locality: bool, alpha: float) -> tuple[list[Term], str]:
    """Return the parameters as terms and the formula of the longest path in them."""
    terms, pieces = [], []
    for number, path in enumerate(scaled, 1):
        summands = []
        for name, fit in path.items():
            for index, function in enumerate(fit.names):
                parameter = f"{name}_{number}_{index}"
                value, error = float(fit.coefficients[index]), float(fit.standard_errors[index])
                term = parameter_term(parameter, value, error, fit.degrees_of_freedom, unit=_COEFFICIENT_UNITS[name])
                flag = "N.S." if term.p is not None and term.p > alpha else ""
                terms.append(msgspec.structs.replace(term, flag=flag))
                summands.append(f"{parameter}*{term_of(FACTORS[name], function, locality)}")
        pieces.append(" + ".join(summands))
    longest = pieces[0]
    for piece in pieces[1:]:
        longest = f"max({longest}, {piece})"
    return terms, longest

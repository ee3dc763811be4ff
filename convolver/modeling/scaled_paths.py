"""Equation 2 for programs that hide transfers: T(P, L, BW) as the longest of a few paths, each scaled with P.

The linear-models paper scales one line, alpha'(P) LF(P) + beta'(P) L + gamma'(P) / BW. Where computation hides transfers, the
line of a P is a mixture of its paths, and how they mix changes with P; the coefficients of one path scale smoothly (the latencies
of SP's longest chain of messages with sqrt(P), while those of the mixture follow no simple function).

A replay adds and takes maxima, so its time is a convex function of L and 1 / BW, piecewise linear: each piece is a
critical path with its seconds of work, its latencies and its bytes. The paper's linear model is the case of one path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError, ModelUsageError
from convolver.modeling.base import fit_terms, parameter_term
from convolver.modeling.cross_validation import LeftOut, left_out_residuals, per_count
from convolver.modeling.expression import Values, evaluate
from convolver.modeling.linear import BASES, FACTORS, UNITS, choose_basis, factors_of, term_of
from convolver.modeling.model_artifact import Lookup, Model, Term
from convolver.modeling.regress import Fit, ols, relative_weights
from convolver.modeling.table import Observations

Parts = list[npt.NDArray[np.bool_]]
_NAMES = ("alpha", "beta", "gamma")
_COEFFICIENT_UNITS = {"alpha": "s", "beta": "1", "gamma": "B"}
_ENOUGH = 0.003
_STARTS, _ROUNDS = 12, 60
_SAMPLES = 8
"""A path needs so many."""


class LongestPaths(NamedTuple):
    """The paths of one P: a regression each, on the samples where it is the longest; ``error``: largest when cross-validated.

    ``residuals``: log(measured / predicted) of each sample by paths of the others.
    """

    fits: tuple[Fit, ...]
    error: float
    residuals: tuple[float, ...]


def _design(latency: Values, bandwidth: Values) -> Values:
    return np.column_stack([np.ones(len(latency)), latency, 1 / bandwidth])


def fit_paths(latency: Values, bandwidth: Values, seconds: Values, *, paths: int | None = None, most: int = 4) -> LongestPaths:
    """Return the paths of samples of one P: the fewest, up to ``most``, whose cross-validated error is at most 0.3 %.

    ``paths`` sets their number. Raises :class:`ModelError` for fewer than eight samples a path.
    """
    numbers = (paths,) if paths else tuple(range(1, min(most, len(seconds) // _SAMPLES) + 1))
    _check_samples(len(seconds), max(numbers, default=1))
    x = _design(latency, bandwidth)
    made: list[LongestPaths] = []
    for number in numbers:
        guess = _cross_validated(x, seconds, number)
        error = float(np.abs(guess / seconds - 1).max())
        made.append(LongestPaths(_fits(x, seconds, number), error, left_out_residuals(seconds, guess)))
        if made[-1].error <= _ENOUGH:
            return made[-1]
    return min(made, key=lambda one: one.error)


def longest_paths(latency: Values, bandwidth: Values, seconds: Values, number: int) -> tuple[Fit, ...]:
    """Return ``number`` paths of samples of one P (fewer where some are never the longest), by their seconds of work, ascending.

    Raises :class:`ModelError` for fewer than eight samples a path.
    """
    _check_samples(len(seconds), number)
    return _fits(_design(latency, bandwidth), seconds, number)


def _check_samples(samples: int, paths: int) -> None:
    if paths * _SAMPLES > samples:
        raise ModelError(f"{samples} samples of one P are too few; give at least {_SAMPLES} for each path.")


def _cross_validated(x: Values, y: Values, number: int) -> Values:
    """Return the seconds of each sample by paths of the others' fifths."""
    part = np.random.default_rng(1).permutation(len(y)) % 5
    guess = np.empty(len(y))
    for held in range(5):
        fits = _fits(x[part != held], y[part != held], number)
        guess[part == held] = np.max([fit.predict(x[part == held]) for fit in fits], axis=0)
    return guess


def _fits(x: Values, y: Values, number: int) -> tuple[Fit, ...]:
    """Return the regressions of the best of several starts: samples go to the path that is longest there, until none moves."""
    rng = np.random.default_rng(0)
    z = (np.log(x[:, 1:]) - np.log(x[:, 1:]).mean(axis=0)) / np.log(x[:, 1:]).std(axis=0)
    relative = x * np.sqrt(relative_weights(y))[:, None]
    scaled = relative / np.sqrt((relative**2).sum(axis=0))
    best: tuple[float, Parts] | None = None
    for _ in range(_STARTS if number > 1 else 1):
        centers = z[rng.choice(len(y), number, replace=False)]
        parts, lengths = _settled(scaled, ((z[:, None] - centers[None]) ** 2).sum(axis=-1).argmin(axis=1), number)
        error = float(np.mean((lengths.max(axis=0) - 1) ** 2))
        if best is None or error < best[0]:
            best = (error, parts)
    assert best is not None
    fits = (ols(y[part], x[part], _NAMES, relative_weights(y[part])) for part in best[1])
    return tuple(sorted(fits, key=lambda fit: fit["alpha"]))


def _settled(scaled: Values, of: npt.NDArray[np.intp], number: int) -> tuple[Parts, Values]:
    """Return each path's samples when none moves any more, and all paths' lengths over the measured ones: (path, sample)."""
    for _ in range(_ROUNDS):
        parts = [part for part in (of == path for path in range(number)) if part.sum() > len(_NAMES)]
        solved = [np.linalg.lstsq(scaled[part], np.ones(part.sum()), rcond=1e-12)[0] for part in parts]
        lengths = np.array([scaled @ coefficients for coefficients in solved])
        moved, of = of, lengths.argmax(axis=0)
        if (moved == of).all():
            break
    return parts, lengths


def fit_paths_model(data: Observations, /, *, paths: int | None = None, most: int = 4, alpha: float = 0.05) -> Model:
    """Fit the longest of a few paths at each P: T = max(alpha + beta L + gamma / BW); for P that were swept only.

    ``paths`` sets the number of paths at each P, ``most`` how many are tried; ``alpha`` is the level of the N.S. flags. Intervals
    of a P are those of its samples' errors by paths of other samples.
    """
    missing = [name for name in ("P", "L", "BW") if name not in data.x]
    if missing:
        raise ModelUsageError(f"Paths need the features P, L (s) and BW (B/s); {', '.join(missing)} is missing.")
    terms: list[Term] = []
    formula, quality, left_out = "0/0", {}, []
    for count in sorted({int(p) for p in data.x["P"]}, reverse=True):
        rows = data.x["P"] == count
        found = fit_paths(data.x["L"][rows], data.x["BW"][rows], data.y[rows], paths=paths, most=most)
        pieces = []
        for number, fit in enumerate(found.fits, 1):
            names = [f"{name}_{count}_{number}" for name in _NAMES]
            terms += fit_terms(fit, names, alpha=alpha, units=tuple(_COEFFICIENT_UNITS.values()))
            pieces.append(f"{names[0]} + {names[1]}*L + {names[2]}/BW")
        formula = f"where(P == {count}, {_longest(pieces)}, {formula})"
        quality[f"cross_validated_max_error_P{count}"] = found.error
        quality[f"paths_P{count}"] = len(found.fits)
        left_out.append(LeftOut(feature="P", value=float(count), residuals=found.residuals))
    fields: dict[str, Any] = {"formula": formula, "quality": quality, "feature_units": UNITS, "left_out": tuple(left_out)}
    return Model(name="paths", kind="paths", target=data.target, features=data.features, terms=tuple(terms), **fields)


Scaled = list[dict[str, Fit]]
"""For each path the fits of alpha, beta and gamma over P."""

_WORTH = 0.7


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
    return terms, _longest(pieces)


def _longest(pieces: Sequence[str]) -> str:
    """Return the largest of some expressions as one."""
    return reduce("max({}, {})".format, pieces)

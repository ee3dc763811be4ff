"""The model error correction procedure: four cases, many trials, a median ensemble, chosen without seeing held-out data.

Cases (table 1 of the paper): 1 a function of the model's output and the features, 2 an added term, 3 and 4 the same with the
model's parameters searched near their fit. Each case works on differences (``raw``) or on logarithms of ratios (``log``). The
variables are logarithms of the features, as times follow powers of them: a tree of the features themselves runs away where it
has few points. Squares of relative errors count by the root of the time that they are of, between all sizes alike and seconds,
of which nearly all are the largest's. What a term leaves is smoothed over the features.

Case and space are chosen by inner cross-validation that also holds out the largest of each feature: the simplest candidate that
the best one does not beat by more than a standard error (on few points the smallest error is mostly noise). Where no correction
beats the base model there, the base model is returned.

What a term leaves (kriging with a mean of 0): a short term has one shape everywhere; where the errors of adjacent points agree
against it, they move the prediction there, and far from all points nothing is added. Lengths and noise are those with the least
errors of left-out points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import msgspec
import numpy as np

from convolver.errors import ModelError, ModelUsageError
from convolver.modeling.cross_validation import LeftOut, folds, left_out_residuals
from convolver.modeling.expression import Values, substitute
from convolver.modeling.mecp.evolve import ScaledTerm, Settings, evolve
from convolver.modeling.mecp.semi_empirical import SemiEmpirical, model_of
from convolver.modeling.model_artifact import Model
from convolver.modeling.table import Observations
from convolver.progress import SILENT, Progress, step

_LENGTHS = (0.4, 0.7, 1.2, 2.0, 4.0)
"""Lengths of the correlation, in standard deviations of a variable."""
_NOISES = (0.03, 0.1, 0.3, 1.0, 3.0)
"""Variances of the noise over that of the remainder."""
_OWN_LENGTHS = 3
"""With more variables all have one length."""


@dataclass(frozen=True)
class Remainder:
    """A sum of bells: their centers (points, variables), their heights, and the length of each variable."""

    names: tuple[str, ...] = ()
    centers: tuple[tuple[float, ...], ...] = ()
    heights: tuple[float, ...] = ()
    lengths: tuple[float, ...] = ()

    def values(self, columns: Mapping[str, Values], size: int) -> Values:
        """Return the remainder at ``size`` points of the variables' columns."""
        if not self.heights:
            return np.zeros(size)
        points = np.column_stack([columns[name] for name in self.names])
        return _near(points, np.array(self.centers), self.lengths) @ np.array(self.heights)

    def text(self) -> str:
        """Return the remainder as an expression of its variables."""
        bells = []
        for center, height in zip(self.centers, self.heights, strict=True):
            squares = (f"(({n}) - ({c!r}))^2/{2 * s * s!r}" for n, c, s in zip(self.names, center, self.lengths, strict=True))
            bells.append(f"({height!r})*exp(-({' + '.join(squares)}))")
        return " + ".join(bells) or "0"


def fit_remainder(columns: Mapping[str, Values], left: Values, weights: Values) -> Remainder:
    """Return the remainder of what is left at the columns' points; none where 0 predicts left-out points best."""
    names = tuple(columns)
    points = np.column_stack([columns[name] for name in names])
    roots = np.sqrt(weights / weights.mean())
    least, best = float((weights * left**2).sum()), Remainder()
    every = product(_LENGTHS, repeat=len(names)) if len(names) <= _OWN_LENGTHS else ((s,) * len(names) for s in _LENGTHS)
    for lengths in every:
        # the inverse of near + noise / weights, for all noises from one decomposition
        values, vectors = np.linalg.eigh(_near(points, points, lengths) * np.outer(roots, roots))
        for noise in _NOISES:
            inverse = (vectors / (values + noise)) @ vectors.T * np.outer(roots, roots)
            heights = inverse @ left
            error = float((weights * (heights / np.diag(inverse)) ** 2).sum())
            if error < least:
                least = error
                best = Remainder(names, tuple(map(tuple, points.tolist())), tuple(heights.tolist()), tuple(lengths))
    return best


def _near(first: Values, second: Values, lengths: tuple[float, ...]) -> Values:
    return np.asarray(np.exp(-0.5 * (((first[:, None] - second[None]) / np.array(lengths)) ** 2).sum(axis=-1)))


SIMPLEST = ((2, "log"), (1, "log"), (4, "log"), (3, "log"), (2, "raw"), (1, "raw"), (4, "raw"), (3, "raw"))
"""Cases and spaces, the one with the least freedom first: terms of the features, of the model's output, moved parameters."""
CASES = (1, 2, 3, 4)
SPACES = ("log", "raw")
_SHIFT = 0.2
_LEAST = 1e-300
WORTH = 0.85


@dataclass(frozen=True)
class Corrected:
    """One trial's result: parameters of the model, the evolved term, what it leaves, and what limits it."""

    case: int
    space: str
    form: SemiEmpirical
    parameters: dict[str, float]
    found: ScaledTerm
    remainder: Remainder
    axes: dict[str, Axis]
    limits: tuple[float, float]

    def __call__(self, x: Mapping[str, Any]) -> Values:
        """Return corrected values; their ratio to the base model stays within that of the training data."""
        base = np.asarray(self.form(x, self.parameters), dtype=np.float64)
        with np.errstate(all="ignore"):
            columns = _columns(x, base, self.axes)
            term = self.found.values(columns, base.size) + self.remainder.values(columns, base.size)
            value = base * np.exp(np.clip(term, -30, 30)) if self.space == "log" else base + term
        return np.clip(np.where(np.isfinite(value), value, base), self.limits[0] * base, self.limits[1] * base)

    def text(self) -> str:
        """Return the corrected model as an expression of the features."""
        base = substitute(self.form.formula, {n: repr(v) for n, v in {**self.form.fixed, **self.parameters}.items()})
        parts = {name: axis.text(f"({base})" if name == "tcomm" else name) for name, axis in self.axes.items()}
        term = f"({substitute(f'{self.found.text()} + {self.remainder.text()}', parts)})"
        value = f"({base})*exp(min(max({term},-30),30))" if self.space == "log" else f"({base}) + {term}"
        return f"min(max({value}, {self.limits[0]!r}*({base})), {self.limits[1]!r}*({base}))"


@dataclass(frozen=True)
class Axis:
    """A variable of the terms: a feature, or its logarithm where it is always above 0, centerd and in units of its spread."""

    logarithmic: bool
    center: float
    spread: float

    @classmethod
    def of(cls, values: Values) -> Axis:
        """Return the axis on which some values, not all equal, have mean 0 and standard deviation 1."""
        logarithmic = bool((values > 0).all())
        used = np.log(values) if logarithmic else values
        return cls(logarithmic, float(used.mean()), float(used.std()))

    def __call__(self, values: Values) -> Values:
        """Return the values on the axis."""
        return ((np.log(np.maximum(values, _LEAST)) if self.logarithmic else values) - self.center) / self.spread

    def text(self, name: str) -> str:
        """Return the axis as an expression."""
        return f"(({f'log(max({name},{_LEAST!r}))' if self.logarithmic else name}) - ({self.center!r}))/({self.spread!r})"


def _columns(x: Mapping[str, Any], base: Values, axes: Mapping[str, Axis]) -> dict[str, Values]:
    known = {**x, "tcomm": base}
    return {name: np.broadcast_to(axis(np.asarray(known[name], dtype=np.float64)), base.shape) for name, axis in axes.items()}


def trial(
    form: SemiEmpirical,
    data: Observations,
    parameters: Mapping[str, float],
    *,
    case: int,
    space: str,
    seed: int,
    settings: Settings,
) -> Corrected:
    """Evolve one correction; cases 3 and 4 alternate between the term and the parameters, which stay within 20 % of their fit."""
    use = dict(parameters)
    rounds = 2 if case in (3, 4) else 1
    for turn in range(rounds):
        found, remainder, axes, limits = _term(form, data, use, case, space, seed + 1000 * turn, settings)
        result = Corrected(case, space, form, dict(use), found, remainder, axes, limits)
        if turn + 1 < rounds:
            use = _moved(form, data, parameters, result, seed)
    return result


def _moved(
    form: SemiEmpirical, data: Observations, fitted: Mapping[str, float], corrected: Corrected, seed: int
) -> dict[str, float]:
    """Return the parameters near their fit, and within their bounds, that serve the corrected model best."""
    from scipy.optimize import differential_evolution

    names = list(form.bounds)
    start, box = np.array([fitted[name] for name in names]), np.array([form.bounds[name] for name in names])
    ends = np.sort([start * (1 - _SHIFT), start * (1 + _SHIFT)], axis=0)

    def cost(point: Values) -> float:
        values = replace(corrected, parameters=dict(zip(names, point.tolist(), strict=True)))(data.x)
        total = float((np.sqrt(data.y) * np.log(np.maximum(values, _LEAST) / data.y) ** 2).sum())
        return total if np.isfinite(total) else np.inf

    limits = list(zip(np.maximum(ends[0], box[:, 0]), np.minimum(ends[1], box[:, 1]), strict=True))
    best = differential_evolution(cost, limits, x0=start, popsize=6, maxiter=15, polish=False, seed=seed).x
    return dict(zip(names, best.tolist(), strict=True))


def _term(
    form: SemiEmpirical, data: Observations, parameters: Mapping[str, float], case: int, space: str, seed: int, settings: Settings
) -> tuple[ScaledTerm, Remainder, dict[str, Axis], tuple[float, float]]:
    base = np.broadcast_to(form(data.x, parameters), data.y.shape)
    if (base <= 0).any() or (data.y <= 0).any():
        raise ModelError("The correction needs measured and modeled values above 0; leave other points out.")
    ratio = data.y / base
    axes = {name: Axis.of(values) for name, values in data.x.items() if np.ptp(values) > 0}
    if case in (1, 3) and np.ptp(base) > 0:
        axes["tcomm"] = Axis.of(base)
    # a small relative error e of a time b is one of b e seconds: in both spaces these are weights of relative errors
    wanted, relative = (np.log(ratio), np.ones_like(base)) if space == "log" else (data.y - base, base**-2)
    weights, columns = relative * np.sqrt(base), _columns(data.x, base, axes)
    found = evolve(columns, wanted, weights / weights.mean(), seed=seed, settings=settings)
    features = {name: values for name, values in columns.items() if name != "tcomm"}
    remainder = fit_remainder(features, wanted - found.values(columns, base.size), relative)
    return found, remainder, axes, (float(ratio.min()), float(ratio.max()))


def ensemble(trials: list[Corrected], x: Mapping[str, Any]) -> Values:
    """Return the median of the trials' predictions."""
    return np.asarray(np.median(np.array([one(x) for one in trials]), axis=0))


def inner_splits(data: Observations, parts: int, seed: int) -> Iterator[tuple[Observations, Observations]]:
    """Yield (training, held-out) parts: ``parts`` shuffled folds, then for each feature its largest value held out."""
    for train, held in folds(len(data), parts, seed):
        yield data.take(train), data.take(held)
    for values in data.x.values():
        levels = np.unique(values)
        if len(levels) > 3:
            top = values == levels[-1]
            yield data.take(~top), data.take(top)


Candidate = tuple[int, str]
"""A case and a space."""
Ratios = dict[Candidate, Values]
"""For each candidate the squared error in every inner split, over the base model's in all of them."""


@dataclass(frozen=True)
class ComparedCandidates:
    """How candidates fare in inner splits: their ratios, the held-out points of each split, and what candidates and base model
    (None) leave of each point in the fold that it was left out of: log(measured / predicted)."""

    ratios: Ratios
    points: Values
    left_out: dict[Candidate | None, tuple[float, ...]]


def compare(
    form: SemiEmpirical,
    data: Observations,
    candidates: list[Candidate],
    *,
    loss: str,
    parts: int = 5,
    trials: int = 5,
    seed: int = 0,
    settings: Settings,
    progress: Progress = SILENT,
) -> ComparedCandidates:
    """Return the candidates' errors relative to the base model's in inner splits.

    Squared logarithms weighted by the root of the measured time, as in the search: with squares of seconds one large time in a
    small split outweighs all the rest, and the choice is noise.
    """
    held_out: list[Values] = []
    guessed: dict[Candidate | None, list[Values]] = {None: [], **{candidate: [] for candidate in candidates}}
    splits = list(inner_splits(data, parts, seed))
    with step(progress, "Comparing corrections", len(splits) * len(candidates)):
        for train, held in splits:
            parameters = form.fit(train, loss=loss, starts=8, quiet=True).parameters
            held_out.append(held.y)
            guessed[None].append(np.broadcast_to(form(held.x, parameters), held.y.shape))
            for case, space in candidates:
                made = [trial(form, train, parameters, case=case, space=space, seed=s, settings=settings) for s in range(trials)]
                guessed[case, space].append(ensemble(made, held.x))
                progress.advance(1)
    points = np.array([len(held) for held in held_out], dtype=np.float64)
    squares = {one: np.array(list(map(_squares, guesses, held_out))) for one, guesses in guessed.items()}
    measured = np.concatenate(held_out[:parts])
    return ComparedCandidates(
        {candidate: relative(squares[candidate], squares[None], points) for candidate in candidates},
        points,
        {one: left_out_residuals(measured, np.concatenate(guesses[:parts])) for one, guesses in guessed.items()},
    )


def relative(squares: Values, bases: Values, points: Values) -> Values:
    """Return the squared errors of splits over the base model's mean of all splits, weighted by their points.

    The mean of the result is the sum of the candidate's squares over the sum of the base model's. Ratios split by split would let
    a split decide on which the base model happens to be right: next to nothing, a small error is a large one.
    """
    return squares / max(float(np.average(bases, weights=points)), 1e-300)


def choose(ratios: Ratios, points: Values) -> Candidate:
    """Return the simplest candidate whose error exceeds the best one's by at most the standard error of their difference."""
    best = min(ratios, key=lambda candidate: np.average(ratios[candidate], weights=points))
    for candidate in (one for one in SIMPLEST if one in ratios):
        difference = ratios[candidate] - ratios[best]
        mean = np.average(difference, weights=points)
        variance = np.average((difference - mean) ** 2, weights=points) / max(len(points) - 1, 1)
        if mean <= np.sqrt(variance):
            return candidate
    return best


def _squares(predicted: Values, measured: Values) -> float:
    with np.errstate(all="ignore"):
        errors = np.log(np.maximum(np.broadcast_to(predicted, measured.shape), _LEAST) / measured)
    return float(np.mean(np.sqrt(measured) * errors**2))


def fit_mecp(
    data: Observations,
    /,
    *,
    formula: str,
    bounds: Mapping[str, Any],
    fixed: Mapping[str, float] | None = None,
    case: int | str = "auto",
    space: str = "auto",
    trials: int = 30,
    loss: str = "absolute",
    seed: int = 0,
    population: int = 150,
    generations: int = 25,
    length: int = 14,
    progress: Progress = SILENT,
) -> Model:
    """Fit a semi-empirical formula and correct it by the median of ``trials`` evolved terms.

    ``case`` is 1 to 4 or ``auto``, ``space`` log, raw or ``auto``.
    ``quality`` holds the squared error of every candidate over the base in cross-validation; with ``auto``, the base model
    itself is returned if the chosen candidate's is not below 0.85. The interval is that of the points' errors in the folds of the
    cross-validation that they were left out of.
    """
    form = SemiEmpirical(formula, {k: (float(v[0]), float(v[1])) for k, v in bounds.items()}, dict(fixed or {}))
    settings = Settings(population=population, generations=generations, length=length)
    fit = form.fit(data, loss=loss, seed=seed)
    base = model_of(form, fit, data, relative=loss != "absolute")
    candidates = _candidates(case, space)
    compared = compare(form, data, candidates, loss=loss, seed=seed, settings=settings, progress=progress)
    known = {candidate: float(np.average(values, weights=compared.points)) for candidate, values in compared.ratios.items()}
    best = choose(compared.ratios, compared.points)
    quality: dict[str, Any] = {f"cv_case_{c}_{s}": value for (c, s), value in known.items()}
    corrected = len(candidates) == 1 or known[best] < WORTH
    left_out = (LeftOut(residuals=compared.left_out[best if corrected else None]),)
    if not corrected:
        notes = ("no correction beat the base model in cross-validation, so the base model stays as it is",)
        quality = {**base.quality, **quality, "corrected": 0}
        return msgspec.structs.replace(base, kind="mecp", quality=quality, left_out=left_out, notes=notes)
    made = []
    with step(progress, "Evolving terms", trials):
        for number in range(trials):
            made.append(trial(form, data, fit.parameters, case=best[0], space=best[1], seed=seed + number, settings=settings))
            progress.advance(1)
    quality |= {"corrected": 1, "case": best[0], "space": best[1], "base_rmse": fit.rmse}
    members = tuple(one.text() for one in made)
    return msgspec.structs.replace(base, kind="mecp", members=members, quality={**base.quality, **quality}, left_out=left_out)


def _candidates(case: int | str, space: str) -> list[Candidate]:
    cases = CASES if case == "auto" else (int(case),)
    spaces = SPACES if space == "auto" else (space,)
    if any(c not in CASES for c in cases) or any(s not in SPACES for s in spaces):
        raise ModelUsageError("case is 1, 2, 3, 4 or auto; space is log, raw or auto.")
    return [(c, s) for c in cases for s in spaces]

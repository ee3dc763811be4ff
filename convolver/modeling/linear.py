"""Linear models T(P, L, BW) with the locality factor (the linear-models paper, equations 1 to 4).

For each P: T = alpha + beta L + gamma / BW; alpha in seconds is the critical path, beta the count of latencies that are not
overlapped, gamma the bytes that are not. Over P: T = alpha'(P) LF(P) + beta'(P) L + gamma'(P) / BW. The paper takes alpha' in 1/P
and the others in P; here the basis of each is chosen by leave-one-P-out evidence (``basis="paper"`` keeps the paper's).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError, ModelUsageError
from convolver.modeling.base import fit_terms, linear_model
from convolver.modeling.cross_validation import leave_one_group_out, per_count
from convolver.modeling.expression import Values, evaluate
from convolver.modeling.model_artifact import Lookup, Model, Term
from convolver.modeling.regress import Fit, eliminate, ols, relative_weights
from convolver.modeling.table import Observations

PAPER_BASES = {"alpha": ("1", "1/P"), "beta": ("1", "P"), "gamma": ("1", "P")}
BASES = {
    "alpha": ("1", "1/P", "1/sqrt(P)", "log2(P)/P"),
    "beta": ("1", "sqrt(P)", "P", "log2(P)", "1/P"),
    "gamma": ("1", "1/P", "1/sqrt(P)", "sqrt(P)", "P", "log2(P)"),
}
"""Functions of P that a coefficient may consist of."""
_EXACT = 1e-7
_WORTH = 0.7


def choose_basis(p: Values, values: Values, candidates: tuple[str, ...], *, alpha: float = 0.05) -> Fit:
    """Return the fit of ``values`` over P with the one or two basis functions that predict a left-out P best.

    A second function must reduce the leave-one-out error to less than 70 %, and terms that are not significant go.
    """
    columns = {name: np.broadcast_to(evaluate(name, {"P": p}), p.shape).astype(np.float64) for name in candidates}
    weights = relative_weights(values) if (np.abs(values) > 1e-12 * np.abs(values).max(initial=1e-300)).all() else None
    scale = np.abs(values) if weights is not None else np.full(len(p), max(float(np.abs(values).max()), 1e-300))
    best: tuple[float, tuple[str, ...]] | None = None
    for size in (1, 2):
        if len(p) < size + 1:
            break
        for names in combinations(candidates, size):
            error = _leave_one_out(values, np.column_stack([columns[n] for n in names]), scale, weights)
            if best is None or error < best[0] * (_WORTH if size > len(best[1]) else 1.0) - _EXACT * (size > len(best[1])):
                best = (error, names)
    if best is None:
        raise ModelError("A scaling model needs at least two process counts.")
    matrix = np.column_stack([columns[n] for n in best[1]])
    fit = eliminate(values, matrix, best[1], weights=weights, negative=False, max_relative_error=None, alpha=alpha)
    return fit if not fit.empty else ols(values, matrix, best[1], weights)


def _leave_one_out(y: Values, matrix: Values, scale: Values, weights: Values | None) -> float:
    """Return the relative RMS error of predicting each point from the others (closed form through the hat matrix)."""
    root = np.ones(len(y)) if weights is None else np.sqrt(weights)
    norms = np.sqrt(((matrix * root[:, None]) ** 2).sum(axis=0))
    q, _ = np.linalg.qr(matrix * root[:, None] / norms)
    residual = y * root - q @ (q.T @ (y * root))
    leverage = np.clip((q**2).sum(axis=1), 0, 1 - 1e-9)
    return float(np.sqrt(np.mean((residual / root / (1 - leverage) / scale) ** 2)))


def paper_basis(p: Values, values: Values, name: str, alpha: float) -> Fit:
    """Return the fit of a coefficient (alpha, beta, gamma) over P with the paper's functions, less those that are N.S."""
    names = PAPER_BASES[name]
    matrix = np.column_stack([np.broadcast_to(evaluate(n, {"P": p}), p.shape) for n in names])
    fit = eliminate(values, matrix, names, negative=False, max_relative_error=None, alpha=alpha)
    return fit if not fit.empty else ols(values, np.ones((len(p), 1)), ("1",))


FACTORS = {"alpha": "LF", "beta": "L", "gamma": "1/BW"}
UNITS = {"P": "1", "L": "s", "BW": "B/s", "LF": "1"}


@dataclass(frozen=True)
class PerP:
    """The linear model of one P with its errors and the largest relative error on its own samples."""

    alpha: float
    beta: float
    gamma: float
    fit: Fit
    max_relative_error: float

    def seconds(self, latency: Values, bandwidth: Values) -> Values:
        """Return the seconds at latencies (s) and bandwidths (B/s)."""
        return self.alpha + self.beta * latency + self.gamma / bandwidth

    def not_significant(self, alpha: float) -> list[str]:
        """Return the coefficients that the t-test at a level cannot tell from 0."""
        return [name for name, p in zip(self.fit.names, self.fit.p, strict=True) if p > alpha]


def fit_per_p(data: Observations) -> dict[int, PerP]:
    """Return T = alpha + beta L + gamma / BW for each P of observations over P, L and BW (relative least squares).

    ``fit.p`` tells which coefficients are not significant. Raises :class:`ModelError` when a P has fewer than four samples.
    """
    _need(data, ("P", "L", "BW"))
    result = {}
    for count in np.unique(data.x["P"]):
        part = data.take(data.x["P"] == count)
        if len(part) < 4:
            raise ModelError(f"P = {count:g} has {len(part)} samples; at least 4 are needed for three coefficients.")
        design = np.column_stack([np.ones(len(part)), part.x["L"], 1 / part.x["BW"]])
        fit = ols(part.y, design, ("alpha", "beta", "gamma"), relative_weights(part.y))
        worst = float(np.max(np.abs(fit.predict(design) / part.y - 1)))
        result[int(count)] = PerP(fit["alpha"], fit["beta"], fit["gamma"], fit, worst)
    return result


def _need(data: Observations, names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in data.x]
    if missing:
        raise ModelUsageError(f"A linear model needs the features P, L (s) and BW (B/s); {', '.join(missing)} is missing.")


def fit_linear(
    data: Observations,
    /,
    *,
    locality: Mapping[Any, float] | None = None,
    corrected: bool = False,
    basis: str = "evidence",
    alpha: float = 0.05,
) -> Model:
    """Fit T = alpha'(P) LF(P) + beta'(P) L + gamma'(P) / BW to a sweep over P, L and BW.

    ``locality`` maps P to its locality factor; ``corrected`` says that the sweep's bursts were already scaled by it. ``basis`` is
    ``evidence`` or ``paper``. Intervals include the error of whole left-out P.
    """
    if basis not in ("evidence", "paper"):
        raise ModelUsageError(f"The basis '{basis}' is unknown; use evidence or paper.")
    factors = factors_of(data, locality)
    per_p = fit_per_p(data)
    use = dict.fromkeys(factors, 1.0) if corrected else factors
    parts, notes = _scaling(per_p, use, basis, alpha)
    build = _joint if basis == "evidence" else _separate
    model = build(data, parts, use, locality is not None)
    lookup = {"LF": Lookup(of="P", points=tuple(sorted(factors.items())))} if locality is not None else {}
    left_out = _left_out(data, per_p, use, basis, alpha)
    scatter = 0.0 if left_out is None else float(np.sqrt(np.mean((left_out / data.y - 1) ** 2)))
    return msgspec.structs.replace(
        model,
        tables=lookup,
        features=(*data.features, *lookup),
        terms=(*model.terms, *_dropped(parts, locality is not None)),
        quality={} if left_out is None else {"left_out_P_relative_rms": scatter},
        scatter=scatter,
        validation=_validated(data, per_p, model.apply(_with_factors(data, use)), left_out, alpha),
        notes=notes,
    )


def factors_of(data: Observations, locality: Mapping[Any, float] | None) -> dict[float, float]:
    """Return the locality factor of each P in the observations, 1 where none are given.

    Raises :class:`ModelError` for a missing feature and for a P without a factor.
    """
    _need(data, ("P", "L", "BW"))
    counts = [float(count) for count in np.unique(data.x["P"])]
    if locality is None:
        return dict.fromkeys(counts, 1.0)
    factors = {float(count): float(factor) for count, factor in locality.items()}
    missing = [count for count in counts if count not in factors]
    if missing:
        raise ModelError(f"No locality factor is given for P = {missing[0]:g}.")
    return factors


def _scaling(
    per_p: Mapping[int, PerP], factors: Mapping[float, float], basis: str, alpha: float
) -> tuple[dict[str, Fit], tuple[str, ...]]:
    """Return the fits of alpha / LF, beta and gamma over P, and what was dropped; a coefficient N.S. at every P is empty."""
    counts = np.array(sorted(per_p), dtype=np.float64)
    parts: dict[str, Fit] = {}
    for name in FACTORS:
        values = np.array([getattr(per_p[int(count)], name) for count in counts])
        if name == "alpha":
            values = values / np.array([factors[count] for count in counts])
        if all(name in part.not_significant(alpha) for part in per_p.values()):
            nothing = eliminate(values, np.zeros((len(counts), 0)), ())
            parts[name] = replace(nothing, steps=("1: not significant at any P",))
        elif basis == "evidence":
            parts[name] = choose_basis(counts, values, BASES[name], alpha=alpha)
        else:
            parts[name] = paper_basis(counts, values, name, alpha)
    return parts, tuple(f"{name}: {step}" for name, part in parts.items() for step in part.steps)


def _dropped(parts: Mapping[str, Fit], locality: bool) -> list[Term]:
    """Return what elimination left out as terms that do not count (the N.S. of the paper's table 3)."""
    names = [(name, step.split(":")[0]) for name, fit in parts.items() for step in fit.steps]
    return [
        Term(expression=term_of(FACTORS[name], function, locality), coefficient=0.0, flag="N.S., dropped")
        for name, function in names
        if function not in parts[name].names
    ]


def _with_factors(data: Observations, factors: Mapping[float, float]) -> dict[str, Values]:
    return {**data.x, "LF": np.array([factors[count] for count in data.x["P"]])}


def _left_out(
    data: Observations, per_p: Mapping[int, PerP], factors: Mapping[float, float], basis: str, alpha: float
) -> Values | None:
    """Return predictions of each P by functions of P that were chosen and fitted without it; None for too few P."""

    def refit(mask: npt.NDArray[np.bool_]) -> Any:
        rest = {count: part for count, part in per_p.items() if count in data.x["P"][mask]}
        parts, _ = _scaling(rest, factors, basis, alpha)
        model = (_joint if basis == "evidence" else _separate)(data.take(mask), parts, factors, True)
        return lambda held: model.apply(_with_factors(data.take(held), factors))

    try:
        return leave_one_group_out(data.x["P"], refit) if len(per_p) > 2 else None
    except ModelError:  # what is left does not determine the functions of P
        return None


def _validated(
    data: Observations, per_p: Mapping[int, PerP], predicted: Values, left_out: Values | None, alpha: float
) -> tuple[dict[str, Any], ...]:
    """Return the validation table with the line of each P."""
    own = np.zeros(len(data))
    for count, part in per_p.items():
        of = data.x["P"] == count
        own[of] = part.seconds(data.x["L"][of], data.x["BW"][of])
    rows = per_count(data.x["P"], data.y, predicted, own, left_out)
    return tuple({**row, **_line(part, alpha)} for row, part in zip(rows, per_p.values(), strict=True))


def _line(part: PerP, alpha: float) -> dict[str, Any]:
    numbers = {"alpha_seconds": part.alpha, "beta_latencies": part.beta, "gamma_bytes": part.gamma}
    return {**numbers, "not_significant": ", ".join(part.not_significant(alpha))}


def term_of(factor: str, function: str, locality: bool) -> str:
    """Return the term of a coefficient's basis function: ``LF``, ``L*sqrt(P)``, ``(1/P)/BW``."""
    if factor == "LF" and not locality:
        return function
    if factor == "1/BW":
        return "1/BW" if function == "1" else f"({function})/BW"
    return factor if function == "1" else f"{factor}*({function})"


def _joint(data: Observations, parts: Mapping[str, Fit], factors: Mapping[float, float], locality: bool) -> Model:
    """Fit all chosen terms together on all samples; the model is linear in its coefficients."""
    terms = [term_of(FACTORS[name], function, locality) for name, fit in parts.items() for function in fit.names]
    if not terms:
        raise ModelError("No coefficient of the sweep is significant at any P; widen the ranges of latency and bandwidth.")
    x = _with_factors(data, factors)
    matrix = np.column_stack([np.broadcast_to(evaluate(term, x), data.y.shape) for term in terms])
    fit = ols(data.y, matrix, terms, relative_weights(data.y))
    return linear_model(fit, data, kind="linear", relative=True, feature_units=UNITS)


def _separate(data: Observations, parts: Mapping[str, Fit], factors: Mapping[float, float], locality: bool) -> Model:
    """Return the model from the regressions of each coefficient over P, as the paper does."""
    terms = [
        term
        for name, fit in parts.items()
        for term in fit_terms(fit, [term_of(FACTORS[name], function, locality) for function in fit.names], alpha=1)
    ]
    fields: dict[str, Any] = {"features": data.features, "terms": tuple(terms), "feature_units": UNITS}
    return Model(name="linear", kind="linear", target=data.target, **fields)

"""Functions of P for the coefficients of linear models: the paper's, or those that predict a left-out P best."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError
from convolver.modeling.expression import evaluate
from convolver.modeling.regress import Fit, eliminate, ols, relative_weights

Values = npt.NDArray[np.float64]

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

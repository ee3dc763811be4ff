"""Symbolic regression of the correction term by Operon, with the summands of its expression scaled in closed form.

Small by intent: on few points large trees never beat the model they correct; populations of some hundred and short trees do.
Keijzer's linear scaling gives a tree a slope and an offset; here each of its summands gets the coefficient of a ridge regression.
The error is that of each point predicted without it, so that a term which only bends to a few points is not a good one.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from convolver.errors import ToolNotFoundError
from convolver.modeling.expression import Values, evaluate

_LARGEST = 1e9
_SYMBOLS = "add,sub,mul,div,pow,log,exp,constant,variable"
_RIDGES = np.array([1e-3, 1e-2, 1e-1, 1.0])
"""Ridges in units of the summands' variance; the one with the least error of left-out points is taken."""
_LEAST_FREEDOM = 0.05
MOST = 6
"""A term has at most so many summands."""


@dataclass(frozen=True)
class Settings:
    """Search settings; the paper's are 3000 trees, 100 generations, depth 7."""

    population: int = 150
    generations: int = 25
    length: int = 14


@dataclass(frozen=True)
class ScaledTerm:
    """Summands as expressions, their coefficients and an offset."""

    parts: tuple[str, ...]
    coefficients: tuple[float, ...]
    offset: float

    def values(self, columns: Mapping[str, Values], size: int) -> Values:
        """Return the term's values at ``size`` points."""
        total = np.full(size, self.offset)
        for part, coefficient in zip(self.parts, self.coefficients, strict=True):
            total = total + coefficient * evaluate(part, columns)
        return total

    def text(self) -> str:
        """Return the term as an expression of its variables."""
        return " + ".join([repr(self.offset), *(f"{c!r}*({p})" for c, p in zip(self.coefficients, self.parts, strict=True))])


def evolve(
    columns: Mapping[str, Values], wanted: Values, weights: Values, *, seed: int, settings: Settings | None = None
) -> ScaledTerm:
    """Return the scaled term that Operon finds for ``wanted``: equal seeds give equal terms.

    A term whose summands are not finite, constant or too many is left out: the weighted mean stays. Raises
    :class:`ToolNotFoundError` without pyoperon.
    """
    parts = summands(_searched(columns, wanted, seed, settings or Settings()))
    with np.errstate(all="ignore"):
        values = [np.broadcast_to(evaluate(part, columns), wanted.shape) for part in parts]
        usable = 0 < len(parts) <= MOST and all(np.isfinite(one).all() and np.abs(one).max() < _LARGEST for one in values)
    scaling = scale(np.column_stack(values), wanted, weights) if usable else None
    if scaling is None:
        return ScaledTerm((), (), float(np.average(wanted, weights=weights)))
    return ScaledTerm(parts, scaling.coefficients, scaling.offset)


def _searched(columns: Mapping[str, Values], wanted: Values, seed: int, use: Settings) -> str:
    try:
        from pyoperon.sklearn import SymbolicRegressor
    except ImportError as error:
        message = "The kind 'mecp' evolves terms with pyoperon, which is not installed: pip install 'convolver[gp]'."
        raise ToolNotFoundError(message) from error
    names = list(columns)
    regressor = SymbolicRegressor(
        allowed_symbols=_SYMBOLS,
        population_size=use.population,
        generations=use.generations,
        max_evaluations=use.population * (use.generations + 1),
        max_length=use.length,
        max_depth=6,
        tournament_size=5,
        crossover_probability=0.9,
        mutation_probability=0.1,
        random_state=seed,
        n_threads=1,
    )
    regressor.fit(np.column_stack([columns[name] for name in names]), wanted)
    return str(regressor.get_model_string(regressor.model_, precision=17, names=names))


def summands(text: str) -> tuple[str, ...]:
    """Return the different summands of an infix expression, :func:`protected`, without constant factors and constants."""
    whole = ast.parse(text.replace("^", "**"), mode="eval").body
    return tuple(dict.fromkeys(protected(_without_factor(part)) for part in _split(whole) if not _is_constant(part)))


def _split(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return _split(node.left) + _split(node.right)
    return [node]


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _without_factor(node: ast.expr) -> ast.expr:
    match node:
        case ast.UnaryOp(operand=inner) if not _is_constant(node):
            return _without_factor(inner)
        case ast.BinOp(left=first, op=ast.Mult(), right=second) if _is_constant(first) or _is_constant(second):
            return _without_factor(second if _is_constant(first) else first)
    return node


def protected(node: ast.expr) -> str:
    """Return a term as an expression that has finite values nearly everywhere: a division by nearly 0 gives 1, logarithms and
    powers take absolute values. Raises ``ValueError`` for what no term holds."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=int() | float() as value):
            return f"({float(value)!r})"
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return f"(-{protected(inner)})"
        case ast.BinOp(left=first, op=operator, right=second):
            a, b = protected(first), protected(second)
            match operator:
                case ast.Div():
                    return f"where(abs({b})>1e-9,({a})/where(abs({b})>1e-9,{b},1),1)"
                case ast.Pow():
                    return f"exp(min(max(({b})*log(abs({a})+1e-9),-30),30))"
                case ast.Add() | ast.Sub() | ast.Mult():
                    return f"({a}{ {ast.Add: '+', ast.Sub: '-', ast.Mult: '*'}[type(operator)] }{b})"
        case ast.Call(func=ast.Name(id="log"), args=[inner]):
            return f"log(abs({protected(inner)})+1e-9)"
        case ast.Call(func=ast.Name(id="exp"), args=[inner]):
            return f"exp(min(max({protected(inner)},-30),30))"
    raise ValueError(f"'{ast.unparse(node)}' is no function of a correction")


@dataclass(frozen=True)
class Scaling:
    """Coefficients of the summands, an offset, and the weighted squares of errors of left-out points."""

    coefficients: tuple[float, ...]
    offset: float
    error: float


def scale(values: Values, wanted: Values, weights: Values) -> Scaling | None:
    """Return the scaling of summands' values (points, summands) to wanted corrections; None where a summand is constant."""
    total = weights.sum()
    means, mean = weights @ values / total, float(weights @ wanted / total)
    spread = np.sqrt(weights @ (values - means) ** 2 / total)
    if (spread < 1e-9 * np.maximum(1.0, np.abs(means))).any():
        return None
    roots = np.sqrt(weights)
    left, singular, right = np.linalg.svd((values - means) / spread * roots[:, None], full_matrices=False)
    y = (wanted - mean) * roots
    along = left.T @ y
    kept = singular**2 / (singular**2 + np.outer(_RIDGES, np.full_like(singular, len(y))))
    fitted = left @ (kept * along).T
    leverage = left**2 @ kept.T + (weights / total)[:, None]
    errors = (((y[:, None] - fitted) / np.maximum(1 - leverage, _LEAST_FREEDOM)) ** 2).sum(axis=0)
    best = int(np.argmin(errors))
    coefficients = right.T @ (kept[best] / np.maximum(singular, 1e-12) * along) / spread
    return Scaling(tuple(coefficients.tolist()), mean - float(coefficients @ means), float(errors[best]))

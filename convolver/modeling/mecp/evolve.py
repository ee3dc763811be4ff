"""Symbolic regression of the correction term by Operon, with the summands of its expression scaled in closed form.

Small by intent: on few points large trees never beat the model they correct; populations of some hundred and short trees do.
Trees are judged by the errors of points that their coefficients have not seen (:mod:`convolver.modeling.mecp.linear_scaling`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from convolver.errors import ToolNotFoundError
from convolver.modeling.mecp.linear_scaling import MOST, scale, summands
from convolver.modeling.mecp.trees import Tree, evaluate_tree, text_of

Values = npt.NDArray[np.float64]

_LARGEST = 1e9
_SYMBOLS = "add,sub,mul,div,pow,log,exp,constant,variable"
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^"}


@dataclass(frozen=True)
class Settings:
    """Search settings; the paper's are 3000 trees, 100 generations, depth 7."""

    population: int = 150
    generations: int = 25
    length: int = 14


@dataclass(frozen=True)
class ScaledTree:
    """A tree's summands, their coefficients and an offset."""

    parts: tuple[Tree, ...]
    coefficients: tuple[float, ...]
    offset: float

    def values(self, columns: Mapping[str, Values], size: int) -> Values:
        """Return the term's values at ``size`` points."""
        total = np.full(size, self.offset)
        for part, coefficient in zip(self.parts, self.coefficients, strict=True):
            total = total + coefficient * evaluate_tree(part, columns, size)
        return total

    def text(self) -> str:
        """Return the term as an expression of its variables."""
        products = (f"{c!r}*({text_of(p)})" for c, p in zip(self.coefficients, self.parts, strict=True))
        return " + ".join([repr(self.offset), *products])


def evolve(
    columns: Mapping[str, Values], wanted: Values, weights: Values, *, seed: int, settings: Settings | None = None
) -> ScaledTree:
    """Return the scaled tree that Operon finds for ``wanted``: equal seeds give equal trees.

    A tree whose summands are not finite, constant or too many is left out: the weighted mean stays. Raises
    :class:`ToolNotFoundError` without pyoperon.
    """
    parts = summands(_searched(columns, wanted, seed, settings or Settings()))
    with np.errstate(all="ignore"):
        values = [evaluate_tree(part, columns, len(wanted)) for part in parts]
        usable = 0 < len(parts) <= MOST and all(np.isfinite(one).all() and np.abs(one).max() < _LARGEST for one in values)
    scaling = scale(np.column_stack(values), wanted, weights) if usable else None
    if scaling is None:
        return ScaledTree((), (), float(np.average(wanted, weights=weights)))
    return ScaledTree(parts, scaling.coefficients, scaling.offset)


def _searched(columns: Mapping[str, Values], wanted: Values, seed: int, use: Settings) -> Tree:
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
    return parse_tree(regressor.get_model_string(regressor.model_, precision=17, names=names))


def parse_tree(text: str) -> Tree:
    """Return an infix expression of the correction's functions as a tree; raises ``ValueError`` for any other."""
    return _tree(ast.parse(text.replace("^", "**"), mode="eval").body)


def _tree(node: ast.expr) -> Tree:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return (float(node.value),)
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _tree(node.operand)
        return (-inner[0],) if isinstance(inner[0], float) else ("*", -1.0, *inner)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return (_OPERATORS[type(node.op)], *_tree(node.left), *_tree(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("log", "exp"):
        return (node.func.id, *_tree(node.args[0]))
    raise ValueError(f"'{ast.unparse(node)}' is no function of a correction")

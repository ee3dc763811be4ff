"""Genetic programming by Operon (the optional package pyoperon) in place of the own one, for the correction term."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from convolver.errors import ToolNotFoundError
from convolver.modeling.mecp.trees import Tree, evaluate_tree

if TYPE_CHECKING:
    from convolver.modeling.mecp.evolve import Settings

Values = npt.NDArray[np.float64]

_SYMBOLS = "add,sub,mul,div,pow,log,exp,constant,variable"
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^"}


def search_operon(columns: Mapping[str, Values], wanted: Values, *, seed: int, settings: Settings) -> Tree:
    """Return the tree that Operon finds with the own search's functions, population and budget of evaluations.

    Raises :class:`ToolNotFoundError` without pyoperon. The tree's values are those of our protected operators.
    """
    try:
        from pyoperon.sklearn import SymbolicRegressor
    except ImportError as error:
        message = "pyoperon is not installed; install it with: pip install 'convolver[gp]', or leave search=own."
        raise ToolNotFoundError(message) from error
    names = list(columns)
    regressor = SymbolicRegressor(
        allowed_symbols=_SYMBOLS,
        population_size=settings.population,
        generations=settings.generations,
        max_evaluations=settings.population * (settings.generations + 1),
        max_length=settings.length,
        max_depth=settings.depth + 2,
        tournament_size=settings.tournament,
        crossover_probability=settings.crossover,
        mutation_probability=settings.mutation,
        random_state=seed,
        n_threads=1,
    )
    regressor.fit(np.column_stack([columns[name] for name in names]), wanted)
    text = regressor.get_model_string(regressor.model_, precision=17, names=names)
    tree = parse_tree(text)
    with np.errstate(all="ignore"):
        finite = np.isfinite(evaluate_tree(tree, columns, len(wanted))).all()
    return tree if finite else (names[0],)


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

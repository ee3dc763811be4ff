"""Expressions that a user may write in a formula: parsed, checked against a white list, evaluated on numpy arrays.

``^`` is the power, names are features or parameters, and the functions are those of :data:`FUNCTIONS`. Nothing else of Python is
reachable, so a model file from a stranger can be applied safely.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError

Values = npt.NDArray[np.float64]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "min": np.minimum,
    "max": np.maximum,
    "where": np.where,
}
"""The functions an expression may call; ``where(condition, a, b)`` makes piecewise models."""

_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.Call,
    ast.Name,
    ast.Constant,
    ast.Compare,
    ast.Load,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
)
_MAX_LENGTH = 20_000


@lru_cache(maxsize=4096)
def _compile(text: str) -> tuple[Any, frozenset[str], dict[str, np.float64]]:
    """Return code, free names and constants of an expression; raises :class:`ModelError` when it is not allowed."""
    if len(text) > _MAX_LENGTH:
        raise ModelError(f"The expression is {len(text)} characters long; at most {_MAX_LENGTH} are read.")
    try:
        tree = ast.parse(text.replace("^", "**").strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ModelError(f"'{text}' is not an expression: {error}; write for example 'a + b*N^3/P'.") from error
    called = set()
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise ModelError(f"'{text}' uses {type(node).__name__}, which no formula may; use + - * / ^ and functions.")
        if isinstance(node, ast.Call):
            called |= _check_call(node, text)
        if isinstance(node, ast.Constant) and (isinstance(node.value, bool) or not isinstance(node.value, int | float)):
            raise ModelError(f"'{text}' holds {node.value!r}, which is no number.")
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    constants: dict[str, np.float64] = {}
    tree = ast.fix_missing_locations(_Constants(constants).visit(tree))
    return compile(tree, "<formula>", "eval"), frozenset(names - called), constants


def _check_call(node: ast.Call, text: str) -> set[str]:
    if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords:
        raise ModelError(f"'{text}' calls something other than {', '.join(FUNCTIONS)}.")
    return {node.func.id}


class _Constants(ast.NodeTransformer):
    """Turn numbers into names of float64 values, so that ``9^9^9`` gives inf instead of eating the memory or raising."""

    def __init__(self, constants: dict[str, np.float64]) -> None:
        self.constants = constants

    def visit_Constant(self, node: ast.Constant) -> ast.Name:
        name = f"constant {len(self.constants)}"
        self.constants[name] = np.float64(node.value)  # type: ignore[arg-type]
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def names_of(text: str) -> frozenset[str]:
    """Return the names of features and parameters in an expression; raises :class:`ModelError` when it is not one."""
    return _compile(text)[1]


def evaluate(text: str, values: Mapping[str, Any]) -> Values:
    """Return the value of an expression for arrays (or numbers) of its names, as float64.

    Divisions by zero and logarithms of negative numbers give inf or nan, not an error: the caller decides.
    Raises :class:`ModelError` when a name has no value or the expression is not allowed.
    """
    code, names, constants = _compile(text)
    missing = sorted(names - values.keys())
    if missing:
        raise ModelError(f"'{text}' needs {', '.join(missing)}, which is not among {', '.join(sorted(values)) or 'no values'}.")
    scope = {**constants, **{name: np.asarray(values[name], dtype=np.float64) for name in names}}
    with np.errstate(all="ignore"):
        result = eval(code, {"__builtins__": {}, **FUNCTIONS}, scope)
    return np.asarray(result, dtype=np.float64)


def split_terms(text: str) -> list[str]:
    """Return the summands of a formula: ``1 + N^3/P - L`` gives ``1``, ``N ** 3 / P`` and ``-L``."""
    names_of(text)
    return [ast.unparse(node) for node in _summands(ast.parse(text.replace("^", "**").strip(), mode="eval").body, False)]


def _summands(node: ast.expr, negative: bool) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        flip = negative != isinstance(node.op, ast.Sub)
        return _summands(node.left, negative) + _summands(node.right, flip)
    return [ast.UnaryOp(ast.USub(), node) if negative else node]


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Return the expression with names replaced by other expressions, each in parentheses."""
    names_of(text)
    nodes = {name: ast.parse(value.replace("^", "**").strip(), mode="eval").body for name, value in values.items()}

    class _Names(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return nodes.get(node.id, node)

    return ast.unparse(_Names().visit(ast.parse(text.replace("^", "**").strip(), mode="eval")))

"""Expressions that a user may write in a formula: checked whole when they are parsed, evaluated on numpy arrays.

``^`` is the power, names are features or parameters, a comparison of two numbers is 1 or 0, and the functions are those of
:data:`FUNCTIONS`, each with its number of values. An expression becomes steps on a stack and nothing of Python is run, so that a
model file from a stranger can be applied safely.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from convolver.errors import ModelUsageError

Values = npt.NDArray[np.float64]


class Function(NamedTuple):
    """What an expression may call: with so many numbers, the first of which is a comparison where ``chooses`` is set."""

    apply: Callable[..., Any]
    arity: int = 1
    chooses: bool = False


FUNCTIONS: dict[str, Function] = {
    "log": Function(np.log),
    "log2": Function(np.log2),
    "log10": Function(np.log10),
    "exp": Function(np.exp),
    "sqrt": Function(np.sqrt),
    "abs": Function(np.abs),
    "ceil": Function(np.ceil),
    "floor": Function(np.floor),
    "min": Function(np.minimum, 2),
    "max": Function(np.maximum, 2),
    "where": Function(np.where, 3, chooses=True),
}
"""The functions of expressions; ``where(condition, a, b)`` makes piecewise models."""

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
_MAX_LENGTH = 20_000

Step = str | np.float64 | tuple[Callable[..., Any], int]
"""One step of a program on a stack: push a name's values, push a number, or apply a function to so many from the top."""


def _parse(text: str) -> ast.expr:
    """Return the tree of an expression; raises :class:`ModelUsageError` when Python's own grammar has no such expression."""
    if len(text) > _MAX_LENGTH:
        raise ModelUsageError(f"The expression is {len(text)} characters long; at most {_MAX_LENGTH} are read.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of calls of numbers, which are refused below
            return ast.parse(text.replace("^", "**").strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ModelUsageError(f"'{_short(text)}' is not an expression: {error}; write for example 'a + b*N^3/P'.") from error


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


@lru_cache(maxsize=4096)
def _compile(text: str) -> tuple[tuple[Step, ...], frozenset[str]]:
    """Return program and free names of an expression; raises :class:`ModelUsageError` when it is not allowed."""
    program: list[Step] = []
    left: list[tuple[ast.expr, bool]] = [(_parse(text), False)]  # the program is built from its end
    while left:
        node, compared = left.pop()
        if compared and not isinstance(node, ast.Compare):
            raise ModelUsageError(f"'{_short(text)}' has no comparison as the first value of where; write where(a < b, ...).")
        step, operands = _step(node, text)
        program.append(step)
        chooses = isinstance(node, ast.Call) and FUNCTIONS[node.func.id].chooses  # type: ignore[attr-defined]
        left += [(operand, chooses and number == 0) for number, operand in enumerate(operands)]
    return tuple(reversed(program)), frozenset(step for step in program if isinstance(step, str))


def _step(node: ast.expr, text: str) -> tuple[Step, list[ast.expr]]:
    """Return what a node does, and its operands."""
    match node:
        case ast.Name(id=name):
            return name, []
        case ast.Constant(value=value) if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelUsageError(f"'{_short(text)}' holds {value!r}, which is no number.")
        case ast.Constant(value=int() | float() as value):
            try:
                return np.float64(value), []  # so that 9^9^9 gives inf instead of eating the memory
            except OverflowError as error:
                raise ModelUsageError(f"'{_short(text)}' holds a number that is too large.") from error
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as operator, operand=operand):
            return (_OPERATORS[type(operator)], 1), [operand]
        case ast.BinOp(left=first, op=operator, right=second) if type(operator) in _OPERATORS:
            return (_OPERATORS[type(operator)], 2), [first, second]
        case ast.Compare(left=first, ops=[operator], comparators=[second]) if type(operator) in _OPERATORS:
            return (_OPERATORS[type(operator)], 2), [first, second]
        case ast.Call(func=ast.Name(id=name), args=operands, keywords=[]) if name in FUNCTIONS:
            function = FUNCTIONS[name]
            if len(operands) != function.arity:
                raise ModelUsageError(f"'{_short(text)}' gives {name} {len(operands)} values; it takes {function.arity}.")
            return (function.apply, function.arity), operands
        case ast.Call():
            raise ModelUsageError(f"'{_short(text)}' calls something other than {', '.join(FUNCTIONS)}.")
    raise ModelUsageError(f"'{_short(text)}' uses {type(node).__name__}, which no formula may; use + - * / ^ and functions.")


def names_of(text: str) -> frozenset[str]:
    """Return the names of features and parameters in an expression; raises :class:`ModelUsageError` when it is not one."""
    return _compile(text)[1]


def evaluate(text: str, values: Mapping[str, Any]) -> Values:
    """Return the value of an expression for arrays (or numbers) of its names, as float64.

    Divisions by zero and logarithms of negative numbers give inf or nan, not an error: the caller decides.
    Raises :class:`ModelUsageError` when a name has no value or the expression is not allowed.
    """
    program, names = _compile(text)
    missing = sorted(names - values.keys())
    if missing:
        needed = f"'{_short(text)}' needs {', '.join(missing)}"
        raise ModelUsageError(f"{needed}, which is not among {', '.join(sorted(values)) or 'no values'}.")
    stack: list[Any] = []
    with np.errstate(all="ignore"):
        for step in program:
            if isinstance(step, tuple):
                function, arity = step
                stack[-arity:] = [np.asarray(function(*stack[-arity:]), dtype=np.float64)]
            else:
                stack.append(np.asarray(values[step], dtype=np.float64) if isinstance(step, str) else step)
    return np.array(stack.pop(), dtype=np.float64)


def split_terms(text: str) -> list[str]:
    """Return the summands of a formula: ``1 + N^3/P - L`` gives ``1``, ``N ** 3 / P`` and ``-L``."""
    names_of(text)
    return [_text(node) for node in _summands(_parse(text))]


def _text(node: ast.expr) -> str:
    try:
        return ast.unparse(node)
    except RecursionError as error:
        raise ModelUsageError("The expression is nested too deeply; write it with fewer parentheses or signs.") from error


def _summands(whole: ast.expr) -> list[ast.expr]:
    found, left = [], [(whole, False)]
    while left:
        node, negative = left.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            left += [(node.right, negative != isinstance(node.op, ast.Sub)), (node.left, negative)]
        else:
            found.append(ast.UnaryOp(ast.USub(), node) if negative else node)
    return found


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Return the expression with names replaced by other expressions, each in parentheses."""
    names_of(text)
    nodes = {name: _parse(value) for name, value in values.items()}

    class _Names(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return nodes.get(node.id, node)

    try:
        return ast.unparse(_Names().visit(_parse(text)))
    except RecursionError as error:
        raise ModelUsageError(f"'{_short(text)}' is nested too deeply; write it with fewer parentheses or signs.") from error

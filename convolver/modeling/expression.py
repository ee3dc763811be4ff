"""Expressions that a user may write in a formula: checked whole when they are parsed, evaluated on numpy arrays.

``^`` is the power, names are features or parameters, a comparison of two numbers is 1 or 0, and the functions are those of
:data:`FUNCTIONS`, each with its number of values. An expression becomes steps on a stack and nothing of Python is run, so that a
model file from a stranger can be applied safely. A coefficient has the unit of the target over that of its term's expression.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from convolver.errors import ModelError, ModelUsageError

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


Dimension = dict[str, Fraction]
"""Power of each base unit; empty for a pure number."""

_PLAIN = ("log", "log2", "log10", "exp")
_FACTOR = r"([^\s*/^()]+)(?:\^(?:(\d{1,3})|\((\d{1,3}/[1-9]\d{0,2})\)))?"
_UNIT = re.compile(rf"{_FACTOR}(?:[*/]{_FACTOR})*")


def parse_unit(text: str) -> Dimension:
    """Return the powers in ``s``, ``B/s``, ``1`` or ``m^2*s``; raises :class:`ModelError` for anything else."""
    plain = text.replace(" ", "") or "1"
    if not _UNIT.fullmatch(plain):
        raise ModelUsageError(f"'{text}' is no unit; write for example s, B/s or 1.")
    result: Dimension = {}
    for sign, name, whole, fraction in re.findall(rf"(^|[*/]){_FACTOR}", plain):
        if name != "1":
            result = _times(result, {name: Fraction(whole or fraction or 1)}, -1 if sign == "/" else 1)
    return result


def format_unit(dimension: Dimension) -> str:
    """Return ``B/s``, ``1/s`` or, for a pure number, ``1``."""

    def words(sign: int) -> str:
        powers = [(name, abs(power)) for name, power in dimension.items() if power * sign > 0]
        return "*".join(
            name if power == 1 else f"{name}^{power if power.denominator == 1 else f'({power})'}" for name, power in powers
        )

    above, below = words(1), words(-1)
    return (above or "1") + ("/" + below.replace("*", "/") if below else "")


def coefficient_unit(target: str, expression: str, units: Mapping[str, str]) -> str:
    """Return the unit of a term's coefficient; empty where the target's is not known or the expression adds different ones.

    Features without an entry in ``units`` count as pure numbers.
    """
    if not target:
        return ""
    try:
        known = {name: parse_unit(text) for name, text in units.items()}
        return format_unit(_times(parse_unit(target), _unit(_parse(expression), known), -1))
    except ModelError:
        return ""


def _times(a: Dimension, b: Dimension, sign: int = 1) -> Dimension:
    powers = {name: a.get(name, Fraction(0)) + sign * b.get(name, Fraction(0)) for name in {**a, **b}}
    return {name: power for name, power in powers.items() if power}


def _unit(node: ast.expr, known: Mapping[str, Dimension]) -> Dimension:
    if isinstance(node, ast.Name):
        return known.get(node.id, {})
    if isinstance(node, ast.UnaryOp):
        return _unit(node.operand, known)
    if isinstance(node, ast.BinOp):
        return _operation(node, known)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in _PLAIN:
            return {}
        if node.func.id == "sqrt":
            return {name: power / 2 for name, power in _unit(node.args[0], known).items()}
        return _same(node.args[1:] if node.func.id == "where" else node.args, known)
    return {}


def _operation(node: ast.BinOp, known: Mapping[str, Dimension]) -> Dimension:
    if isinstance(node.op, ast.Add | ast.Sub):
        return _same([node.left, node.right], known)
    if isinstance(node.op, ast.Pow):
        base = _unit(node.left, known)
        power = _number(node.right) if base else Fraction(1)
        return {name: own * power for name, own in base.items()}
    return _times(_unit(node.left, known), _unit(node.right, known), 1 if isinstance(node.op, ast.Mult) else -1)


def _same(nodes: list[ast.expr], known: Mapping[str, Dimension]) -> Dimension:
    """Return the one unit of summands or alternatives; numbers without a unit go with any."""
    found = [_unit(node, known) for node in nodes if not isinstance(node, ast.Constant)]
    if any(other != found[0] for other in found):
        raise ModelError("Different units are added.")
    return found[0] if found else {}


def _number(node: ast.expr) -> Fraction:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _number(node.left) / _number(node.right)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return Fraction(node.value).limit_denominator(1000)
    raise ModelError("A unit is raised to a power that is no number.")

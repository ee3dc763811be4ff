"""Units of coefficients: that of the target over that of the term's expression."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from fractions import Fraction

from convolver.errors import ModelError, ModelUsageError

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
        tree = ast.parse(expression.replace("^", "**").strip(), mode="eval").body
        return format_unit(_times(parse_unit(target), _unit(tree, known), -1))
    except (ModelError, SyntaxError):
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

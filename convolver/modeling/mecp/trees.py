"""Expression trees of the correction term: values and text.

A tree is a tuple in prefix order of tokens: operators, names of variables, and constants as floats. Operators are protected
(a division by nearly 0 gives 1, logarithms and powers take absolute values), so every tree has finite values nearly everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.float64]
Token: TypeAlias = str | float
Tree: TypeAlias = tuple[Token, ...]

BINARY = ("+", "-", "*", "/", "^")
UNARY = ("log", "exp")
_TINY = 1e-9
_LIMIT = 30.0


def arity(token: Token) -> int:
    """Return the number of operands of a token."""
    return 2 if token in BINARY else 1 if token in UNARY else 0


def end_of_first(tree: Tree) -> int:
    """Return the position after the first operand of a tree's root."""
    need, position = 1, 1
    while need:
        need += arity(tree[position]) - 1
        position += 1
    return position


def evaluate_tree(tree: Tree, columns: Mapping[str, Values], size: int) -> Values:
    """Return the values of a tree at ``size`` points."""
    stack: list[Values | float] = []
    for token in reversed(tree):
        if isinstance(token, float):
            stack.append(token)
        elif arity(token) == 2:
            stack.append(_binary(token, stack.pop(), stack.pop()))
        elif arity(token) == 1:
            value = stack.pop()
            stack.append(np.log(np.abs(value) + _TINY) if token == "log" else np.exp(np.clip(value, -_LIMIT, _LIMIT)))
        else:
            stack.append(columns[token])
    return np.broadcast_to(np.asarray(stack.pop(), dtype=np.float64), (size,))


def _binary(token: Token, a: Values | float, b: Values | float) -> Values | float:
    if token == "+":
        return a + b
    if token == "-":
        return a - b
    if token == "*":
        return a * b
    if token == "/":
        return np.asarray(np.where(np.abs(b) > _TINY, a / np.where(np.abs(b) > _TINY, b, 1.0), 1.0))
    return np.asarray(np.exp(np.clip(b * np.log(np.abs(a) + _TINY), -_LIMIT, _LIMIT)))


def text_of(tree: Tree) -> str:
    """Return the tree as an expression of :mod:`convolver.modeling.expression`, protections included."""
    stack: list[str] = []
    for token in reversed(tree):
        if isinstance(token, float):
            stack.append(f"({token!r})")
        elif arity(token) == 2:
            a, b = stack.pop(), stack.pop()
            stack.append(_binary_text(str(token), a, b))
        elif arity(token) == 1:
            value = stack.pop()
            stack.append(f"log(abs({value})+1e-9)" if token == "log" else f"exp(min(max({value},-30),30))")
        else:
            stack.append(str(token))
    return stack.pop()


def _binary_text(token: str, a: str, b: str) -> str:
    if token == "/":
        return f"where(abs({b})>1e-9,({a})/where(abs({b})>1e-9,{b},1),1)"
    if token == "^":
        return f"exp(min(max(({b})*log(abs({a})+1e-9),-30),30))"
    return f"({a}{token}{b})"

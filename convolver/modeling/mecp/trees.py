"""Expression trees of the genetic programming: random ones, crossover, mutation, evaluation, text.

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


def end_of(tree: Tree, start: int) -> int:
    """Return the position after the subtree that begins at ``start``."""
    need, position = 1, start
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


def random_tree(rng: np.random.Generator, names: tuple[str, ...], depth: int, full: bool = False) -> Tree:
    """Return a random tree of at most ``depth`` levels of operators (grow; ``full`` puts leaves at the last level only)."""
    if depth == 0 or (not full and rng.random() < 0.3):
        return (_leaf(rng, names),)
    token = BINARY[rng.choice(5, p=[0.28, 0.22, 0.25, 0.17, 0.08])] if rng.random() < 0.8 else UNARY[rng.integers(2)]
    operands = [random_tree(rng, names, depth - 1, full) for _ in range(arity(token))]
    return (token, *(t for operand in operands for t in operand))


def _leaf(rng: np.random.Generator, names: tuple[str, ...]) -> Token:
    if rng.random() < 0.35:
        return float(np.round(rng.normal(0, 2), 3))
    return names[rng.integers(len(names))]


def crossover(rng: np.random.Generator, a: Tree, b: Tree, limit: int) -> Tree:
    """Return ``a`` with a random subtree replaced by one of ``b``; ``a`` itself when the child would exceed ``limit`` tokens."""
    i, j = int(rng.integers(len(a))), int(rng.integers(len(b)))
    child = a[:i] + b[j : end_of(b, j)] + a[end_of(a, i) :]
    return child if len(child) <= limit else a


def mutate(rng: np.random.Generator, tree: Tree, names: tuple[str, ...], limit: int) -> Tree:
    """Return the tree with one change: a constant moved, a token replaced by its like, or a subtree grown anew."""
    kind = rng.random()
    position = int(rng.integers(len(tree)))
    token = tree[position]
    if kind < 0.5:
        places = [i for i, t in enumerate(tree) if isinstance(t, float)]
        if places:
            i = places[rng.integers(len(places))]
            moved = float(tree[i]) * float(rng.normal(1, 0.3)) + float(rng.normal(0, 0.1))
            return (*tree[:i], moved, *tree[i + 1 :])
    if kind < 0.75 and arity(token) == 2:
        return (*tree[:position], BINARY[rng.integers(5)], *tree[position + 1 :])
    if kind < 0.75 and arity(token) == 0:
        return (*tree[:position], _leaf(rng, names), *tree[position + 1 :])
    child = tree[:position] + random_tree(rng, names, 2) + tree[end_of(tree, position) :]
    return child if len(child) <= limit else tree


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

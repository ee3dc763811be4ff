"""Formulas are checked whole before they touch a value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import ModelError
from convolver.modeling.expression import evaluate, split_terms, substitute

WRONG = [
    *("log(n, p)", "abs(n, p) + p", "log()", "where(n)", "where(n, 1, 2)", "min(n)", "max(n, p, p)", "log(x=n)", "log(*n)"),
    *("n @ p", "n in p", "1 | n", "1 < n < 3", "n << 2", "not n", "~n", "n if p else 3", "n is p", "n // 2", "n % 2"),
    *("n.real", "n[0]", "[n]", "(lambda: 1)()", "'a'", "True", "None", "1j", "...", "1()", "f'{n}'", "print(n)", "a b", ""),
    *("-" * 500 + "n", "1" + "0" * 400, "1" + "0" * 6000, "(" * 300 + "n" + ")" * 300, "+".join(["n"] * 9999), "n" * 30000),
]


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:20])
def test_what_is_no_formula_is_refused_and_values_stay(text):
    values = {"n": np.array([1.0, 2.0]), "p": np.array([3.0, 4.0])}
    for read in (lambda: evaluate(text, values), lambda: split_terms(text), lambda: substitute(text, {"n": "p"})):
        try:
            read()
        except ModelError:
            continue
        assert text == "-" * 500 + "n"  # Python may evaluate it; all that matters is that nothing else is raised
    assert values["n"].tolist() == [1, 2]
    assert values["p"].tolist() == [3, 4]


def test_a_result_is_a_copy_of_the_values():
    n = np.array([1.0, 2.0])
    evaluate("n", {"n": n})[:] = 9
    assert n.tolist() == [1, 2]


def _texts(names):
    number = st.floats(0.1, 9).map(lambda value: f"{value:.3f}")
    return st.recursive(
        st.sampled_from(names) | number,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("+-*/^"), inner).map(lambda t: f"({t[0]}){t[1]}({t[2]})"),
            inner.map(lambda t: f"-({t})"),
            st.tuples(inner, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), inner).map(
                lambda t: f"(({t[0]}){t[1]}({t[2]}))"
            ),
            st.tuples(st.sampled_from(["log", "exp", "sqrt", "abs", "floor"]), inner).map(lambda t: f"{t[0]}({t[1]})"),
            st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
            st.tuples(inner, inner, inner).map(lambda t: f"where({t[0]} < {t[1]}, {t[1]}, {t[2]})"),
        ),
        max_leaves=12,
    )


@given(_texts(["n", "p"]), st.floats(-9, 9), st.floats(-9, 9))
def test_formulas_have_the_value_that_numpy_gives(text, n, p):
    functions = {name: getattr(np, name) for name in ("log", "exp", "sqrt", "abs", "floor", "where")}
    functions |= {"min": np.minimum, "max": np.maximum, "n": np.float64(n), "p": np.float64(p)}
    with np.errstate(all="ignore"):
        plain = _numbers(text)
        expected = np.float64(eval(plain, {"__builtins__": {}, "number": np.float64}, functions))
    np.testing.assert_array_equal(evaluate(text, {"n": n, "p": p}), expected)


def _numbers(text):
    """The formula for Python: every number and every comparison a float64, as numpy's rules for Python's own differ."""
    import ast

    class Wrap(ast.NodeTransformer):
        def visit_Constant(self, node):
            return ast.Call(ast.Name("number", ast.Load()), [node], [])

        def visit_Compare(self, node):
            return ast.Call(ast.Name("number", ast.Load()), [self.generic_visit(node)], [])

    return ast.unparse(ast.fix_missing_locations(Wrap().visit(ast.parse(text.replace("^", "**"), mode="eval"))))

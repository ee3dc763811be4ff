"""Equal calls of two places of a mesh: the same pairs as difflib finds, on real traces of LU and on random sequences."""

from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.modeling.p3s.matching import equal_pairs

LU = np.load(Path(__file__).with_name("lu_calls.npz"))
"""Calls of LU, class W, on 4, 8 and 16 ranks, as numbers: those joined so far, a new place's, and the differences between the
pairs that difflib found one after the other (in 5 to 17 s each)."""


def by_difflib(first, second):
    """Equal ends at once, the middle by difflib."""
    head = 0
    while head < min(len(first), len(second)) and first[head] == second[head]:
        head += 1
    tail = 0
    while tail < min(len(first), len(second)) - head and first[-1 - tail] == second[-1 - tail]:
        tail += 1
    a, b = first[head : len(first) - tail], second[head : len(second) - tail]
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    pairs = [(i, i) for i in range(head)]
    pairs += [(head + block.a + i, head + block.b + i) for block in blocks for i in range(block.size)]
    return pairs + [(len(first) - i, len(second) - i) for i in range(tail, 0, -1)]


@pytest.mark.parametrize("number", range(5))
def test_the_calls_of_lu_are_related_as_difflib_did(number):
    first, second, steps = (LU[f"{name}{number}"] for name in ("first", "second", "pairs"))
    assert len(first) > 1300
    pairs = equal_pairs(first.tolist(), second.tolist())
    assert np.array_equal(np.array(pairs), np.cumsum(steps, axis=0))


@given(st.integers(1, 4).flatmap(lambda most: st.tuples(*2 * [st.lists(st.integers(0, most), max_size=60)])))
def test_any_sequences_are_related_as_difflib_does(sides):
    first, second = sides
    assert equal_pairs(first, second) == by_difflib(first, second)


@given(st.lists(st.integers(0, 2), max_size=5), st.lists(st.integers(0, 2), max_size=5), st.integers(0, 12), st.integers(0, 12))
def test_repeated_bodies_are_related_as_difflib_does(body, other, times, turns):
    first, second = [*body * times, *other], [*other, *body * turns]
    assert equal_pairs(first, second) == by_difflib(first, second)

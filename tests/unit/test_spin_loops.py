"""Which references belong to loops that wait for another thread."""

from __future__ import annotations

import numpy as np

from convolver.tracing.spin_loops import LEAST, repeated


def found(words, sites=None, stretches=None, stored=None):
    words = np.array(words, np.uint64)
    sites = np.zeros(len(words), np.uint32) if sites is None else np.array(sites, np.uint32)
    stretches = np.zeros(len(words), np.uint64) if stretches is None else np.array(stretches, np.uint64)
    stored = np.zeros(len(words), np.bool_) if stored is None else np.array(stored)
    return repeated(words, sites, stretches, stored)


def test_loads_of_one_word_over_and_over_are_a_loop_that_waits():
    assert list(np.flatnonzero(found([1, 2, *[7] * LEAST, 3]))) == list(range(2, LEAST + 2))
    assert not found([1, 2, *[7] * (LEAST - 1), 3]).any()


def test_loops_of_a_few_loads_wait_too():
    assert found([7, 8, 9] * LEAST, sites=[1, 2, 3] * LEAST).all()
    assert not found([7, 8, 9, 10, 11] * LEAST).any()


def test_loops_that_store_or_move_on_do_work():
    assert not found([7, 8] * LEAST, stored=[False, True] * LEAST).any()
    assert not found(range(4 * LEAST)).any()
    assert not found([7, 8, 9][:2] * 1 + list(range(100, 100 + LEAST))).any()


def test_a_loop_ends_where_another_thread_goes_on():
    half = LEAST // 2
    assert not found([7] * LEAST, stretches=[0] * half + [1] * half).any()

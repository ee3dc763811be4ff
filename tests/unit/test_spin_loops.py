"""Which references belong to loops that wait for another thread."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from convolver._native.touches import PIECE, TURNS, WAITS, Touches

OTHER = 9
"""A thread that stores to every word, later."""


def found(words, sites=None, threads=None, stored=None, store_later=True):
    """How many references are loads of a loop that waits, by word, where :data:`OTHER` stores to all words in the end."""
    sites = [0] * len(words) if sites is None else sites
    threads = [0] * len(words) if threads is None else threads
    stored = [False] * len(words) if stored is None else stored
    touches = Touches()

    def feed(thread, rows):
        each = np.array(rows, dtype=[("word", "u8"), ("site", "u4"), ("stored", "?")])
        touches.feed(thread, 1, each["word"] * np.uint64(8), each["stored"].copy(), each["site"].copy())

    for thread, rows in groupby(zip(threads, words, sites, stored, strict=True), lambda row: row[0]):
        feed(thread, [row[1:] for row in rows])
    if store_later:
        feed(OTHER, [(word, 99, True) for word in set(words)])
    touches.end()
    counts = {}
    for row in touches.counts(WAITS):
        counts[int(row["word"])] = counts.get(int(row["word"]), 0) + int(row["count"])
    return counts


def test_loads_of_one_word_over_and_over_are_a_loop_that_waits():
    assert found([1, 2, *[7] * TURNS, 3]) == {7: TURNS}
    assert found([1, 2, *[7] * (TURNS - 1), 3]) == {}


def test_loops_of_a_few_loads_wait_too():
    assert found([7, 8, 9] * TURNS, sites=[1, 2, 3] * TURNS) == {7: TURNS, 8: TURNS, 9: TURNS}
    assert found([7, 8, 9, 10] * TURNS) == dict.fromkeys((7, 8, 9, 10), TURNS)
    assert found([7, 8, 9, 10, 11] * TURNS) == {}
    assert found([7] * TURNS, sites=[1, 2] * (TURNS // 2)) == {}, "32 turns of two loads"


def test_each_load_of_a_loop_is_counted_once():
    """A loop of one load is one of two and of four loads, too."""
    assert found([7] * 10 * TURNS) == {7: 10 * TURNS}
    assert found([*[7] * 5 * TURNS, *[7, 8] * 3 * TURNS]) == {7: 8 * TURNS, 8: 3 * TURNS}


def test_loops_that_store_or_move_on_do_work():
    assert found([7, 8] * TURNS, stored=[False, True] * TURNS, sites=[1, 2] * TURNS) == {}
    assert found(list(range(4 * TURNS))) == {}


def test_a_loop_ends_where_another_thread_goes_on():
    half = TURNS // 2
    assert found([7] * TURNS, threads=[0] * half + [1] * half) == {}


def test_a_loop_waits_only_for_what_another_thread_stores():
    assert found([7] * TURNS, store_later=False) == {}
    assert found([7, *[7] * TURNS], sites=[1] + [2] * TURNS, stored=[True] + [False] * TURNS, store_later=False) == {}
    both = found([7, 7, *[7] * TURNS], [1, 1] + [2] * TURNS, [3, 0] + [0] * TURNS, [True, True] + [False] * TURNS, False)
    assert both == {7: TURNS}, "one that both stored to"


def test_a_loop_goes_on_from_piece_to_piece():
    assert found([7] * (PIECE + 10)) == {7: PIECE + 10}

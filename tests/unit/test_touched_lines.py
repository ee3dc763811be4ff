"""Which lines threads contend for: those that they touch in turn, not those that one hands over to another."""

from __future__ import annotations

import polars as pl

from convolver.tracing.touched_lines import _contended


def seen(*bursts):
    """Rows of (thread, line, stored), a burst each."""
    rows = [{"line": line, "window": at, "thread": one, "stored": stored} for at, (one, line, stored) in enumerate(bursts)]
    return pl.DataFrame(rows)


def test_lines_that_threads_touch_in_turn_are_contended_for():
    found = _contended(seen(*[(1, 7, True), (2, 7, True), (2, 7, True)] * 5))
    assert set(found["line"]) == {7}


def test_a_thread_that_goes_on_alone_does_not_hide_that_it_contended():
    fast = [(2, 7, True), (3, 7, True), *[(2, 7, True)] * 9] * 4
    assert set(_contended(seen(*fast, *[(3, 7, True)] * 100))["line"]) == {7}


def test_a_line_that_three_threads_hand_on_is_not_contended_for():
    assert len(_contended(seen(*[(thread, 7, True) for thread in (1, 2, 3) for _ in range(10)]))) == 0


def test_a_line_handed_over_or_only_read_or_of_one_thread_is_not():
    handed = [(1, 7, True)] * 10 + [(2, 7, True)] * 10
    read = [(1, 8, False), (2, 8, False)] * 10
    own = [(1, 9, True)] * 10
    assert len(_contended(seen(*handed, *read, *own))) == 0

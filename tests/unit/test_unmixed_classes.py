"""Kinds of intervals that share a class of work are taken apart: by hand, with answers from arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from convolver._native.thread_replay import RECORD
from convolver.tracing.thread_log import ThreadLog
from convolver.tracing.unmixed_classes import unmixed

PROGRESS, START, LOCK, UNLOCK = 0, 1, 5, 6
OUTSIDE, INSIDE, BOTH = 0, 1, 2
"""Counters."""


def log_of(rows, classes):
    """Rows of (thread, kind, instructions, class); ``classes``: counts of :data:`OUTSIDE`, :data:`INSIDE`, :data:`BOTH`."""
    records = np.zeros(len(rows), RECORD)
    for record, (thread, kind, instructions, number) in zip(records, rows, strict=True):
        record["thread"], record["kind"], record["instructions"], record["work_class"] = thread, kind, instructions, number
        record["place"] = kind
    counted = {one: np.array([[k, n] for k, n in enumerate(counts) if n], np.uint64) for one, counts in classes.items()}
    return ThreadLog(records, counted)


def locking(turns, alone):
    """Threads 1 and 2 take a lock in turn: 100 instructions without and 300 with it; the first ``alone`` turns have a class each
    for what is outside and inside."""
    rows = [(0, START, 1, 0), (1, START, 0, 0), (2, START, 0, 0), (1, UNLOCK, 0, 0), (2, UNLOCK, 0, 0)]
    for turn in range(turns):
        outside, inside = (1, 2) if turn < alone else (3, 3)
        rows += [(1 + turn % 2, LOCK, 100, outside), (1 + turn % 2, UNLOCK, 300, inside)]
    shared = turns - alone
    classes = {0: (1, 0, 0), 1: (10 * alone, 0, alone), 2: (0, 60 * alone, 3 * alone), 3: (10 * shared, 60 * shared, 4 * shared)}
    return log_of(rows, classes)


def kinds(log):
    """Counts of each class that has records, by the instructions of one of these."""
    return {
        int(log.records["instructions"][log.records["work_class"] == number].max()): dict(log.classes[number].tolist())
        for number in np.unique(log.records["work_class"]).tolist()
        if number > 2
    }


def test_what_a_lock_guards_has_the_blocks_that_ran_inside():
    found = kinds(unmixed(locking(1000, alone=200)))
    assert found[100][OUTSIDE] == pytest.approx(8000, rel=0.02)
    assert found[300][INSIDE] == pytest.approx(48000, rel=0.02)
    assert found[100][BOTH] == pytest.approx(800, rel=0.02)
    assert found[300][OUTSIDE] < 0.02 * 8000
    assert found[100][INSIDE] < 0.02 * 48000


def test_counts_and_instructions_stay_the_same():
    mixed = locking(1000, alone=20)
    apart = unmixed(mixed)
    for one, other in ((counts(apart), counts(mixed)), (apart.instructions().sum(), mixed.instructions().sum())):
        assert one == pytest.approx(other)
    assert apart.records["instructions"].tolist() == mixed.records["instructions"].tolist()
    assert mixed.records["work_class"].max() == 3


def counts(log):
    counter, _, number = log.counts()
    return np.bincount(counter, number)


@pytest.mark.parametrize("alone", [0, 9])
def test_kinds_that_were_hardly_ever_alone_share_by_instructions(alone):
    found = kinds(unmixed(locking(1000 + alone, alone)))
    assert found[100] == pytest.approx({OUTSIDE: 2500, INSIDE: 15000, BOTH: 1000})
    assert found[300] == pytest.approx({OUTSIDE: 7500, INSIDE: 45000, BOTH: 3000})


def test_an_interval_goes_on_after_a_record_of_progress():
    rows = [(0, START, 1, 0), (1, START, 0, 0), (1, LOCK, 100, 1), (1, PROGRESS, 100, 1), (1, UNLOCK, 200, 1)]
    apart = unmixed(log_of(rows, {0: (1, 0, 0), 1: (10, 60, 4)}))
    assert len({*apart.records["work_class"][3:].tolist()}) == 1
    assert apart.records["work_class"][2] != apart.records["work_class"][3]


def test_classes_of_one_kind_stay():
    pure = locking(50, alone=50)
    apart = unmixed(pure)
    assert apart.records["work_class"].tolist() == pure.records["work_class"].tolist()
    assert apart.classes.keys() == pure.classes.keys()

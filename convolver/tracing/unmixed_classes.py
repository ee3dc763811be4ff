"""Classes of threads' work that hold intervals of several kinds, taken apart.

A tracer cannot compare all its block counters at each event: short intervals that follow each other share a class, though code
within a lock may differ from that outside it. An interval's kind, the event that began it, and its instructions are known. Now
and then an interval has a class of its own, which says which blocks its kind executes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver.tracing.thread_log import ThreadLog

PURE = 7 / 8
"""A class with this part of its instructions in intervals of one kind is one kind's, as tracers have it."""
LEAST = 0.01
"""Part of a class's instructions that a kind has which gets a class of its own."""
FEWEST = 10
"""Intervals of a kind that say what it executes: a first one has the dynamic linker's work, too."""
_PROGRESS, _KIND_BITS = 0, 40


def _began(records: NDArray[Any]) -> NDArray[np.int64]:
    """Return what began each record's interval: kind and place of its thread's last event, or the thread, which had none."""
    threads = records["thread"].astype(np.int64)
    order = np.argsort(threads, kind="stable")
    ends = records["kind"][order] != _PROGRESS
    threads = threads[order]
    first = np.searchsorted(threads, threads)
    last = np.maximum.accumulate(np.where(ends, np.arange(len(order)), -1))
    before = np.concatenate([[-1], last[:-1]])[: len(order)]
    kind, place = (records[name][order].astype(np.int64) for name in ("kind", "place"))
    began = np.empty(len(order), np.int64)
    began[order] = np.where(before >= first, kind[before] << 32 | place[before], 1 << 39 | threads)
    return began


def unmixed(log: ThreadLog) -> ThreadLog:
    """Return a log in which kinds of intervals that shared a class have one each, with the counts of the blocks that they
    execute; sums over them stay. The first class, which is what ran before the second thread, stays as it is."""
    records = log.records
    instructions = records["instructions"].astype(float) + records["inside"]
    known = records["work_class"].astype(np.int64) << _KIND_BITS | _began(records)
    pairs, pair_of = np.unique(known, return_inverse=True)
    owner, kind = pairs >> _KIND_BITS, pairs & ((1 << _KIND_BITS) - 1)
    size, count = np.bincount(pair_of, instructions), np.bincount(pair_of)
    whole = np.bincount(owner, size, minlength=log.work_classes)
    share = np.divide(size, whole[owner], out=np.zeros_like(size), where=whole[owner] > 0)
    pure = share >= PURE
    mixed = np.setdiff1d(owner[whole[owner] > 0], [0, *owner[pure]])
    classes: dict[int, NDArray[Any]] = dict(log.classes)
    number, free = owner.copy(), log.work_classes
    for one in mixed.tolist():
        parts = np.flatnonzero((owner == one) & (share >= LEAST))
        counters, counts = log.classes.get(one, np.zeros((0, 2), np.uint64)).astype(float).T
        average = counts / whole[one]
        weights = [(whole[one] - size[parts].sum()) * average]
        for part in parts:
            of_kind = pure & (kind == kind[part])
            alone = owner[of_kind] if count[of_kind].sum() >= FEWEST else np.zeros(0, np.int64)
            seen = sum((_counted(log.classes.get(other), counters) for other in alone.tolist()), np.zeros(len(counters)))
            interval = size[part] / count[part]  # one of the mixed kind stands beside those that were seen
            weights.append(size[part] * (seen + interval * average) / (whole[alone].sum() + interval))
        shared = counts * np.array(weights) / np.maximum(np.sum(weights, axis=0), 1e-300)
        number[parts] = np.arange(free, free + len(parts))
        classes |= {
            place: np.column_stack([counters, row]) for place, row in zip([one, *number[parts].tolist()], shared, strict=True)
        }
        free += len(parts)
    records = records.copy()
    records["work_class"] = number[pair_of]
    return replace(log, records=records, classes=classes)


def _counted(pairs: NDArray[Any] | None, counters: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a class counted in these counters."""
    if pairs is None or not len(pairs):
        return np.zeros(len(counters))
    order = np.argsort(pairs[:, 0])
    have = pairs[order]
    at = np.minimum(np.searchsorted(have[:, 0].astype(float), counters), len(have) - 1)
    return np.where(have[at, 0] == counters, have[at, 1].astype(float), 0.0)

"""What keeps the threads of a replay from working: core seconds by cause, locks, lines, loops that wait, parallel regions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.thread_replay import ThreadRun
from convolver.convolution.block_times import BlockTimes
from convolver.tracing.thread_log import ThreadLog
from convolver.tracing.touched_lines import TouchedLines

LOCKS_SHOWN = LINES_SHOWN = 5
REGIONS_SHOWN = 10
SHARING, MEMORY, SIBLINGS = "lines that several threads write", "memory bandwidth", "threads that share a core"
LAST = "the last level's bandwidth"
HANDED = "lines from other threads"
BARRIERS = "barriers"
FEWER = "fewer threads than cores"
LEAST_LOST, MUCH_LOST = 0.02, 0.1
"""Share of the cores' time that a cause must take to be named; of those that threads could use, to be named first."""
LEAST_BUSY = 0.15
"""A thread that works for so much of what the threads do in the mean could use a core of its own."""


def lost_seconds(run: ThreadRun, cores: int) -> dict[str, float]:
    """Return the core seconds without work by cause. Waiting counts only where a core was free for it that a thread could use."""
    totals = run.totals
    lost = sum(totals[name] for name in ("saturated", "near", "contended", "handed", "paired"))
    working = run.busy >= LEAST_BUSY * run.busy.mean() if run.busy.any() else np.ones(len(run.busy), np.bool_)
    usable = min(cores, int(np.count_nonzero(working))) if run.busy.any() else cores
    free = max(usable * totals["elapsed"] - totals["work"] - lost, 0.0)
    barriers = min(totals["barriers"], free)
    free -= barriers
    waited = _waited(run, working, free)
    return {
        BARRIERS: barriers,
        "serial parts": waited["fork"] + waited["join"],
        "imbalance": waited["barrier"],
        "locks": waited["lock"],
        "waiting for other threads": waited["condition"],
        FEWER: (cores - usable) * totals["elapsed"],
        MEMORY: totals["saturated"],
        LAST: totals["near"],
        SHARING: totals["contended"],
        HANDED: totals["handed"],
        SIBLINGS: totals["paired"],
    }


def _waited(run: ThreadRun, working: NDArray[np.bool_], free: float) -> dict[str, float]:
    """Share ``free`` core seconds out to causes as threads with work waited, and what is more than that as the others did."""
    own, others = run.waited_by(working), run.waited_by(~working)
    most = sum(own.values())
    parts = [(own, min(free, most)), (others, max(free - most, 0.0))]
    shares = [{name: one * seconds / max(sum(by.values()), 1e-300) for name, one in by.items()} for by, seconds in parts]
    found = {name: shares[0][name] + shares[1][name] for name in own}
    whole = sum(found.values())
    return {name: free * one / whole if whole else 0.0 for name, one in found.items()}


def waited_locks(run: ThreadRun, log: ThreadLog) -> list[dict[str, Any]]:
    """Return the locks that were waited for most."""
    found = [{name: one[name].item() for name in ("object", "taken", "contended", "held", "waited")} for one in run.locks]
    found = sorted((one for one in found if one["waited"] > 0), key=lambda one: -float(one["waited"]))[:LOCKS_SHOWN]
    return [{"name": _lock_name(int(one.pop("object")), log), **one} for one in found]


def _lock_name(lock: int, log: ThreadLog) -> str:
    if lock == 1:
        return "the critical section without a name"
    if lock in log.objects:
        return log.objects[lock]
    records = log.records
    first = np.flatnonzero((records["object"] == lock) & (records["place"] > 0))
    where = log.places.get(int(records["place"][first[0]])) if len(first) else None
    known = where not in (None, "?")  # of older traces
    return f"a lock taken in {where} (at {lock:#x})" if known else f"a lock at {lock:#x}"


def contended_lines(run: ThreadRun, touched: TouchedLines | None) -> list[dict[str, Any]]:
    """Return the lines at which most was lost."""
    if touched is None:
        return []
    most = [int(one) for one in np.argsort(-run.lines)[:LINES_SHOWN] if run.lines[one] > 0]
    lines = touched.lines
    return [{"name": lines[one].label, "address": lines[one].address, "lost": float(run.lines[one])} for one in most]


def spin_loops(times: BlockTimes, touched: TouchedLines | None) -> list[dict[str, Any]]:
    """Return the program's own loops in which threads wait, where that takes :data:`LEAST_LOST` of the time together."""
    if touched is None or not touched.spins:
        return []
    seconds = dict(zip(times.table["block"].to_list(), times.table["seconds"].to_list(), strict=True))
    found = [{"name": one.label, "seconds": one.share * seconds.get(one.block, 0.0)} for one in touched.spins]
    enough = sum(float(one["seconds"]) for one in found) >= LEAST_LOST * sum(seconds.values())
    return sorted(found, key=lambda one: -float(one["seconds"]))[:LINES_SHOWN] if enough else []


def parallel_regions(run: ThreadRun, cores: int, log: ThreadLog) -> list[dict[str, Any]]:
    """Return the parallel regions that take longest, by the place that begins them."""
    places = log.records["place"][run.regions["record"]]
    found: list[dict[str, Any]] = []
    for place in np.unique(places):
        rows = run.regions[places == place]
        threads = int(rows["threads"].max())
        seconds, work = float(rows["seconds"].sum()), float(rows["work"].sum())
        whole = float((rows["seconds"] * np.minimum(np.maximum(rows["threads"], 1), cores)).sum())
        lost = {MEMORY: rows["saturated"].sum(), SHARING: rows["contended"].sum(), SIBLINGS: rows["paired"].sum()}
        idle = max(whole - work - sum(lost.values()), 0.0)
        lost["locks"] = min(rows["locks"].sum(), idle)
        lost[BARRIERS] = min(rows["barriers"].sum(), idle - lost["locks"])
        lost["imbalance"] = idle - lost["locks"] - lost[BARRIERS]
        cause = max(lost, key=lambda one: lost[one])
        found.append(
            {
                "name": log.places.get(int(place), "a place without a name"),
                "times": len(rows),
                "threads": threads,
                "seconds": seconds,
                "work_seconds": work,
                "efficiency": work / whole if whole else 1.0,
                "limit": cause if lost[cause] > LEAST_LOST * whole else "nothing",
            }
        )
    return sorted(found, key=lambda one: -float(one["seconds"]))[:REGIONS_SHOWN]

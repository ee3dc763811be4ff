"""The timeline of a program's threads: a replay of them in the form of a replayed MPI run, a thread for a rank."""

from __future__ import annotations

import numpy as np

from convolver._native.thread_replay import ThreadRun
from convolver.mpi.timeline import MESSAGE_COLUMNS, Timeline, make_timeline

COMPUTE, FIRST_WAIT = 1, 9
_RANK = ("seconds", "compute", "transfer", "wait", "messages_sent", "bytes_sent", "messages_received", "bytes_received")


def thread_timeline(run: ThreadRun, machine: str, inputs: dict[str, str]) -> Timeline:
    """Return the timeline of a run whose intervals were kept; ``machine`` names where it runs."""
    known = run.intervals
    intervals = np.zeros(len(known), [(name, float) for name in ("rank", "begin", "end", "state", "record", "message", "cause")])
    intervals["rank"], intervals["begin"], intervals["end"] = known["thread"], known["begin"], known["end"]
    intervals["state"] = np.where(known["state"] == 0, COMPUTE, FIRST_WAIT - 1 + known["state"])
    intervals["record"] = intervals["message"] = intervals["cause"] = -1
    ranks = np.zeros(len(run.busy), [(name, float) for name in _RANK])
    length = known["end"] - known["begin"]
    for name, rows in (("compute", known["state"] == 0), ("wait", known["state"] != 0)):
        ranks[name] = np.bincount(known["thread"][rows], weights=length[rows], minlength=len(ranks))
    ranks["seconds"] = ranks["compute"] + ranks["wait"]
    return make_timeline(
        ranks, intervals, np.zeros(0, [(name, float) for name in MESSAGE_COLUMNS]), {"each": "thread", "machine": machine}, inputs
    )

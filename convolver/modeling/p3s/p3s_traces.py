"""Where traces for P3S come from: time-independent ones of SimGrid SMPI, or events of real ranks, counted or timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from convolver.errors import ModelError
from convolver.mpi.events import IMMEDIATE, EventKind, Events, Op, Sync
from convolver.mpi.sources import load_events
from convolver.mpi.time_independent import WORK_PER_SECOND, Operation, Trace, read_ti

_POINT = {EventKind.RECV: "recv", EventKind.IRECV: "irecv", EventKind.WAIT: "wait"}


def read_trace(path: str | Path) -> Trace:
    """Read a trace for P3S: a .txt is a time-independent trace, anything else what :func:`load_events` reads.

    Raises :class:`FormatError` for a damaged file and what :func:`from_events` raises.
    """
    return read_ti(path) if Path(path).suffix == ".txt" else from_events(load_events(path))


def from_events(events: Events) -> Trace:
    """Return the operations of events, their work in nanoseconds of the bursts: instructions where these were counted.

    What is left out is left out of time-independent traces too: waits for sends (their work goes to the call that follows) and
    work after the last call; collectives of a task with itself are, too. Raises :class:`ModelError` for collectives of some tasks
    only and for non-blocking ones.
    """
    members = np.diff(events.member_first).tolist()
    names = list(events.columns)
    columns = zip(*(events.columns[name].tolist() for name in names), strict=True)
    rows = [dict(zip(names, values, strict=True)) for values in columns]
    ranks = [rows[first:last] for first, last in pairwise(events.first.tolist())]
    return [list(_operations(listed, members, events.ranks)) for listed in ranks]


def _operations(rows: Sequence[dict[str, Any]], members: Sequence[int], ranks: int) -> Iterator[Operation]:
    work = 0.0
    for row in rows:
        kind = EventKind(row["kind"])
        if kind in (EventKind.BURST, EventKind.GPU):
            work += row["seconds"] * WORK_PER_SECOND
        elif kind not in (EventKind.NOOP, EventKind.EVENT, EventKind.SEND_WAIT):
            if kind == EventKind.COLLECTIVE and members[row["comm"]] < ranks:
                if members[row["comm"]] == 1:
                    continue
                raise ModelError(
                    f"A {Op(row['op']).name.lower()} of some tasks only cannot be scaled (P3S); split no communicator."
                )
            yield _operation(kind, row, work)
            work = 0.0


def _operation(kind: EventKind, row: dict[str, Any], work: float) -> Operation:
    if kind == EventKind.COLLECTIVE:
        op = Op(row["op"])
        if row["flags"] not in (Sync.BLOCKING, Sync.ROOT):
            raise ModelError(f"A non-blocking {op.name.lower()} cannot be scaled (P3S); use blocking collectives.")
        return Operation(op.name.lower(), -1, max(row["bytes"], row["extra"]), 0, work)
    name = _POINT.get(kind) or ("isend" if row["flags"] & IMMEDIATE else "send")
    return Operation(name, row["partner"], 0 if kind == EventKind.WAIT else row["bytes"], row["tag"], work)

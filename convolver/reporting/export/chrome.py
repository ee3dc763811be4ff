"""A replayed run as Chrome trace events: Perfetto (ui.perfetto.dev) and chrome://tracing open it.

Format: Google, "Trace Event Format": complete events (X), flows (s, f) for messages, metadata (M). Times are microseconds there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from convolver.errors import PredictionError
from convolver.mpi.timeline import STATES

if TYPE_CHECKING:
    from convolver.mpi.timeline import Timeline

MICROSECONDS = 1e6
PROCESS = 1


def _named(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": PROCESS, "tid": thread, "args": {"name": name}}


def _intervals(timeline: Timeline) -> Iterator[dict[str, Any]]:
    for row in timeline.intervals.iter_rows(named=True):
        if row["end"] <= row["begin"]:
            continue
        details = {"record": row["record"], **{name: row[name] for name in ("message", "cause") if row[name] >= 0}}
        yield {
            "ph": "X",
            "name": STATES[row["state"]],
            "cat": "mpi" if row["state"] > 1 else "compute",
            "pid": PROCESS,
            "tid": row["rank"],
            "ts": row["begin"] * MICROSECONDS,
            "dur": (row["end"] - row["begin"]) * MICROSECONDS,
            "args": details,
        }


def _messages(timeline: Timeline) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(timeline.messages.iter_rows(named=True)):
        same = {"name": "message", "cat": "message", "id": number, "pid": PROCESS}
        details = {"bytes": row["bytes"], "tag": row["tag"]}
        yield {**same, "ph": "s", "tid": row["source"], "ts": row["logical_send"] * MICROSECONDS, "args": details}
        yield {**same, "ph": "f", "bp": "e", "tid": row["destination"], "ts": row["logical_receive"] * MICROSECONDS}


def trace_events(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Yield the events; raises :class:`PredictionError` when the replay recorded no intervals."""
    if timeline.intervals.is_empty():
        raise PredictionError("This timeline has no intervals: replay with -o FILE or --prv, which record them.")
    yield _named("process_name", 0, "predicted run")
    for rank in timeline.ranks["rank"]:
        yield _named("thread_name", rank, f"rank {rank}")
        yield {"ph": "M", "name": "thread_sort_index", "pid": PROCESS, "tid": rank, "args": {"sort_index": rank}}
    yield from _intervals(timeline)
    yield from _messages(timeline)


def lines(timeline: Timeline) -> Iterator[str]:
    """Yield the JSON document line by line: one event a line, so that a large one is never held in memory as text."""
    about = {"predicted_seconds": timeline.predicted_seconds, "timeline": timeline.id}
    yield f'{{"displayTimeUnit": "ns", "otherData": {json.dumps(about)}, "traceEvents": ['
    before = ""
    for event in trace_events(timeline):
        if before:
            yield before + ","
        before = json.dumps(event)
    yield before
    yield "]}"

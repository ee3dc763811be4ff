"""A replayed run as Chrome trace events: Perfetto (ui.perfetto.dev) and chrome://tracing open it.

Format: Google, "Trace Event Format": begins and ends (B, E), flows (s, f) for messages, metadata (M), in microseconds. Without
``displayTimeUnit``: Perfetto takes the "ns" that is meant for display as the unit of all times, which are then a thousandth.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from convolver.errors import PredictionError
from convolver.mpi.timeline import STATES, Timeline

NANOSECONDS = 1e9
PROCESS = 1


def _named(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": PROCESS, "tid": thread, "args": {"name": name}}


def _microseconds(seconds: float) -> float:
    """Return the time to the nanosecond: one and the same moment is written in one way."""
    return round(seconds * NANOSECONDS) / 1000


def _intervals(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Yield a begin and an end for each interval, rank by rank.

    Not complete events with a duration: begin + duration is seldom the next begin, and readers then take the next one as nested.
    Ends repeat name and arguments, since some readers look for their begin by them.
    """
    for row in timeline.intervals.sort("rank", "begin", "end").iter_rows(named=True):
        begin, end = _microseconds(row["begin"]), _microseconds(row["end"])
        if end <= begin:
            continue
        details = {"record": row["record"], **{name: row[name] for name in ("message", "cause") if row[name] >= 0}}
        same = {
            "name": STATES[row["state"]],
            "cat": "compute" if row["state"] == 1 else "mpi" if timeline.each == "rank" else "wait",
            "args": details,
        }
        yield {"ph": "B", **same, "pid": PROCESS, "tid": row["rank"], "ts": begin}
        yield {"ph": "E", **same, "pid": PROCESS, "tid": row["rank"], "ts": end}


def _messages(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Yield a flow for each message, from the call that sends it to when it is there and asked for.

    Not to the call that asks for it, which may come before the message is sent: readers drop flows that end before they begin.
    """
    for number, row in enumerate(timeline.messages.iter_rows(named=True)):
        same = {"name": "message", "cat": "message", "id": number, "pid": PROCESS}
        details = {"bytes": row["bytes"], "tag": row["tag"]}
        yield {**same, "ph": "s", "tid": row["source"], "ts": _microseconds(row["logical_send"]), "args": details}
        end = max(row["logical_receive"], row["physical_receive"])
        yield {**same, "ph": "f", "bp": "e", "tid": row["destination"], "ts": _microseconds(end)}


def trace_events(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Yield the events; raises :class:`PredictionError` when the replay recorded no intervals."""
    if timeline.intervals.is_empty():
        raise PredictionError("This timeline has no intervals: replay with -o FILE or --prv, which record them.")
    yield _named("process_name", 0, "predicted run")
    for rank in timeline.ranks["rank"]:
        yield _named("thread_name", rank, f"{timeline.each} {rank}")
        yield {"ph": "M", "name": "thread_sort_index", "pid": PROCESS, "tid": rank, "args": {"sort_index": rank}}
    yield from _intervals(timeline)
    yield from _messages(timeline)


def lines(timeline: Timeline) -> Iterator[str]:
    """Yield the JSON document line by line: one event a line, so that a large one is never held in memory as text."""
    about = {"predicted_seconds": timeline.predicted_seconds, "timeline": timeline.id}
    yield f'{{"otherData": {json.dumps(about)}, "traceEvents": ['
    before = ""
    for event in trace_events(timeline):
        if before:
            yield before + ","
        before = json.dumps(event)
    yield before
    yield "]}"

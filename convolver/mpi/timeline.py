"""The timeline of a replay: per-rank totals, intervals and messages; an artifact in one Parquet file."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from convolver._native.thread_replay import ThreadRun
from convolver.heavy import pl
from convolver.schema import load_table, save_table, table_header
from convolver.shapes import unlike

SCHEMA = "convolver.timeline"
STATES = {
    1: "compute",
    2: "startup",
    3: "wait for message",
    4: "transfer",
    5: "wait for receiver",
    6: "wait for collective",
    7: "collective",
    8: "wait for processor",
    9: "wait for a region",
    10: "wait at a barrier",
    11: "wait for a lock",
    12: "wait for another thread",
    13: "wait for a thread's end",
}
"""Names of the states of an interval."""

MESSAGE_COLUMNS = (
    "logical_send",
    "request",
    "physical_send",
    "logical_receive",
    "physical_receive",
    "bytes",
    "send_record",
    "source",
    "destination",
    "tag",
    "comm",
    "by_receiver",
)


@dataclass(frozen=True)
class Timeline:
    """Result of a replay. Times are seconds of the predicted run.

    ``ranks``: one row a rank (rank, seconds, compute_seconds, transfer_seconds, wait_seconds, messages and bytes sent and
    received); the three shares add up to the rank's seconds. ``intervals``: rank, begin, end, state (see :data:`STATES`), record,
    message (row in ``messages`` or -1), cause (rank whose action ended it, or -1), ordered by rank and time. ``messages``: one
    row a message in order of matching. Both are empty where the replay did not record.
    """

    ranks: pl.DataFrame
    intervals: pl.DataFrame
    messages: pl.DataFrame
    notes: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)

    @property
    def predicted_seconds(self) -> float:
        """Return the time of the last rank."""
        return float(self.ranks["seconds"].max() or 0.0)  # type: ignore[arg-type]

    @cached_property
    def table(self) -> pl.DataFrame:
        """Return everything as one table: column ``part`` is rank, interval or message."""
        parts = [("rank", self.ranks), ("interval", self.intervals), ("message", self.messages)]
        return pl.concat([t.select(pl.lit(name).alias("part"), pl.all()) for name, t in parts], how="diagonal_relaxed")

    @property
    def each(self) -> str:
        """What a row is of: a rank, or a thread of one process."""
        return str(self.notes.get("each", "rank"))

    @property
    def id(self) -> str:
        """Return the artifact id."""
        return str(self._header()["id"])

    def _header(self) -> dict[str, Any]:
        return table_header(SCHEMA, self.table, self.inputs, {"predicted_seconds": self.predicted_seconds, "notes": self.notes})

    def save(self, path: str | Path) -> str:
        """Write the artifact and return its id."""
        header = self._header()
        save_table(self.table, header, path)
        return str(header["id"])

    @classmethod
    def load(cls, path: str | Path) -> Timeline:
        """Read an artifact written by :meth:`save`; raises :class:`FormatError` when it is damaged."""
        table, header = load_table(path, SCHEMA)
        try:
            parts = [
                table.filter(pl.col("part") == name).select([pl.col(c).cast(t) for c, t in schema.items()])
                for name, schema in (("rank", _schemas()[0]), ("interval", _schemas()[1]), ("message", _schemas()[2]))
            ]
        except pl.exceptions.PolarsError as error:
            raise unlike(str(path), SCHEMA, repr(error)) from error
        return cls(parts[0], parts[1], parts[2], header.get("notes", {}), header.get("inputs", {}))

    def document(self) -> dict[str, Any]:
        """Return the JSON document of ``convolver replay --json``."""
        names = ("rank", "seconds", "compute_seconds", "transfer_seconds", "wait_seconds")
        return {"predicted_seconds": self.predicted_seconds, "ranks": self.ranks.select(names).to_dicts()}

    def summary(self) -> dict[str, Any]:
        """Return the predicted time, the shares of all ranks and the counts for a human."""
        total = float(self.ranks["seconds"].sum()) or 1.0
        shares = {f"{n}_share": float(self.ranks[f"{n}_seconds"].sum()) / total for n in ("compute", "transfer", "wait")}
        return {
            "predicted_seconds": self.predicted_seconds,
            "ranks": len(self.ranks),
            **shares,
            "messages": int(self.ranks["messages_received"].sum()),
            "bytes": int(self.ranks["bytes_received"].sum()),
            **self.notes,
        }


def _schemas() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    ranks: dict[str, Any] = {"rank": pl.UInt32}
    ranks |= dict.fromkeys(("seconds", "compute_seconds", "transfer_seconds", "wait_seconds"), pl.Float64)
    ranks |= dict.fromkeys(("messages_sent", "bytes_sent", "messages_received", "bytes_received"), pl.UInt64)
    intervals = {
        "rank": pl.UInt32,
        "begin": pl.Float64,
        "end": pl.Float64,
        "state": pl.UInt32,
        "record": pl.Int64,
        "message": pl.Int64,
        "cause": pl.Int32,
    }
    messages: dict[str, Any] = dict.fromkeys(MESSAGE_COLUMNS[:5], pl.Float64)
    messages |= {"bytes": pl.Int64, "send_record": pl.Int64, "source": pl.UInt32, "destination": pl.UInt32}
    messages |= {"tag": pl.Int32, "comm": pl.Int32, "by_receiver": pl.UInt32}
    return ranks, intervals, messages


def make_timeline(ranks: Any, intervals: Any, messages: Any, notes: dict[str, Any], inputs: dict[str, Any]) -> Timeline:
    """Return a timeline from the structured arrays of the replay core."""
    schemas = _schemas()
    names = {"compute_seconds": "compute", "transfer_seconds": "transfer", "wait_seconds": "wait"}
    rank_columns = {"rank": np.arange(len(ranks))} | {n: ranks[names.get(n, n)] for n in list(schemas[0])[1:]}
    ordered = intervals[np.lexsort((intervals["begin"], intervals["rank"]))]
    return Timeline(
        pl.DataFrame(rank_columns, schema=schemas[0]),
        pl.DataFrame({n: ordered[n] for n in schemas[1]}, schema=schemas[1]),
        pl.DataFrame({n: messages[n] for n in schemas[2]}, schema=schemas[2]),
        notes,
        inputs,
    )


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

"""MPI events of a parallel run as columns: what every reader makes and the replay eats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import lib
from convolver._native.replay_core import COLUMNS, PackedEvents
from convolver.errors import FormatError
from convolver.heavy import pl
from convolver.schema import load_table, save_table, table_header
from convolver.shapes import unlike

SCHEMA = "convolver.mpi_events"


class EventKind(IntEnum):
    """Kind of a record. ``bytes`` and ``extra`` of an EVENT are its type and value; a SEND_WAIT, which Dimemas does not know,
    repeats partner, tag, size and flags of the send that it waits for."""

    NOOP = lib.CV_REPLAY_NOOP
    BURST = lib.CV_REPLAY_BURST
    SEND = lib.CV_REPLAY_SEND
    RECV = lib.CV_REPLAY_RECV
    IRECV = lib.CV_REPLAY_IRECV
    WAIT = lib.CV_REPLAY_WAIT
    COLLECTIVE = lib.CV_REPLAY_COLLECTIVE
    EVENT = lib.CV_REPLAY_EVENT
    GPU = lib.CV_REPLAY_GPU
    SEND_WAIT = lib.CV_REPLAY_SEND_WAIT


class Op(IntEnum):
    """Collective operations, numbered as in the .dim format."""

    BARRIER = lib.CV_OP_BARRIER
    BCAST = lib.CV_OP_BCAST
    GATHER = lib.CV_OP_GATHER
    GATHERV = lib.CV_OP_GATHERV
    SCATTER = lib.CV_OP_SCATTER
    SCATTERV = lib.CV_OP_SCATTERV
    ALLGATHER = lib.CV_OP_ALLGATHER
    ALLGATHERV = lib.CV_OP_ALLGATHERV
    ALLTOALL = lib.CV_OP_ALLTOALL
    ALLTOALLV = lib.CV_OP_ALLTOALLV
    REDUCE = lib.CV_OP_REDUCE
    ALLREDUCE = lib.CV_OP_ALLREDUCE
    REDUCE_SCATTER = lib.CV_OP_REDUCE_SCATTER
    REDUCE_SCATTER_BLOCK = lib.CV_OP_REDUCE_SCATTER_BLOCK
    SCAN = lib.CV_OP_SCAN
    ALLTOALLW = lib.CV_OP_ALLTOALLW


class Sync(IntEnum):
    """How a collective record synchronizes."""

    NONBLOCKING = lib.CV_REPLAY_NONBLOCKING
    BLOCKING = lib.CV_REPLAY_BLOCKING
    WAIT = lib.CV_REPLAY_WAIT_NONBLOCKING
    ROOT = lib.CV_REPLAY_ROOT_SYNC


SPLIT = (Op.ALLTOALL, Op.ALLTOALLV, Op.ALLTOALLW, Op.SCATTER, Op.SCATTERV, Op.REDUCE_SCATTER, Op.REDUCE_SCATTER_BLOCK)
"""Operations whose sent bytes are those for all members together."""

WORLD = 1
"""Id of the communicator of all tasks; stock Dimemas ignores collectives on communicator 0."""

MARK_EVENT = 90_000_002
"""Type of the events that mark where a phase begins; their value is its number."""

_FIELDS = tuple(COLUMNS)[1:]
"""What a record has beside its kind."""

RENDEZVOUS: int = lib.CV_REPLAY_RENDEZVOUS
IMMEDIATE: int = lib.CV_REPLAY_IMMEDIATE
"""Bits in ``flags`` of a SEND."""


@dataclass(frozen=True)
class Events:
    """Events of all ranks, rank after rank.

    ``first`` (int64, ranks + 1) delimits the ranks in the columns of :data:`convolver._native.replay_core.COLUMNS`. ``comm`` is
    an index into ``comm_ids``; the tasks of communicator i are ``members[member_first[i]:member_first[i + 1]]``, rising. A task
    has one thread.
    """

    name: str
    first: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]
    comm_ids: NDArray[np.int32]
    member_first: NDArray[np.int64]
    members: NDArray[np.int32]
    notes: dict[str, Any] = field(default_factory=dict)
    """What the source says about itself: measured seconds, command, host ..."""

    @property
    def ranks(self) -> int:
        """Return the number of tasks."""
        return len(self.first) - 1

    @property
    def records(self) -> int:
        """Return the number of records of all tasks."""
        return int(self.first[-1])

    def communicators(self) -> dict[int, NDArray[np.int32]]:
        """Return the tasks of each communicator by its id."""
        bounds = zip(self.member_first[:-1], self.member_first[1:], strict=True)
        return {int(i): self.members[a:b] for i, (a, b) in zip(self.comm_ids, bounds, strict=True)}

    def pack(self) -> PackedEvents:
        """Return the events packed for the replay core; raises :class:`FormatError` where they contradict each other."""
        return PackedEvents(self.columns, self.first, self.member_first, self.members, self.name)

    def with_columns(self, **columns: NDArray[Any]) -> Events:
        """Return a copy with some columns replaced."""
        return replace(self, columns={**self.columns, **columns})

    @property
    def table(self) -> pl.DataFrame:
        """Return the records as a table: rank, then the columns."""
        ranks = np.repeat(np.arange(self.ranks, dtype=np.uint32), np.diff(self.first))
        return pl.DataFrame({"rank": ranks, **self.columns})

    def save(self, path: str | Path) -> str:
        """Write the events as an artifact (Parquet) and return its id."""
        table = self.table
        communicators = {str(i): members.tolist() for i, members in self.communicators().items()}
        extra = {"name": self.name, "ranks": self.ranks, "communicators": communicators, "notes": self.notes}
        header = table_header(SCHEMA, table, {}, extra)
        save_table(table, header, path)
        return str(header["id"])

    @classmethod
    def load(cls, path: str | Path) -> Events:
        """Read an artifact written by :meth:`save`; raises :class:`FormatError` when it is damaged."""
        table, header = load_table(path, SCHEMA)
        try:
            communicators = {int(i): members for i, members in header["communicators"].items()}
            rank = table["rank"].to_numpy()
            columns = {name: table[name].to_numpy().astype(dtype) for name, dtype in COLUMNS.items()}
            first = np.searchsorted(rank, np.arange(int(header["ranks"]) + 1)).astype(np.int64)
            return make_events(header["name"], first, columns, communicators, header["notes"])
        except (KeyError, TypeError, ValueError) as error:
            raise unlike(str(path), SCHEMA, repr(error)) from error

    def summary(self) -> dict[str, Any]:
        """Return counts for a human: ranks, records by kind, bytes sent, recorded compute seconds."""
        kind = self.columns["kind"]
        sends = kind == EventKind.SEND
        return {
            "name": self.name,
            "ranks": self.ranks,
            "records": self.records,
            "communicators": len(self.comm_ids),
            "by_kind": {k.name.lower(): int(np.count_nonzero(kind == k)) for k in EventKind},
            "bytes_sent": int(self.columns["bytes"][sends].sum()),
            "compute_seconds": float(self.columns["seconds"].sum()),
            **self.notes,
        }


def make_events(
    name: str,
    first: NDArray[np.int64],
    columns: Mapping[str, NDArray[Any]],
    communicators: Mapping[int, Iterable[int]],
    notes: Mapping[str, Any] | None = None,
) -> Events:
    """Return events from columns and a mapping of communicator id to tasks (``comm`` must index the rising ids).

    Raises :class:`FormatError` for ids and tasks beyond 31 bits.
    """
    ids = sorted(communicators)
    lists = [np.unique(np.array(list(communicators[i]), np.int64)) for i in ids]
    if any(len(tasks) and not 0 <= tasks[0] <= tasks[-1] < 1 << 31 for tasks in lists) or any(not 0 <= i < 1 << 31 for i in ids):
        raise FormatError(f"{name} has a communicator whose number, or the number of one of its tasks, is impossible.")
    bounds = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    members = np.concatenate(lists).astype(np.int32) if lists else np.empty(0, np.int32)
    return Events(name, first, dict(columns), np.array(ids, np.int32), bounds, members, dict(notes or {}))


def columns_of(rows: Sequence[tuple[Any, ...]]) -> dict[str, NDArray[Any]]:
    """Return the columns of records; raises :class:`OverflowError` or :class:`ValueError` for what does not fit into one."""
    transposed = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS)
    return {name: np.array(values, dtype) for (name, dtype), values in zip(COLUMNS.items(), transposed, strict=True)}


class EventsBuilder:
    """Makes events record by record; communicator :data:`WORLD` holds all tasks."""

    def __init__(self, ranks: int, communicators: Mapping[int, Iterable[int]] | None = None, name: str = "built") -> None:
        self._communicators: dict[int, list[int]] = {WORLD: list(range(ranks))}
        self._communicators |= {i: sorted(tasks) for i, tasks in (communicators or {}).items()}
        self._index = {i: n for n, i in enumerate(sorted(self._communicators))}
        self._rows: list[list[tuple[Any, ...]]] = [[] for _ in range(ranks)]
        self.name = name

    def _add(self, rank: int, kind: EventKind, **fields: Any) -> EventsBuilder:
        comm = fields.get("comm", WORLD)
        if comm not in self._index:
            raise FormatError(f"{self.name} uses communicator {comm}, which it does not define.")
        fields["comm"] = self._index[comm]
        self._rows[rank].append((kind, *(fields.get(name, 0) for name in _FIELDS)))
        return self

    def burst(self, rank: int, seconds: float) -> EventsBuilder:
        """Add a computation."""
        return self._add(rank, EventKind.BURST, seconds=seconds)

    def send(self, rank: int, to: int, size: int, *, tag: int = 0, comm: int = WORLD, flags: int = 0) -> EventsBuilder:
        """Add a send of ``size`` bytes; ``flags`` holds RENDEZVOUS and IMMEDIATE."""
        return self._add(rank, EventKind.SEND, partner=to, bytes=size, tag=tag, comm=comm, flags=flags)

    def receive(
        self, rank: int, source: int, size: int, *, tag: int = 0, comm: int = WORLD, kind: EventKind = EventKind.RECV
    ) -> EventsBuilder:
        """Add a receive; ``kind`` is RECV, IRECV or WAIT (for an IRECV)."""
        return self._add(rank, kind, partner=source, bytes=size, tag=tag, comm=comm)

    def wait_send(
        self, rank: int, to: int, size: int, *, tag: int = 0, comm: int = WORLD, flags: int = IMMEDIATE
    ) -> EventsBuilder:
        """Add the wait for an immediate send; it takes time only on networks where sends wait for their receivers."""
        return self._add(rank, EventKind.SEND_WAIT, partner=to, bytes=size, tag=tag, comm=comm, flags=flags)

    def collective(
        self, rank: int, op: Op, *, sent: int = 0, received: int = 0, comm: int = WORLD, root: int = 0, sync: Sync = Sync.BLOCKING
    ) -> EventsBuilder:
        """Add a collective; ``root`` is a flag (for REDUCE the root task)."""
        return self._add(rank, EventKind.COLLECTIVE, op=op, bytes=sent, extra=received, comm=comm, partner=root, flags=sync)

    def event(self, rank: int, event_type: int, value: int) -> EventsBuilder:
        """Add a user event."""
        return self._add(rank, EventKind.EVENT, bytes=event_type, extra=value)

    def build(self) -> Events:
        """Return the events; raises :class:`FormatError` for numbers beyond those of MPI."""
        first = np.cumsum([0, *map(len, self._rows)], dtype=np.int64)
        try:
            columns = columns_of([row for rank in self._rows for row in rank])
        except (OverflowError, ValueError) as error:
            raise FormatError(f"An event of {self.name} has a number that no MPI program can have: {error}.") from error
        return make_events(self.name, first, columns, self._communicators)

"""SimGrid's time-independent traces: per rank a list of MPI operations with the work before each; read, written, made to events.

Work is counted (instructions or operations), so that a trace of an oversubscribed machine is as good as that of a large one. In
events a unit of work is a nanosecond, as in all counted ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from convolver.errors import FormatError, ModelError, UsageError
from convolver.foreign_text import named_file
from convolver.mpi.events import IMMEDIATE, MARK_EVENT, EventKind, Events, EventsBuilder, Op, Sync
from convolver.mpi.network import MIB, Network
from convolver.outputs import save_text

POINT = ("send", "isend", "recv", "irecv")
TYPE_BYTES = {0: 8, 1: 4, 2: 1, 3: 2, 4: 8, 5: 4, 6: 1}
"""Bytes of the type codes of SimGrid's time-independent traces."""
_NUMBERS = {"bcast": 2, "reduce": 3, "allreduce": 2, "gather": 3, "scatter": 3, "allgather": 2, "alltoall": 2, "scan": 2}
"""Numbers of a collective's action before its types, where there are any; without a type sizes are bytes."""
_PARTS = ("allgather", "alltoall")
"""Actions that name the part of one rank, where each rank holds those of all."""
_ROOT_PARTS = ("gather", "scatter")
"""The same, where only the root (their third number) holds those of all."""
MARK = "mark"
"""Name of what is no call: the beginning of the phase whose number is the partner."""
WORK_PER_SECOND = 1e9
"""Work of a burst of one second in events that were counted (``convolver mpi count``)."""
COLLECTIVES = {op.name.lower(): op for op in Op}
"""Collective operations by the names that they have in traces."""


@dataclass(frozen=True)
class Operation:
    """One MPI call of a rank: name, partner (-1 for none), bytes, tag, and the work since the call before it.

    Bytes of a collective are the larger of what the rank gives and gets: all ranks' parts where it holds these.
    """

    name: str
    partner: int = -1
    bytes: int = 0
    tag: int = 0
    work: float = 0.0

    @property
    def key(self) -> tuple[str, int]:
        """Return what two calls must share to be the same; tags often number the steps of a loop, sizes differ by a cell."""
        return (self.name, self.partner)


Trace = list[list[Operation]]
"""The operations of each rank, in order."""


def read_ti(path: str | Path) -> Trace:
    """Read a time-independent trace of SimGrid SMPI (``-trace-ti``): a list of files, one a rank.

    ``init`` and ``finalize`` are dropped, consecutive computations added. Raises :class:`FormatError` for a line it cannot read.
    """
    index = Path(path)
    try:
        lines = index.read_text(errors="replace").splitlines()
        files = [named_file(line.strip(), index) for line in lines if line.strip()]
        return [_rank(file, file.read_text(errors="replace"), len(files)) for file in files]
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} is no time-independent trace: {error}.") from error


def _rank(path: Path, text: str, ranks: int) -> list[Operation]:
    result: list[Operation] = []
    work = 0.0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        try:
            name = words[1]
            if name == "compute":
                work += float(words[2])
            elif name not in ("init", "finalize"):
                operation = _operation(name, [int(word) for word in words[2:]], int(words[0]), ranks, work)
                if operation is not None:
                    result.append(operation)
                    work = 0.0
        except (IndexError, ValueError, KeyError) as error:
            raise FormatError(f"{path}, line {number}: '{line}' is no action of a time-independent trace ({error}).") from error
    return result


def _operation(name: str, values: list[int], rank: int, ranks: int, work: float) -> Operation | None:
    """Return the operation of an action; None for the wait of a send, whose buffer is free at once here."""
    if name in POINT:
        return Operation(name, values[0], values[2] * (TYPE_BYTES[values[3]] if len(values) > 3 else 1), values[1], work)
    if name == "wait":
        source, destination, tag = values
        return None if source == rank != destination else Operation("wait", source, 0, tag, work)
    if name == "waitall":
        return Operation("waitall", -1, 0, 0, work)
    if name in COLLECTIVES:
        typed = len(values) > _NUMBERS.get(name, 0)
        size = values[0] * (TYPE_BYTES.get(values[-1], 8) if typed else 1) if values else 0
        if name in _PARTS or (name in _ROOT_PARTS and values[2] == rank):
            size *= ranks
        return Operation(name, -1, 0 if name == "barrier" else size, 0, work)
    raise ValueError("unknown action")


def read_events(path: str | Path) -> Events:
    """Read a time-independent trace as events whose bursts last a nanosecond a unit of work; raises :class:`FormatError`."""
    return to_events(read_ti(path), seconds_per_work=1 / WORK_PER_SECOND, name=Path(path).name)


def to_events(trace: Trace, *, seconds_per_work: float, name: str = "p3s") -> Events:
    """Return the trace as events for the replay; waits complete the receives that are open, sends never wait.

    Raises :class:`ModelError` for an operation that the replay does not know.
    """
    builder = EventsBuilder(len(trace), name=name)
    for rank, operations in enumerate(trace):
        for operation in _with_waits(operations):
            if operation.work > 0:
                builder.burst(rank, operation.work * seconds_per_work)
            _add(builder, rank, len(trace), operation)
    return builder.build()


def _with_waits(operations: list[Operation]) -> Iterator[Operation]:
    """Yield operations with each wait turned into the waits of open receives, oldest first; waits for sends vanish."""
    pending: list[Operation] = []
    for operation in operations:
        if operation.name == "irecv":
            pending.append(operation)
            yield operation
        elif operation.name == "waitall":
            yield Operation("none", work=operation.work)
            yield from (Operation("wait", o.partner, o.bytes, o.tag) for o in pending)
            pending = []
        elif operation.name == "wait":
            match = next((o for o in pending if (o.partner, o.tag) == (operation.partner, operation.tag)), None)
            yield Operation("none", work=operation.work)
            if match is not None:
                pending.remove(match)
                yield Operation("wait", match.partner, match.bytes, match.tag)
        else:
            yield operation
    yield from (Operation("wait", o.partner, o.bytes, o.tag) for o in pending)


def _add(builder: EventsBuilder, rank: int, ranks: int, operation: Operation) -> None:
    name = operation.name
    if name == "none":
        return
    if name == MARK:
        builder.event(rank, MARK_EVENT, operation.partner)
    elif name in ("send", "isend"):
        flags = IMMEDIATE if name == "isend" else 0
        builder.send(rank, operation.partner, operation.bytes, tag=operation.tag, flags=flags)
    elif name in ("recv", "irecv", "wait"):
        kind = {"recv": EventKind.RECV, "irecv": EventKind.IRECV, "wait": EventKind.WAIT}[name]
        builder.receive(rank, operation.partner, operation.bytes, tag=operation.tag, kind=kind)
    elif name in COLLECTIVES:
        op = COLLECTIVES[name]
        root = int(rank == 0) if op is not Op.REDUCE else 0
        sent, received = _given_and_got(op, operation.bytes, rank == 0, ranks)
        builder.collective(rank, op, sent=sent, received=received, root=root, sync=Sync.BLOCKING)
    else:
        raise ModelError(f"The replay does not know the operation '{name}'.")


def _given_and_got(op: Op, size: int, root: bool, ranks: int) -> tuple[int, int]:
    """Return the bytes that a rank gives to a collective and gets from it, as they are recorded of real ranks; root is rank 0."""
    if op is Op.BCAST:
        return (size, 0) if root else (0, size)
    if op is Op.REDUCE:
        return size, size if root else 0
    if op in (Op.GATHER, Op.GATHERV):
        return (size // ranks, size) if root else (size, 0)
    if op in (Op.SCATTER, Op.SCATTERV):
        return (size, size // ranks) if root else (0, size)
    return (size // ranks, size) if op in (Op.ALLGATHER, Op.ALLGATHERV) else (size, size)


_RECEIVES = {EventKind.RECV: "recv", EventKind.IRECV: "irecv", EventKind.WAIT: "wait"}


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
            yield _recorded(kind, row, work)
            work = 0.0


def _recorded(kind: EventKind, row: dict[str, Any], work: float) -> Operation:
    if kind == EventKind.COLLECTIVE:
        op = Op(row["op"])
        if row["flags"] not in (Sync.BLOCKING, Sync.ROOT):
            raise ModelError(f"A non-blocking {op.name.lower()} cannot be scaled (P3S); use blocking collectives.")
        return Operation(op.name.lower(), -1, max(row["bytes"], row["extra"]), 0, work)
    name = _RECEIVES.get(kind) or ("isend" if row["flags"] & IMMEDIATE else "send")
    return Operation(name, row["partner"], 0 if kind == EventKind.WAIT else row["bytes"], row["tag"], work)


FLOPS_PER_SECOND = 1e9
_ACTIONS = {
    Op.BARRIER: "barrier",
    Op.BCAST: "bcast {sent} {root}",
    Op.GATHER: "gather {sent} {sent} {root}",
    Op.GATHERV: "gather {sent} {sent} {root}",
    Op.SCATTER: "scatter {part} {part} {root}",
    Op.SCATTERV: "scatter {part} {part} {root}",
    Op.ALLGATHER: "allgather {sent} {sent}",
    Op.ALLGATHERV: "allgather {sent} {sent}",
    Op.ALLTOALL: "alltoall {part} {part}",
    Op.ALLTOALLV: "alltoall {part} {part}",
    Op.ALLTOALLW: "alltoall {part} {part}",
    Op.REDUCE: "reduce {sent} 0 {root}",
    Op.ALLREDUCE: "allreduce {sent} 0",
    Op.REDUCE_SCATTER: "allreduce {sent} 0",
    Op.REDUCE_SCATTER_BLOCK: "allreduce {sent} 0",
    Op.SCAN: "scan {sent} 0",
}


def _collective(row: dict[str, Any], ranks: int, root: int) -> str:
    op, sent, received = Op(row["op"]), int(row["bytes"]), int(row["extra"])
    part = sent // ranks
    # what only the root gives has one size for all
    if op == Op.BCAST:
        sent = max(sent, received)
    elif op in (Op.SCATTER, Op.SCATTERV):
        part = max(part, received)
    return _ACTIONS[op].format(sent=sent, part=part, root=root)


def _lines(events: Events, rank: int) -> list[str]:
    lines = [f"{rank} init"]
    part = events.table.slice(int(events.first[rank]), int(events.first[rank + 1] - events.first[rank]))
    for row in part.iter_rows(named=True):
        kind = EventKind(row["kind"])
        if kind in (EventKind.BURST, EventKind.GPU):
            lines.append(f"{rank} compute {row['seconds'] * FLOPS_PER_SECOND:.3f}")
        elif kind == EventKind.SEND:
            name = "isend" if row["flags"] & IMMEDIATE else "send"
            lines.append(f"{rank} {name} {row['partner']} {row['tag']} {row['bytes']}")
        elif kind in (EventKind.RECV, EventKind.IRECV):
            name = "recv" if kind == EventKind.RECV else "irecv"
            lines.append(f"{rank} {name} {row['partner']} {row['tag']} {row['bytes']}")
        elif kind == EventKind.WAIT:
            lines.append(f"{rank} wait {row['partner']} {rank} {row['tag']}")
        elif kind == EventKind.COLLECTIVE:
            if row["flags"] not in (Sync.BLOCKING, Sync.ROOT) or _partial(events, row["comm"]):
                raise UsageError("SimGrid's traces know blocking collectives of all tasks only; this trace has others.")
            root = row["partner"] if row["op"] == Op.REDUCE else 0
            lines.append(f"{rank} {_collective(row, events.ranks, root)}")
    return [*lines, f"{rank} finalize"]


def _partial(events: Events, comm: int) -> bool:
    return bool(events.member_first[comm + 1] - events.member_first[comm] != events.ranks)


def write_ti(events: Events, folder: str | Path) -> Path:
    """Write a time-independent trace, one file a rank, and return the list file for ``smpirun -replay``.

    Raises :class:`UsageError` for what the format does not know: collectives of some tasks and non-blocking ones. Roots other
    than task 0 count as task 0 except for Reduce, because a .dim trace does not name them.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for rank in range(events.ranks):
        text = "\n".join(_lines(events, rank)) + "\n"
        path = folder / f"rank-{rank}.ti"
        save_text(path, text)
        names.append(path.name)
    listing = folder / "trace.txt"
    save_text(listing, "\n".join(names) + "\n")
    return listing


def format_platform(network: Network, ranks: int) -> str:
    """Return a SimGrid platform of the network: one cluster with a crossbar, one host a node; nodes must be equal."""
    config = network.configuration
    if len({(g.ratio, g.latency_inter_seconds) for g in config.nodes}) != 1:
        raise UsageError("A SimGrid cluster has equal nodes, but the configuration's differ; write the platform by hand.")
    group = config.nodes[0]
    rate = config.bandwidth_mib * MIB or 1e15
    speed = FLOPS_PER_SECOND * group.ratio
    cluster = {
        "id": config.name or "cluster",
        "prefix": "node-",
        "suffix": "",
        "radical": f"0-{config.node_count - 1}",
        "speed": f"{speed:.0f}f",
        "core": str(group.cpus),
        "bw": f"{rate:.0f}Bps",
        "lat": f"{group.latency_inter_seconds:.9g}s",
    }
    attributes = " ".join(f"{key}={quoteattr(value)}" for key, value in cluster.items())
    head = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
    return f'{head}<platform version="4.1">\n  <cluster {attributes}/>\n</platform>\n'


def write_platform(network: Network, ranks: int, path: str | Path) -> None:
    """Write :func:`format_platform` to a file."""
    save_text(path, format_platform(network, ranks))

"""Performs a trace on real ranks: its messages through the site's MPI, its computation as turns of a loop calibrated there."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from convolver._native.replay_core import COLUMNS
from convolver.child_processes import end_with_parent
from convolver.errors import NoiseWarning, ToolError, ToolNotFoundError, UsageError
from convolver.locations import program
from convolver.mpi.capture import FLAGS, compile_with, find_mpicc
from convolver.mpi.events import MARK_EVENT, SPLIT, EventKind, Events, Op, Sync
from convolver.mpi.network import flat_configuration
from convolver.mpi.network_replay import Replayer
from convolver.mpi.pingpong import why_it_failed
from convolver.mpi.timeline import Timeline

MAGIC = b"CVPLAY01"
LARGEST = 2**31 - 1
RECORD = np.dtype([(name, kind) for name, kind in COLUMNS.items() if name != "extra"], align=True)
_ROOTED = (Op.BCAST, Op.GATHER, Op.GATHERV, Op.SCATTER, Op.SCATTERV)


@dataclass(frozen=True)
class Marks:
    """When each rank passed the marks of a trace (its EVENT records) and when it ended, in seconds from the common beginning.

    ``rank``, ``value`` and ``seconds`` have one element a mark, those of a rank in their order; ``ends`` has one a rank.
    ``host``: ranks and processors of the host with the fewest processors a rank; None for a replay.
    """

    rank: NDArray[np.int64]
    value: NDArray[np.int64]
    seconds: NDArray[np.float64]
    ends: NDArray[np.float64]
    host: tuple[int, int] | None = None

    @property
    def oversubscribed(self) -> bool:
        """Return whether the ranks of a host shared fewer processors than they are: they waited for each other's turns."""
        return self.host is not None and self.host[0] > self.host[1]

    @property
    def total_seconds(self) -> float:
        """Return the time of the last rank."""
        return float(self.ends.max())


def play(events: Events, launcher: Sequence[str], *, mpicc: str | None = None) -> Marks:
    """Perform the events on the ranks that ``launcher`` starts, for example ``["mpirun", "-np", "4"]``; return when marks passed.

    Computation takes its seconds of processor time, whatever else the ranks do; memory is not touched by it. Collectives with
    different sizes on different ranks are performed with their largest part. Raises :class:`UsageError` for an empty launcher and
    messages over 2 GiB, :class:`ReplayError` for a trace that would block for ever, :class:`ToolNotFoundError` without launcher
    or mpicc, :class:`ToolError` when the run fails; warns with :class:`NoiseWarning` where ranks had to share processors.
    """
    if not launcher:
        raise UsageError("No launcher is given; write for example: convolver mpi play app.parquet -- mpirun -np 4.")
    if shutil.which(launcher[0]) is None:
        raise ToolNotFoundError(f"{launcher[0]} is not installed; give the launcher of your MPI library after --.")
    # A trace that would block for ever is refused in a sentence: real ranks would only never end.
    Replayer(events).seconds(flat_configuration(events.ranks, latency_seconds=0.0, bandwidth_bytes_per_second=1e12))
    code = program("mpi", "build the package again.")
    sources = [code / "cv_mpi_events.h", *sorted((code / "player").glob("*.[ch]"))]
    player = compile_with(find_mpicc(launcher[0], mpicc), sources, (*FLAGS, f"-I{code}"), "convolver-player-{}")
    with tempfile.TemporaryDirectory() as folder:
        trace, out = Path(folder) / "trace", Path(folder) / "marks"
        trace.write_bytes(packed(events))
        command, bind = [*launcher, str(player), str(trace), str(out)], end_with_parent()
        done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=bind)
        if done.returncode or not out.is_file():
            said = done.stderr + done.stdout
            started = next((line.partition("the trace has ")[2] for line in said.splitlines() if "the trace has " in line), "")
            if started:
                raise UsageError(f"The trace has {started} by '{' '.join(launcher)}'; start as many as the trace has.")
            raise ToolError(why_it_failed(" ".join(launcher), done.returncode, said, "player"))
        marks = _read_marks(out.read_text(), events.ranks)
    if marks.host is not None and marks.oversubscribed:
        warnings.warn(
            f"{sharing(*marks.host)}, so their times hold waiting for turns and change from run to run; "
            "start at most one rank a processor, or replay on a network (--config).",
            NoiseWarning,
            stacklevel=2,
        )
    return marks


def sharing(ranks: int, processors: int) -> str:
    """Return in words how ranks shared the processors of a host."""
    return f"{ranks} ranks shared {processors} processor{'' if processors == 1 else 's'} of a host"


def _read_marks(text: str, ranks: int) -> Marks:
    first, *lines = text.splitlines()
    host = [int(word) for word in first.split()]
    table = np.array([line.split() for line in lines], np.float64).reshape(-1, 3)
    end = table[:, 1] < 0
    if int(end.sum()) != ranks:
        raise ToolError(f"{int(end.sum())} of {ranks} ranks said when they ended; see what the launcher said.")
    ends = np.zeros(ranks)
    ends[table[end, 0].astype(np.int64)] = table[end, 2]
    rank, value = (table[~end, column].astype(np.int64) for column in (0, 1))
    return Marks(rank, value, table[~end, 2], ends, (host[1], host[2]))


def marks_of(timeline: Timeline, events: Events) -> Marks:
    """Return when each rank passed the marks in a recorded replay: at the end of what it did before."""
    intervals = timeline.intervals
    of_rank, record, end = (intervals[name].to_numpy() for name in ("rank", "record", "end"))
    found: list[tuple[int, int, float]] = []
    for rank in range(events.ranks):
        part = slice(int(events.first[rank]), int(events.first[rank + 1]))
        mine = of_rank == rank
        order = np.argsort(record[mine], kind="stable")
        records, ends = record[mine][order], np.maximum.accumulate(end[mine][order])
        marks = np.flatnonzero((events.columns["kind"][part] == EventKind.EVENT) & (events.columns["bytes"][part] == MARK_EVENT))
        before = np.searchsorted(records, marks) - 1
        values = events.columns["extra"][part][marks]
        found += [(rank, int(v), float(ends[b]) if b >= 0 else 0.0) for v, b in zip(values, before, strict=True)]
    table = np.array(found, np.float64).reshape(-1, 3)
    ends = timeline.ranks.sort("rank")["seconds"].to_numpy()
    return Marks(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2], ends)


def packed(events: Events) -> bytes:
    """Return the events as csrc/mpi/player/player.c reads them; raises :class:`UsageError` for messages over 2 GiB."""
    records = np.zeros(events.records, RECORD)
    for name in RECORD.names or ():
        records[name] = events.columns[name]
    event = records["kind"] == EventKind.EVENT
    marks = event & (records["bytes"] == MARK_EVENT)
    records["kind"][event & ~marks] = EventKind.NOOP
    records["bytes"][event] = events.columns["extra"][event]
    _even_collectives(events, records)
    if events.records and int(records["bytes"][~event].max(initial=0)) > LARGEST:
        raise UsageError(f"{events.name} has messages over 2 GiB, which one MPI call cannot send.")
    parts = [MAGIC, struct.pack("<QQ", events.ranks, len(events.comm_ids))]
    for members in events.communicators().values():
        parts += [struct.pack("<Q", len(members)), members.astype("<i4").tobytes(), b"\0" * (4 * (len(members) % 2))]
    return b"".join([*parts, events.first.astype("<u8").tobytes(), records.tobytes()])


def _even_collectives(events: Events, records: NDArray[np.void]) -> None:
    """Give all ranks of a collective the same root (as a rank of the communicator) and the bytes of one rank's part."""
    starts = (records["kind"] == EventKind.COLLECTIVE) & (records["flags"] != Sync.WAIT)
    extra = events.columns["extra"]
    for index, members in enumerate(events.communicators().values()):
        mine = starts & (records["comm"] == index)
        rows = [np.flatnonzero(mine[events.first[r] : events.first[r + 1]]) + events.first[r] for r in members.tolist()]
        if len({len(row) for row in rows}) != 1:
            raise UsageError(f"The tasks of {events.name} make different numbers of collectives; the trace is not whole.")
        for same in np.array(rows).T:
            op = Op(int(records["op"][same[0]]))
            sent, flag = int(records["bytes"][same].max()), records["partner"][same]
            part = -(-sent // len(members)) if op in SPLIT else max(sent, int(extra[same].max())) if op == Op.BCAST else sent
            records["bytes"][same] = part
            root = int(np.searchsorted(members, flag[0])) if op == Op.REDUCE else int(np.argmax(flag == 1))
            records["partner"][same] = root if op in _ROOTED or op == Op.REDUCE else 0

"""Paraver traces: timelines out (.prv with .pcf and .row), Extrae's MPI events in.

The format is described in docs/formats/prv.md. Ids count from 1 in the file, times are nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver.errors import FormatError
from convolver.foreign_text import readable
from convolver.mpi.events import EventKind, Events, EventsBuilder, Op
from convolver.mpi.timeline import Timeline
from convolver.outputs import save_text

POINT_TYPE, COLLECTIVE_TYPE, OTHER_TYPE = 50000001, 50000002, 50000003
SEND_SIZE, RECEIVE_SIZE, ROOT, COMMUNICATOR = 50100001, 50100002, 50100003, 50100004
PRV_STATES = {1: 1, 2: 4, 3: 3, 4: 12, 5: 10, 6: 5, 7: 9, 8: 7, 9: 13, 10: 14, 11: 15, 12: 16, 13: 17}
"""State of :data:`convolver.mpi.timeline.STATES` -> Paraver's state number."""

_STATE_NAMES = {
    0: ("Idle", (117, 195, 255)),
    1: ("Running", (0, 0, 255)),
    3: ("Waiting a message", (255, 0, 0)),
    4: ("Start-up", (255, 255, 170)),
    5: ("Waiting for a collective", (179, 0, 0)),
    7: ("Waiting for a processor", (155, 155, 155)),
    9: ("Group Communication", (255, 144, 26)),
    10: ("Waiting for a receiver", (235, 0, 0)),
    12: ("Transfer", (66, 66, 66)),
    13: ("Waiting for a region", (117, 165, 225)),
    14: ("Waiting at a barrier", (140, 0, 60)),
    15: ("Waiting for a lock", (255, 0, 174)),
    16: ("Waiting for another thread", (94, 0, 0)),
    17: ("Waiting for a thread's end", (189, 168, 100)),
}
COLLECTIVE_CALLS = {
    7: Op.BCAST,
    8: Op.BARRIER,
    9: Op.REDUCE,
    10: Op.ALLREDUCE,
    11: Op.ALLTOALL,
    12: Op.ALLTOALLV,
    13: Op.GATHER,
    14: Op.GATHERV,
    15: Op.SCATTER,
    16: Op.SCATTERV,
    17: Op.ALLGATHER,
    18: Op.ALLGATHERV,
    30: Op.SCAN,
    80: Op.REDUCE_SCATTER,
    110: Op.REDUCE_SCATTER_BLOCK,
}
"""Extrae's values of the collective event type."""


def _nanoseconds(seconds: NDArray[np.float64]) -> list[int]:
    times: list[int] = np.rint(seconds * 1e9).astype(np.int64).tolist()
    return times


def write_prv(timeline: Timeline, path: str | Path, *, placement: NDArray[np.int32] | None = None) -> None:
    """Write a recorded timeline for Paraver: NAME.prv and, beside it, NAME.pcf (names) and NAME.row (labels).

    ``placement`` is the node of each rank (default: all on one). Records are in order of time, as Paraver demands.
    """
    target = Path(path)
    ranks = len(timeline.ranks)
    nodes = np.zeros(ranks, np.int32) if placement is None else placement
    save_text(target, "\n".join([_prv_header(timeline, nodes), *_prv_records(timeline, ranks)]) + "\n")
    save_text(target.with_suffix(".pcf"), _pcf())
    save_text(target.with_suffix(".row"), _row(ranks, timeline.each == "thread"))


def _prv_header(timeline: Timeline, nodes: NDArray[np.int32]) -> str:
    """Return the header of several ranks, or of one with several threads."""
    ranks, used = len(nodes), np.unique(nodes)
    end = _nanoseconds(np.array([timeline.predicted_seconds]))[0]
    head = f"#Paraver (01/01/2026 at 00:00):{end}_ns"
    if timeline.each == "thread":
        return f"{head}:1({ranks}):1:1({ranks}:1)"
    cpus = ",".join(str(int(np.count_nonzero(nodes == n))) for n in used)
    tasks = ",".join(f"1:{int(np.searchsorted(used, n)) + 1}" for n in nodes)
    world = ":".join(str(r + 1) for r in range(ranks))
    return f"{head}:{len(used)}({cpus}):1:{ranks}({tasks}),1\nc:1:1:{ranks}:{world}"


def _prv_records(timeline: Timeline, ranks: int) -> list[str]:
    table = timeline.intervals
    threads = timeline.each == "thread"
    who = [f"{r + 1}:1:1:{r + 1}" if threads else f"{r + 1}:1:{r + 1}:1" for r in range(ranks)]
    rank, begin, end = table["rank"].to_list(), _nanoseconds(table["begin"].to_numpy()), _nanoseconds(table["end"].to_numpy())
    # A rank that ends early is idle until the end of the trace.
    keyed: list[tuple[int, int, str]] = [
        (b, 1, f"1:{who[r]}:{b}:{e}:{PRV_STATES[s]}")
        for r, b, e, s in zip(rank, begin, end, table["state"].to_list(), strict=True)
        if e > b
    ]
    last = _nanoseconds(timeline.ranks["seconds"].to_numpy())
    final = max(last, default=0)
    keyed += [(b, 1, f"1:{who[r]}:{b}:{final}:0") for r, b in enumerate(last) if b < final]
    messages = timeline.messages
    names = ("logical_send", "physical_send", "logical_receive", "physical_receive")
    times = [_nanoseconds(messages[name].to_numpy()) for name in names]
    plain = [messages[name].to_list() for name in ("source", "destination", "bytes", "tag")]
    for ls, ps, lr, pr, a, b, size, tag in zip(*times, *plain, strict=True):
        text = f"3:{a + 1}:1:{a + 1}:1:{ls}:{ps}:{b + 1}:1:{b + 1}:1:{lr}:{pr}:{size}:{tag}"
        keyed.append((ls, 3, text))
    keyed.sort(key=lambda item: item[:2])
    return [text for _, _, text in keyed]


def _pcf() -> str:
    states = "".join(f"{n}    {name}\n" for n, (name, _) in _STATE_NAMES.items())
    colors = "".join(f"{n}    {{{','.join(map(str, rgb))}}}\n" for n, (_, rgb) in _STATE_NAMES.items())
    options = "DEFAULT_OPTIONS\n\nLEVEL               THREAD\nUNITS               NANOSEC\n\n"
    head = f"{options}DEFAULT_SEMANTIC\n\nTHREAD_FUNC          State As Is\n\n"
    return f"{head}STATES\n{states}\nSTATES_COLOR\n{colors}\n"


def _row(ranks: int, threads: bool) -> str:
    labels = "".join(f"THREAD 1.1.{r + 1}\n" if threads else f"THREAD 1.{r + 1}.1\n" for r in range(ranks))
    number = 1 if threads else ranks
    tasks = "".join(f"TASK 1.{r + 1}\n" for r in range(number))
    return f"LEVEL TASK SIZE {number}\n{tasks}\nLEVEL THREAD SIZE {ranks}\n{labels}\n"


# --- reading -------------------------------------------------------------------------------------------------------------------

_HEADER = re.compile(r"#Paraver \([^)]*\):(\d{1,18})(_ns)?:[^:]*(?:\([\d,]*\))?:(\d+):(\d{1,9})\(([\d:,]*)\)(?:,(\d+))?\s*")


class _PrvReader:
    """Collects the events of each task; bursts are the gaps between MPI blocks."""

    def __init__(self, path: Path) -> None:
        self.path, self.line = path, 0
        self.scale = 1e-6
        self.calls: list[list[tuple[int, int, dict[int, int]]]] = []
        self.messages: list[tuple[int, ...]] = []
        self.comms: dict[int, list[int]] = {}

    def wrong(self, reason: str) -> FormatError:
        return FormatError(f"{self.path}:{self.line}: {reason}.")

    def numbers(self, text: str, least: int) -> list[int]:
        fields = text.rstrip("\r\n").split(":")
        if len(fields) < least or not all(re.fullmatch(r"-?\d{1,18}", f) for f in fields):
            raise self.wrong(f"'{text.strip()[:60]}' has too few fields or one that is not a number")
        return [int(f) for f in fields]

    def task(self, application: int, task: int, thread: int) -> int:
        if application != 1 or thread != 1 or not 1 <= task <= len(self.calls):
            raise self.wrong(
                f"there is no thread {application}.{task}.{thread}; one application with one thread a task is supported"
            )
        return task - 1

    def header(self, text: str) -> None:
        match = _HEADER.fullmatch(text.rstrip("\n"))
        if match is None or match[3] != "1":
            raise self.wrong("not a Paraver trace of one application")
        tasks = match[5].split(",")
        if len(tasks) != int(match[4]) or any(t.split(":")[0] != "1" for t in tasks):
            raise self.wrong("the header does not describe one thread for each task")
        self.scale = 1e-9 if match[2] else 1e-6
        self.calls = [[] for _ in tasks]

    def record(self, text: str) -> None:
        if text.startswith("c:"):
            fields = self.numbers(text[2:], 4)
            if len(fields) != 3 + fields[2] or not all(1 <= t <= len(self.calls) for t in fields[3:]):
                raise self.wrong("the communicator's tasks do not match its size or do not exist")
            self.comms[fields[1]] = [t - 1 for t in fields[3:]]
        elif text.startswith("2:"):
            fields = self.numbers(text, 8)
            if len(fields) % 2:
                raise self.wrong("an event type has no value")
            pairs = dict(zip(fields[6::2], fields[7::2], strict=True))
            task = self.task(fields[2], fields[3], fields[4])
            for kind in (POINT_TYPE, COLLECTIVE_TYPE, OTHER_TYPE):
                if kind in pairs:
                    self.calls[task].append((fields[5], kind if pairs[kind] else 0, {**pairs, 0: pairs[kind]}))
        elif text.startswith("3:"):
            fields = self.numbers(text, 15)
            source, to = self.task(*fields[2:5]), self.task(*fields[8:11])
            self.messages.append((source, fields[5], to, fields[11], fields[13], fields[14]))
        elif text.startswith("1:"):
            fields = self.numbers(text, 8)
            self.task(*fields[2:5])
            if len(fields) != 8 or fields[6] < fields[5]:
                raise self.wrong("a state has fields left over or ends before it begins")
        elif not text.startswith("#") and text.strip():
            raise self.wrong("unknown record kind")


def read_prv(path: str | Path) -> Events:
    """Read MPI events from a Paraver trace made by Extrae (one application, one thread a task).

    Blocks of the types 50000001-3 become records, gaps between them bursts; what a point-to-point block did is taken from the
    communication records whose logical times lie in it. Raises :class:`FormatError` with file, line and reason.
    """
    path = Path(path)
    reader = _PrvReader(path)
    with readable(path), open(path, encoding="utf-8", errors="replace") as file:
        for text in file:
            reader.line += 1
            (reader.header if reader.line == 1 else reader.record)(text)
    if not reader.calls:
        raise FormatError(f"{path}:1: not a Paraver trace of one application.")
    return _events(reader)


def _blocks(calls: list[tuple[int, int, dict[int, int]]], wrong: Any) -> Iterator[tuple[int, int, int, dict[int, int]]]:
    """Yield (begin, end, type, fields) of each MPI block of a task."""
    opened: tuple[int, int, dict[int, int]] | None = None
    for time, kind, pairs in sorted(calls, key=lambda call: call[0]):
        if kind == 0 and opened is not None:
            yield opened[0], time, opened[1], opened[2]
            opened = None
        elif kind != 0:
            if opened is not None:
                raise wrong(f"an MPI block opens at {time} inside another one")
            opened = (time, kind, pairs)


def _events(reader: _PrvReader) -> Events:
    ranks = len(reader.calls)
    comms = reader.comms or {1: list(range(ranks))}
    builder = EventsBuilder(ranks, comms, name=str(reader.path))
    waits: list[list[tuple[int, str, tuple[int, ...]]]] = [[] for _ in range(ranks)]
    for message in reader.messages:
        waits[message[0]].append((message[1], "send", message))
        waits[message[2]].append((message[3], "receive", message))
    for rank, calls in enumerate(reader.calls):
        _add_rank(builder, rank, _blocks(calls, reader.wrong), sorted(waits[rank]), reader.scale)
    return builder.build()


def _add_rank(builder: EventsBuilder, rank: int, blocks: Any, messages: list[Any], scale: float) -> None:
    now, at = 0, 0
    for begin, end, kind, pairs in blocks:
        if begin > now:
            builder.burst(rank, (begin - now) * scale)
        now = end
        while at < len(messages) and messages[at][0] <= end:
            _, what, (source, _, to, _, size, tag) = messages[at]
            at += 1
            if what == "send":
                builder.send(rank, to, size, tag=tag, flags=2 if pairs[0] == 3 else 0)
            else:
                builder.receive(rank, source, size, tag=tag, kind=EventKind.RECV)
        op = COLLECTIVE_CALLS.get(pairs[0]) if kind == COLLECTIVE_TYPE else None
        if op is not None:
            root = int(bool(pairs.get(ROOT, 0))) if op != Op.REDUCE else 0
            comm = pairs.get(COMMUNICATOR, 1)
            fields = {"sent": pairs.get(SEND_SIZE, 0), "received": pairs.get(RECEIVE_SIZE, 0), "comm": comm, "root": root}
            builder.collective(rank, op, **fields)

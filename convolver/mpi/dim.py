"""Dimemas traces (.dim): a streaming reader that refuses every malformed record, and a writer that stock Dimemas accepts.

The format is described in docs/formats/dim.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.replay_core import COLUMNS
from convolver.errors import FormatError
from convolver.foreign_text import readable
from convolver.heavy import pl
from convolver.mpi.events import EventKind, Events, Op, Sync, make_events
from convolver.outputs import write_atomically
from convolver.progress import SILENT, Progress

CHUNK_BYTES = 4 << 20
MAX_TASKS = 1 << 24
_HEADER = re.compile(
    rb'#DIMEMAS:"([^"\n]*)":([01])(?:,\s*(\d{1,20}))?:(\d{1,9})\(([\d,]*)\),(\d{1,9})((?:,\d{1,9}(?:\([\d,]*\))?){0,2})\s*'
)
_KINDS = {EventKind.NOOP: 0, EventKind.BURST: 1, EventKind.GPU: 11}
_EVENT_KINDS = {1: EventKind.BURST, 2: EventKind.SEND, 10: EventKind.COLLECTIVE, 11: EventKind.GPU, 20: EventKind.EVENT}
_NO_THREAD = "no such thread (traces with more than one thread a task are not supported)"
_LARGEST = (1 << 31) - 1


def read_dim(path: str | Path, *, progress: Progress = SILENT) -> Events:
    """Read a Dimemas trace.

    Raises :class:`FormatError` naming file, line and reason for anything that is not as docs/formats/dim.md says. Traces with
    more than one thread a task are refused.
    """
    with readable(path), open(path, "rb") as file:
        return _Reader(str(path), file, progress).read()


class _Reader:
    def __init__(self, path: str, file: IO[bytes], progress: Progress) -> None:
        self.path, self.file, self.progress = path, file, progress
        self.line = 1

    def wrong(self, reason: str, line: int | None = None) -> FormatError:
        return FormatError(f"{self.path}:{line or self.line}: {reason}.")

    def read(self) -> Events:
        name, offset, tasks, comms = self._header()
        communicators = self._communicators(tasks, comms)
        columns = self._records(tasks, np.array(sorted(communicators), np.int32), offset)
        task = columns.pop("task")
        if np.any(np.diff(task) < 0):
            order = np.argsort(task, kind="stable")
            task = task[order]
            columns = {key: column[order] for key, column in columns.items()}
        first = np.searchsorted(task, np.arange(tasks + 1)).astype(np.int64)
        return make_events(name, first, columns, communicators)

    def _header(self) -> tuple[str, int, int, int]:
        match = _HEADER.fullmatch(self.file.readline(64 << 20))
        if match is None:
            raise self.wrong(
                'not a Dimemas trace: the first line must be #DIMEMAS:"name":1,offset:tasks(threads,...),communicators'
            )
        tasks, comms = int(match[4]), int(match[6])
        threads = match[5].split(b",")
        if not 1 <= tasks <= MAX_TASKS or len(threads) != tasks or b"" in threads:
            raise self.wrong(f"the header announces {tasks} tasks but lists the threads of {len(threads)}")
        if any(count.lstrip(b"0") != b"1" for count in threads):
            raise self.wrong("a task has not exactly one thread; such traces are not supported")
        offset = int(match[3] or 0)
        if offset >= 1 << 63:
            raise self.wrong(f"the header's table offset {offset} lies beyond the end of any file")
        return match[1].decode(errors="replace"), offset, tasks, comms

    def _communicators(self, tasks: int, count: int) -> dict[int, NDArray[np.int32]]:
        found: dict[int, NDArray[np.int32]] = {}
        while len(found) < count:
            self.line += 1
            text = self.file.readline()
            if not text.strip() or text.startswith(b"#"):
                if not text:
                    raise self.wrong(f"the header announces {count} communicators, but only {len(found)} are defined")
                continue
            identity, members = self._communicator(text, tasks)
            if identity in found:
                raise self.wrong(f"communicator {identity} is defined twice")
            found[identity] = members
        return found

    def _communicator(self, text: bytes, tasks: int) -> tuple[int, NDArray[np.int32]]:
        fields = text.strip().split(b":")
        if len(fields) < 5 or fields[:2] != [b"d", b"1"] or not all(f.isdigit() and len(f) < 10 for f in fields[2:]):
            raise self.wrong("a communicator (d:1:id:size:task:...) was expected here")
        members = np.array([int(f) for f in fields[4:]], np.int64)
        if len(members) != int(fields[3]) or len(np.unique(members)) != len(members) or members.max() >= tasks:
            raise self.wrong("the communicator's tasks do not match its size, repeat or do not exist")
        return int(fields[2]), members.astype(np.int32)

    def _chunks(self, end: int) -> Iterator[bytes]:
        """Yield whole lines up to byte ``end`` of the file (0: all of it)."""
        rest = b""
        left = end - self.file.tell() if end else -1
        if end and left < 0:
            raise self.wrong(f"the header's table offset {end} lies before the records", 1)
        while left:
            block = self.file.read(CHUNK_BYTES if left < 0 else min(CHUNK_BYTES, left))
            if not block:
                break
            self.progress.advance(len(block))
            left -= len(block) if left > 0 else 0
            head, newline, tail = (rest + block).rpartition(b"\n")
            rest = tail
            if newline:
                yield head + b"\n"
        if left > 0:
            raise self.wrong(f"the header's table offset {end} lies beyond the end of the file", 1)
        if rest:
            yield rest + b"\n"

    def _records(self, tasks: int, comm_ids: NDArray[np.int32], end: int) -> dict[str, NDArray[Any]]:
        pieces = []
        self.progress.start(f"Reading {self.path}", float(Path(self.path).stat().st_size), unit="bytes")
        for text in self._chunks(end):
            found = _parsed(text, tasks, comm_ids.tolist())
            for at, record, reason in found.filter(pl.col("wrong").is_not_null()).select("at", "line", "wrong").iter_rows():
                raise self.wrong(f"{reason} in '{record[:80]}'", self.line + at + 1)
            self.line += text.count(b"\n")
            found = found.with_columns(pl.lit(np.searchsorted(comm_ids, found["comm"])).alias("comm"))
            pieces.append({name: found[name].to_numpy().astype(dtype) for name, dtype in {**COLUMNS, "task": np.int32}.items()})
        if end:
            self._offset_table(tasks)
        self.progress.finish()
        types = {**COLUMNS, "task": np.int32}
        return {key: np.concatenate([p[key] for p in pieces]) if pieces else np.empty(0, dtype) for key, dtype in types.items()}

    def _offset_table(self, tasks: int) -> None:
        seen = set()
        for text in self.file:
            self.line += 1
            fields = text.strip().split(b":")
            if fields == [b""] or text.startswith(b"#"):
                continue
            if fields[0] != b"s" or len(fields) != 3 or not all(f.isdigit() and len(f) <= 20 for f in fields[1:]):
                raise self.wrong("an offset (s:task:byte offset) was expected here")
            seen.add(int(fields[1]))
        if seen != set(range(tasks)):
            raise self.wrong(f"the table of offsets names {len(seen)} of {tasks} tasks")


def _parsed(text: bytes, tasks: int, comm_ids: list[int]) -> pl.DataFrame:
    """Return records in whole lines: where they are (``at``, ``line``), what is ``wrong`` with them, the columns of events."""
    line, colons = pl.col("line"), pl.col("colons")
    lines = pl.Series("line", text.decode(errors="replace").split("\n")[:-1], pl.String).str.strip_suffix("\r")
    frame = lines.to_frame().with_row_index("at").filter((line != "") & ~line.str.starts_with("#"))
    cells = line.str.split_exact(":", 9).struct.unnest()
    frame = frame.with_columns(cells, line.str.count_matches(":", literal=True).alias("colons"))
    fields = [pl.col(f"field_{number}") for number in range(10)]
    frame = frame.with_columns(field.cast(pl.Int64, strict=False).name.prefix("n") for field in fields)
    kind, task, thread, *v = (pl.col(f"nfield_{number}") for number in range(10))
    burst, message, collective, event = (kind.is_in(kinds) for kinds in ((1, 11), (2, 3), (10,), (20,)))
    seconds = pl.when(fields[3].str.contains(r"^[0-9.][0-9.eE+-]*$")).then(fields[3].cast(pl.Float64, strict=False))
    pair = [pl.coalesce(fields[at].cast(pl.UInt64, strict=False).reinterpret(signed=True), v[at - 3]) for at in (3, 4)]
    # The partner's thread may be left out, and how a collective synchronizes.
    short = pl.when(colons == 7)
    its_thread, size, tag, comm, sync = (
        short.then(early).otherwise(late) for early, late in zip([pl.lit(-1), *v[1:5]], v[1:6], strict=True)
    )
    comm = pl.when(message).then(comm).when(collective).then(v[1])
    sync = pl.when(message).then(sync).when(colons == 8).then(int(Sync.BLOCKING)).otherwise(v[6])
    most_sync = pl.when(kind == 2).then(3).when(message | (v[0] != Op.REDUCE)).then(2).otherwise(3)
    numbers = (
        (burst, [seconds]),
        (message, [v[0], its_thread, size, tag, comm, sync]),
        (collective, [*v[:6], sync]),
        (event, pair),
    )
    colons_of = ((burst, (3,)), (message, (7, 8)), (collective, (8, 9)), (event, (4,)))
    checks = (
        ((colons < 2) | (colons > 9), "wrong number of fields"),
        (kind.is_null(), "unknown record kind"),
        (task.is_null() | thread.is_null(), "a field is not a number"),
        (~task.is_between(0, tasks - 1), "no such task"),
        (thread != 0, _NO_THREAD),
        (~kind.is_in((0, 1, 2, 3, 10, 11, 20)), "unknown record kind"),
        (pl.any_horizontal(of & ~colons.is_in(known) for of, known in colons_of), "wrong number of fields"),
        (pl.any_horizontal(of & one.is_null() for of, all_ in numbers for one in all_), "a field is not a number"),
        (~burst & line.str.contains("+", literal=True) | ~seconds.is_finite(), "a field is not a number"),
        (message & (v[0] == -1), "a wildcard source must be resolved when the trace is made"),
        (message & ~v[0].is_between(0, tasks - 1), "no such task"),
        (message & ~its_thread.is_in((-2, -1, 0)), _NO_THREAD),
        (message & ((size < 0) | ~tag.is_between(~_LARGEST, _LARGEST)), "a number is out of range"),
        (collective & ~v[0].is_between(0, max(Op)), "unknown collective operation"),
        ((message | collective) & ~comm.is_in(comm_ids), "no such communicator"),
        (collective & ((v[2] < 0) | (v[0] == Op.REDUCE) & (v[2] >= tasks)), "no such task"),
        (collective & ((v[4] < 0) | (v[5] < 0) | (v[2] > _LARGEST)), "a number is out of range"),
        ((message | collective) & ~sync.is_between(0, most_sync), "invalid synchronization field"),
    )
    receive = pl.when(kind == 3).then(EventKind.RECV + sync)
    columns = {
        "wrong": pl.coalesce(*(pl.when(condition).then(pl.lit(reason)) for condition, reason in checks)),
        "kind": receive.otherwise(kind.replace_strict(_EVENT_KINDS, default=int(EventKind.NOOP))),
        "flags": pl.when((kind == 2) | collective).then(sync).otherwise(0),
        "op": pl.when(collective).then(v[0]).otherwise(0),
        "partner": pl.when(message).then(v[0]).when(collective).then(v[2]).otherwise(0),
        "tag": pl.when(message).then(tag).otherwise(0),
        "comm": comm.fill_null(comm_ids[0] if comm_ids else 0),
        "bytes": pl.when(message).then(size).when(collective).then(v[4]).when(event).then(pair[0]).otherwise(0),
        "extra": pl.when(collective).then(v[5]).when(event).then(pair[1]).otherwise(0),
        "seconds": pl.when(burst).then(seconds).otherwise(0.0),
        "task": task,
    }
    return frame.select("at", "line", **columns)


def write_dim(events: Events, path: str | Path) -> None:
    """Write a Dimemas trace with its table of offsets, as stock Dimemas demands it.

    Every task begins with a burst (an empty one is put in front), and communicator ids are raised by one where one is 0, because
    the stock program ignores collectives on communicator 0.
    """
    if 0 in events.comm_ids:
        events = replace(events, comm_ids=events.comm_ids + 1)
    write_atomically(path, lambda temporary: _write(events, temporary))


def _header(events: Events, offset: int) -> bytes:
    threads = ",".join(["1"] * events.ranks)
    name = events.name.replace('"', "'").replace("\n", " ")
    return f'#DIMEMAS:"{name}":1,{offset:018d}:{events.ranks}({threads}),{len(events.comm_ids)}\n'.encode()


def _write(events: Events, path: Path) -> None:
    with open(path, "wb") as file:
        file.write(_header(events, 0))
        for identity, members in events.communicators().items():
            file.write(f"d:1:{identity}:{len(members)}:{':'.join(map(str, members.tolist()))}\n".encode())
        offsets = []
        for rank in range(events.ranks):
            offsets.append(file.tell())
            file.write("".join(_lines(events, rank)).encode())
        table = file.tell()
        file.write("".join(f"s:{rank}:{offset}\n" for rank, offset in enumerate(offsets)).encode())
        file.seek(0)
        file.write(_header(events, table))


def _lines(events: Events, rank: int) -> Iterator[str]:
    part = slice(events.first[rank], events.first[rank + 1])
    ids = events.comm_ids.tolist()
    known = events.columns["kind"][part] != EventKind.SEND_WAIT  # the format has no such record
    rows = zip(*(events.columns[name][part][known].tolist() for name in COLUMNS), strict=True)
    begins = False
    for kind, flags, op, partner, tag, comm, size, extra, seconds in rows:
        if not begins and kind != EventKind.BURST:
            yield f"1:{rank}:0:0\n"
        begins = True
        if kind in (EventKind.BURST, EventKind.GPU):
            yield f"{_KINDS[kind]}:{rank}:0:{seconds!r}\n"
        elif kind == EventKind.SEND:
            yield f"2:{rank}:0:{partner}:-1:{size}:{tag}:{ids[comm]}:{flags}\n"
        elif kind in (EventKind.RECV, EventKind.IRECV, EventKind.WAIT):
            yield f"3:{rank}:0:{partner}:-1:{size}:{tag}:{ids[comm]}:{kind - EventKind.RECV}\n"
        elif kind == EventKind.COLLECTIVE:
            yield f"10:{rank}:0:{op}:{ids[comm]}:{partner}:0:{size}:{extra}:{flags}\n"
        elif kind == EventKind.EVENT:
            yield f"20:{rank}:0:{size % (1 << 64)}:{extra % (1 << 64)}\n"
        else:
            yield f"0:{rank}:0\n"

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

from convolver._native.replay_core import COLUMNS, DimParser
from convolver.errors import FormatError
from convolver.foreign_text import readable
from convolver.mpi.events import EventKind, Events, make_events
from convolver.outputs import write_atomically
from convolver.progress import SILENT, Progress

CHUNK_BYTES = 4 << 20
MAX_TASKS = 1 << 24
_HEADER = re.compile(
    rb'#DIMEMAS:"([^"\n]*)":([01])(?:,\s*(\d{1,20}))?:(\d{1,9})\(([\d,]*)\),(\d{1,9})((?:,\d{1,9}(?:\([\d,]*\))?){0,2})\s*'
)
_KINDS = {EventKind.NOOP: 0, EventKind.BURST: 1, EventKind.GPU: 11}


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
        parser = DimParser(tasks, comm_ids)
        pieces = []
        self.progress.start(f"Reading {self.path}", float(Path(self.path).stat().st_size), unit="bytes")
        for text in self._chunks(end):
            columns, lines, error = parser.parse(text)
            if error:
                record = text.split(b"\n", lines + 1)[lines][:80].decode(errors="replace")
                raise self.wrong(f"{error} in '{record}'", self.line + lines + 1)
            self.line += lines
            pieces.append(columns)
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

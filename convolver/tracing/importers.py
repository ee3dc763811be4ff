"""Traces that other tools recorded, as streams: lackey, Dinero, drmemtrace's text view, CSV and Parquet."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native.layouts import packed
from convolver._native.trace_decoder import MAGIC, VERSION, WIRE, Decoder
from convolver.errors import FormatError, UsageError
from convolver.foreign_text import polars_source, readable
from convolver.heavy import pl
from convolver.progress import SILENT, Progress, step
from convolver.schema import no_parquet, refused_on_abort
from convolver.tracing.assemble import assemble_signature
from convolver.tracing.blocks import rebuild_blocks
from convolver.tracing.definitions import CONTINUED, STORE, Definitions
from convolver.tracing.reader import Trace
from convolver.tracing.writer import TraceWriter

Key = tuple[int, int, int, int]
"""Address of the instruction, its length, bytes of the reference, 1 for a write; a size of 0 is the instruction itself."""


def _words(*words: int) -> bytes:
    return np.array(words, "<u8").tobytes()


def _record(kind: str, payload: bytes) -> bytes:
    return _words(WIRE["CONTROL"] | WIRE[kind] << 56 | len(payload) // 8) + payload


def beginning() -> bytes:
    """Return the beginning of a stream with one module: code outside every file."""
    return _words(MAGIC, VERSION) + _record("MODULE", packed("struct cv_wire_module"))


def ending() -> bytes:
    """Return the record of a normal end."""
    return _record("END", packed("struct cv_wire_end"))


class WireWriter:
    """One segment for each instruction and for each kind of reference of an instruction, with the exact number of each.

    ``counted`` tells whether executed instructions are recorded themselves; otherwise each reference stands for one.
    """

    def __init__(self, counted: bool) -> None:
        self._counted = counted
        self._segments: dict[Key, int] = {}
        self._sites = 0
        self._counts: list[int] = []
        self._thread = -1

    @property
    def counters(self) -> bytes:
        """The execution counters, one for each segment."""
        return np.array(self._counts, dtype="<u8").tobytes()

    def _define(self, key: Key) -> bytes:
        pc, length, size, write = key
        number, sites = len(self._segments), int(size > 0)
        self._segments[key] = number
        self._counts.append(0)
        place = {"address": pc, "file_offset": pc, "id": number, "counter": number, "first_site": self._sites}
        payload = packed("struct cv_wire_segment", **place, words=sites, sites=sites, instructions=1)
        payload += packed("struct cv_wire_instruction", length=length, flags=CONTINUED if self._counted and sites else 0)
        if sites:
            payload += packed("struct cv_wire_site", size_bytes=size, flags=STORE if write else 0)
        self._sites += sites
        return _record("SEGMENT", payload)

    def records(self, keys: list[Key], addresses: NDArray[np.uint64], thread: int = 1) -> bytes:
        """Return the records of references in execution order; ``addresses`` of keys of size 0 are left out."""
        parts = []
        if thread != self._thread:
            parts.append(_words(WIRE["CONTROL"] | WIRE["THREAD"] << 56 | thread))
            self._thread = thread
        parts += [self._define(key) for key in dict.fromkeys(keys) if key not in self._segments]
        numbers = np.array([self._segments[key] for key in keys], dtype=np.uint64)
        for number, count in zip(*np.unique(numbers, return_counts=True), strict=True):
            self._counts[int(number)] += int(count)
        recorded = np.array([key[2] > 0 for key in keys], dtype=bool)
        words = np.empty((int(recorded.sum()), 2), dtype="<u8")
        words[:, 0] = numbers[recorded] | np.uint64(WIRE["VISIT"])
        words[:, 1] = addresses[recorded]
        return b"".join(parts) + words.tobytes()


BATCH = 1 << 16
LONGEST = 65535
MOST_THREADS = (1 << 32) - 1


class Event(NamedTuple):
    """One executed instruction (``size`` 0) or one reference. ``pc`` and ``length`` are 0 and 1 where unknown."""

    pc: int
    length: int
    address: int
    size: int
    write: bool
    thread: int = 1


class Importer(NamedTuple):
    """A format: how its lines become events, and whether it records instructions."""

    parse: Callable[[Path, IO[str] | None], Iterator[Event]]
    counted: bool


def _bad(where: str, number: int, line: str) -> FormatError:
    return FormatError(f"{where} cannot be read at line {number}: '{line.strip()[:60]}' is not of this format; check --format.")


def _lines(path: Path, file: IO[str] | None) -> Iterator[tuple[int, str]]:
    if file is not None:
        yield from enumerate(file, 1)
        return
    with readable(path), open(path, encoding="utf-8", errors="replace") as opened:
        yield from enumerate(opened, 1)


_LACKEY = re.compile(r"^(I | L| S| M)\s+([0-9a-fA-F]{1,16}),([0-9]{1,9})$")


def read_lackey(path: Path, file: IO[str] | None) -> Iterator[Event]:
    """Events of ``valgrind --tool=lackey --trace-mem=yes``; a modify is a load and a store. Other lines are Valgrind's own."""
    pc, length = 0, 1
    for number, line in _lines(path, file):
        match = _LACKEY.match(line.rstrip())
        if match is None:
            if line.startswith("==") or not line.strip():
                continue
            raise _bad(str(path), number, line)
        kind, address, size = match[1].strip(), int(match[2], 16), int(match[3])
        if kind == "I":
            pc, length = address, min(size, 255)
            yield Event(pc, length, 0, 0, False)
            continue
        if kind in "LM":
            yield Event(pc, length, address, size, False)
        if kind in "SM":
            yield Event(pc, length, address, size, True)


def read_din(path: Path, file: IO[str] | None) -> Iterator[Event]:
    """Events of Dinero's ``din`` format: ``0|1|2 ADDRESS [SIZE]`` for read, write and instruction fetch; 4 bytes by default."""
    pc = 0
    for number, line in _lines(path, file):
        words = line.split()
        if not words:
            continue
        try:
            kind, address = words[0].lower(), int(words[1], 16)
            size = int(words[2], 16) if len(words) > 2 else 4
        except (IndexError, ValueError) as error:
            raise _bad(str(path), number, line) from error
        if kind in ("2", "i"):
            pc = address
            yield Event(pc, 1, 0, 0, False)
        elif kind in ("0", "1", "r", "w"):
            yield Event(pc, 1, address, size, kind in ("1", "w"))
        elif kind not in ("3", "4", "m", "x"):
            raise _bad(str(path), number, line)


_DRMEMTRACE = re.compile(r"T(\d+)\s+(ifetch|read|write)\s+([0-9]{1,9}) byte\(s\) @ (0x[0-9a-f]{1,16})\b")
_BY_PC = re.compile(r"by PC (0x[0-9a-f]{1,16})\b")


def read_drmemtrace(path: Path, file: IO[str] | None) -> Iterator[Event]:
    """Events of ``drrun -t drcachesim -simulator_type view``; markers and other records are passed over."""
    threads: dict[str, int] = {}
    instructions: dict[int, tuple[int, int]] = {}
    for number, line in _lines(path, file):
        match = _DRMEMTRACE.search(line)
        if match is None:
            if number == 1 and "T" not in line and ":" not in line and "record" not in line:
                raise _bad(str(path), number, line)
            continue
        thread = threads.setdefault(match[1], len(threads) + 1)
        size, address = int(match[3]), int(match[4], 16)
        if match[2] == "ifetch":
            instructions[thread] = (address, min(size, 255))
            yield Event(address, min(size, 255), 0, 0, False, thread)
            continue
        by = _BY_PC.search(line)
        pc, length = instructions.get(thread, (0, 1))
        if by is not None and int(by[1], 16) != pc:
            pc, length = int(by[1], 16), 1
        yield Event(pc, length, address, size, match[2] == "write", thread)


_TRUE = frozenset(("1", "true", "w", "write", "store", "s"))
_FALSE = frozenset(("0", "false", "r", "read", "load", "l", ""))


def _row(row: dict[str, Any], where: str, number: int) -> Event:
    def integer(name: str, default: int) -> int:
        value = row.get(name)
        if value is None or value == "":
            return default
        return int(value, 0) if isinstance(value, str) else int(value)

    write = str(row.get("write", "")).strip().lower()
    try:
        if write not in _TRUE | _FALSE or row.get("address") in (None, ""):
            raise ValueError
        address, size = integer("address", 0), integer("size", 8)
        return Event(integer("pc", 0), 1, address, size, write in _TRUE, integer("thread", 1))
    except (ValueError, TypeError) as error:
        raise _bad(where, number, str(row)) from error


def read_csv(path: Path, file: IO[str] | None) -> Iterator[Event]:
    """Events of a CSV file with a header: address, and optionally size (8), write (0), pc (0), thread (1)."""
    rows = csv.DictReader(line for _, line in _lines(path, file))
    try:
        if "address" not in (rows.fieldnames or ()):
            raise FormatError(f"{path} has no column 'address' in its first line; see docs/cli/import.md.")
        for number, row in enumerate(rows, 2):
            yield _row(row, str(path), number)
    except csv.Error as error:
        raise FormatError(f"{path} cannot be read as CSV after line {rows.line_num}: {error}.") from error


def read_parquet(path: Path, file: IO[str] | None) -> Iterator[Event]:
    """Events of a Parquet file with the columns of :func:`read_csv`."""
    if file is not None:
        raise UsageError("Parquet cannot be read from a pipe; give a file.")
    try:
        with refused_on_abort(path):
            frame = pl.scan_parquet(polars_source(path))
        names = [name for name in ("address", "size", "write", "pc", "thread") if name in frame.collect_schema().names()]
        if "address" not in names:
            raise FormatError(f"{path} has no column 'address'; see docs/cli/import.md.")
        start = 0
        while True:
            with refused_on_abort(path):
                part = frame.select(names).slice(start, BATCH * 8).collect()
            for number, row in enumerate(part.iter_rows(named=True), start + 1):
                yield _row(row, str(path), number)
            start += part.height
            if part.height < BATCH * 8:
                return
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise no_parquet(path, error) from error


IMPORTERS: dict[str, Importer] = {
    "lackey": Importer(read_lackey, True),
    "din": Importer(read_din, True),
    "drmemtrace": Importer(read_drmemtrace, True),
    "csv": Importer(read_csv, False),
    "parquet": Importer(read_parquet, False),
}
_SUFFIXES = {".din": "din", ".csv": "csv", ".parquet": "parquet", ".lackey": "lackey"}


def guess_format(path: Path) -> str:
    """Return the format that a file's name tells; raises :class:`UsageError` when it tells none."""
    name = _SUFFIXES.get(path.suffix)
    if name is None:
        raise UsageError(f"The format of {path} is not clear from its name; choose one with --format: {', '.join(IMPORTERS)}.")
    return name


def _wire(events: Iterable[Event], writer: WireWriter) -> Iterator[tuple[bytes, int]]:
    keys: list[Key] = []
    addresses: list[int] = []
    thread = 1
    for event in events:
        if not 0 <= event.size <= LONGEST or not 0 <= event.address < 1 << 64:
            raise FormatError(f"A reference of {event.size:#x} bytes at {event.address:#x} is impossible; check --format.")
        if not 0 <= event.pc < 1 << 64 or not 0 <= event.thread <= MOST_THREADS:
            raise FormatError(f"An instruction at {event.pc:#x} of thread {event.thread:#x} is impossible; check --format.")
        if event.thread != thread or len(keys) >= BATCH:
            yield writer.records(keys, np.array(addresses, dtype=np.uint64), thread), len(keys)
            keys, addresses, thread = [], [], event.thread
        keys.append((event.pc, event.length, event.size, int(event.write)))
        addresses.append(event.address)
    yield writer.records(keys, np.array(addresses, dtype=np.uint64), thread), len(keys)


def import_trace(path: str | Path, *, output: str | Path, format: str | None = None, progress: Progress = SILENT) -> Trace:
    """Convert a recording of another tool into a trace file and return it; ``-`` reads standard input.

    The file is read as a stream; memory grows with the number of different instructions only. Raises :class:`UsageError` for an
    unknown format and :class:`FormatError` for a file that is not of it, or holds nothing.
    """
    path = Path(path)
    name = format or guess_format(path)
    if name not in IMPORTERS:
        raise UsageError(f"There is no importer for '{name}'; these are there: {', '.join(IMPORTERS)}.")
    importer = IMPORTERS[name]
    meta = {
        "command": [str(path)],
        "sampling": {"mode": "full"},
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "engine": f"import:{name}",
    }
    wire, decoder = WireWriter(importer.counted), Decoder(str(path))
    decoder.record()
    decoder.feed(beginning())
    events = importer.parse(path, sys.stdin if str(path) == "-" else None)
    writer, references = TraceWriter(output, meta), 0
    with step(progress, f"Importing {path.name}", unit="references"), writer.whole_or_none():
        for data, count in _wire(events, wire):
            decoder.feed(data)
            if decoder.chunk_full:
                writer.put_recorded(decoder.take())
            progress.advance(count)
            references += count
        if not references:
            raise FormatError(f"{path} holds no reference of the format {name}; nothing was written.")
        decoder.feed(ending())
        decoder.flush()
        _finish(writer, decoder, wire.counters, meta)
    return Trace.load(output)


def _finish(writer: TraceWriter, decoder: Decoder, counters: bytes, meta: dict[str, Any]) -> None:
    writer.put_recorded(decoder.take())
    writer.put_counts(counters)
    totals = decoder.totals
    end = {"complete": True, "reason": "imported", "exit_status": None, "threads": max(totals["threads"], 1)}
    end |= {"recorded_references": totals["window_references"], "set_references": 0, "windows": 0}
    values = np.frombuffer(counters, dtype="<u8").astype(np.uint64)
    blocks = rebuild_blocks(Definitions.of(decoder), values)
    signature = assemble_signature(decoder, values, blocks, None, {**meta, **end}, {"trace": writer.id})
    writer.put_signature(signature)
    writer.finish(end)

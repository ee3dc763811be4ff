"""What a trace says of its program's threads: events, work between them, classes of work (docs/formats/cvt.md, THRD)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.thread_replay import CLASS_RECORD, MOST_RECORDS, NAME_RECORD, RECORD
from convolver.errors import FormatError

PIECE = 1 << 26
"""Bytes of a chunk's content: a whole log may be longer than a chunk may be."""
_LOOKED_AT = 1 << 16


def log_path(counters: Path) -> Path:
    """Return where the tracer writes of threads; there is no such file where the program had one thread."""
    return counters.with_name(counters.name + ".threads")


def log_pieces(counters: Path) -> Iterator[bytes]:
    """Yield the contents of the chunks that hold the log beside a counter file; none where there is no log."""
    try:
        with open(log_path(counters), "rb") as file:
            while piece := file.read(PIECE):
                yield piece
    except FileNotFoundError:
        return


@dataclass
class ThreadLog:
    """``records``: one an event, in the order of the run (``struct cv_thread_record``); ``classes``: pairs of a counter and its
    count by class of work; names of ``places`` by number and of ``objects`` by address."""

    records: NDArray[Any]
    classes: dict[int, NDArray[np.uint64]] = field(default_factory=dict)
    places: dict[int, str] = field(default_factory=dict)
    objects: dict[int, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: bytes, where: str) -> ThreadLog:
        """Read the content of all chunks; what was cut off at the end is left out. Raises :class:`FormatError` where a length
        is impossible."""
        parts: list[NDArray[Any]] = []
        log = cls(np.zeros(0, dtype=RECORD))
        at = 0
        while len(data) - at >= RECORD.itemsize:
            count = min((len(data) - at) // RECORD.itemsize, _LOOKED_AT)
            records = np.frombuffer(data, RECORD, count, at)
            special = np.flatnonzero(records["kind"] >= min(CLASS_RECORD, NAME_RECORD))
            plain = int(special[0]) if len(special) else count
            parts.append(records[:plain])
            at += plain * RECORD.itemsize
            if len(special):
                at = log._special(records[plain], data, at + RECORD.itemsize, where)
        log.records = np.concatenate(parts) if parts else log.records
        log._demangle()
        return log

    def _demangle(self) -> None:
        """Make C++ and Rust names readable: the native engine leaves them as they are."""
        if any(name.startswith(("_Z", "_R")) for name in self.places.values()):
            from convolver.tracing.symbols import demangle  # only here: it needs what reads object files

            self.places = dict(zip(self.places, demangle(list(self.places.values())), strict=True))

    def _special(self, record: Any, data: bytes, at: int, where: str) -> int:
        """Take what follows a record that is no event; return where the next one begins."""
        length, key = int(record["argument"]), int(record["object"])
        size = 16 * length if int(record["kind"]) == CLASS_RECORD else (length + 7) // 8 * 8
        if int(record["kind"]) not in (CLASS_RECORD, NAME_RECORD) or size > len(data):
            raise FormatError(f"{where} holds an impossible record of threads; trace again.")
        if len(data) - at < size:
            return len(data)
        if int(record["kind"]) == CLASS_RECORD:
            self.classes[key] = np.frombuffer(data, "<u8", 2 * length, at).reshape(-1, 2)
        else:
            name = data[at : at + length].decode(errors="replace")
            if key:
                self.objects[key] = name
            else:
                self.places[int(record["place"])] = name
        return at + size

    @property
    def threads(self) -> int:
        """How many threads ran."""
        return int(self.records["thread"].max()) + 1 if len(self.records) else 1

    @property
    def full(self) -> bool:
        """Whether the threads met so often that what came last is not recorded."""
        return len(self.records) > MOST_RECORDS

    @property
    def at_once(self) -> float:
        """How many threads run at the same time in the mean, where there is a processor for each and the one with most work
        never waits."""
        work = np.bincount(self.records["thread"], weights=self.records["instructions"].astype(float))
        return float(work.sum() / work.max()) if work.any() else 1.0

    @property
    def work_classes(self) -> int:
        """How many classes of work there are."""
        return max([*self.classes, int(self.records["work_class"].max()) if len(self.records) else 0]) + 1

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return counters, classes and how often each counter counted in each class."""
        pairs = np.concatenate([np.zeros((0, 2), np.uint64), *self.classes.values()])
        classes = np.repeat(np.array(list(self.classes), dtype=np.int64), [len(one) for one in self.classes.values()])
        return pairs[:, 0].astype(np.int64), classes, pairs[:, 1].astype(float)

    def instructions(self) -> NDArray[np.float64]:
        """Return the instructions of each class, within the runtime's calls included."""
        each = self.records["instructions"].astype(float) + self.records["inside"]
        return np.bincount(self.records["work_class"], weights=each).astype(float)

    def instructions_inside(self, classes: int) -> NDArray[np.float64]:
        """Return the instructions within the runtime's calls of each of so many classes."""
        return np.bincount(self.records["work_class"], weights=self.records["inside"], minlength=classes).astype(float)

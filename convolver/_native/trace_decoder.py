"""Typed wrapper of csrc/include/cv_trace.h: the decoder of tracer streams and recorded addresses."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.detailed_engine import DetailedSimulator
from convolver._native.layouts import copied, layout
from convolver._native.relay import Relay
from convolver._native.simulator import Simulator
from convolver._native.status import check, keep_error, owned
from convolver.errors import ConvolverError, FormatError

WINDOW: int = lib.CV_BATCH_WINDOW
SETS: int = lib.CV_BATCH_SETS
END: int = lib.CV_PUMP_END
SLICE_MILLISECONDS = 50
"""Longest time that decoding a recorded chunk stays in the C core."""
REGISTERS: int = lib.CV_TRACE_HLL_REGISTERS
MAGIC: int = lib.CV_WIRE_MAGIC
VERSION: int = lib.CV_WIRE_VERSION

WIRE: dict[str, int] = {
    name: getattr(lib, f"CV_WIRE_{name}") for name in ("VISIT", "CONTROL", "THREAD", "MODULE", "SEGMENT", "END")
}
"""Numbers of the wire format."""
MODULE = layout("struct cv_wire_module")
SEGMENT = layout("struct cv_wire_segment")
INSTRUCTION = layout("struct cv_wire_instruction")
SITE = layout("struct cv_wire_site")
FEATURES = layout("cv_site_features")
SYSTEM = layout("struct cv_wire_system")
SYSTEM_CALL = layout("struct cv_wire_call")
PAGES_KNOWN: int = lib.CV_WIRE_PAGES_KNOWN
COUNTERS = layout("struct cv_counters_header")
COUNTERS_MAGIC: int = lib.CV_COUNTERS_MAGIC
COUNTERS_OFFSET: int = lib.CV_COUNTERS_OFFSET
COUNTERS_EVERY: int = ffi.offsetof("struct cv_counters_header", "every")
OBJECT = layout("cv_object")
PAIR = layout("cv_pair")


class Batch(NamedTuple):
    """References in execution order, arrays of one length; ``kind`` is :data:`WINDOW` or :data:`SETS`, ``warm``: a warm-up."""

    kind: int
    thread: int
    window: int
    warm: bool
    addresses: NDArray[np.uint64]
    sites: NDArray[np.uint32]
    sizes: NDArray[np.uint16]
    writes: NDArray[np.bool_]


class TracePayloads(NamedTuple):
    """Payloads for the chunks of a trace file, in the order in which they must be written."""

    modules: bytes
    segments: bytes
    events: bytes
    addresses: bytes
    sets: bytes = b""
    """Set-sampled references, where they are recorded apart."""


UNIT = layout("cv_recorded_unit")


class Unpacked(NamedTuple):
    """Records of a chunk: wire words, where each record begins, and how many visits and samples of the stream come before it."""

    words: NDArray[np.uint64]
    starts: NDArray[np.uint64]
    ordinals: NDArray[np.uint64]


def crc32c(data: bytes, crc: int = 0) -> int:
    """Return the CRC-32C of ``data``, continuing from ``crc``."""
    return int(lib.cv_crc32c(crc, ffi.from_buffer(data), len(data)))


def column(getter: Any, handle: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a copy of the array that a function of the C core points to, whose length it returns."""
    pointer = ffi.new(ffi.typeof(getter).args[1])
    count = getter(handle, pointer)
    return copied(pointer[0], count, dtype)


class Decoder:
    """Decodes a tracer's stream or recorded chunks; memory is bounded by the code seen, not by the length of the run.

    All methods that decode raise :class:`FormatError` with the position for malformed input. ``handle`` is for other wrappers.
    """

    def __init__(self, where: str = "The tracer's stream") -> None:
        self._where = where
        self.handle: Any = owned(lib.cv_trace_new(), lib.cv_trace_free)
        self._kept: list[Any] = []
        self.attributes = False
        """True when references are attributed to data objects."""

    def _check(self, status: int) -> None:
        if status == lib.CV_ERROR_FORMAT:
            position = ffi.new("uint64_t *")
            text = lib.cv_trace_error(self.handle, position)
            why = ffi.string(text).decode() if text != ffi.NULL else "malformed data"
            raise FormatError(f"{self._where} is damaged at word {position[0]}: {why}.")
        if status == lib.CV_ERROR_IO:
            raise ConvolverError(f"{self._where} cannot be read: {os.strerror(ffi.errno or errno.EIO)}.")
        check(status, f"Decoding {self._where[0].lower()}{self._where[1:]}")

    def add_simulator(self, simulator: Simulator | DetailedSimulator | Relay, kind: int = WINDOW) -> None:
        """Feed every reference of one kind of batch to ``simulator``; the owner of a reference is its site.

        A detailed simulator and a relay to several take those of windows only.
        """
        sink = lib.cv_trace_simulate if kind == WINDOW else lib.cv_trace_simulate_sets
        if isinstance(simulator, DetailedSimulator):
            sink = lib.cv_trace_simulate_detailed
        elif isinstance(simulator, Relay):
            sink = lib.cv_relay_sink
        self.add_sink(sink, simulator)

    def add_sink(self, sink: Any, reader: Any) -> None:
        """Hand every batch to a function of the C core with the ``handle`` of a reader."""
        self._kept.append(reader)
        self._check(lib.cv_trace_add_sink(self.handle, sink, reader.handle))

    def add_collector(self) -> Collector:
        """Return a new collector that keeps the batches decoded from now on."""
        collector = Collector()
        self.add_sink(lib.cv_python_batch, collector)
        return collector

    def build_paths(self, paths: Any) -> None:
        """Hand the visits decoded from now on to a builder (:class:`convolver._native.path_builder.Paths`)."""
        self._kept.append(paths)
        lib.cv_trace_build_paths(self.handle, paths.handle)

    def paths_alone(self) -> None:
        """Decode paths from now on, and nothing else: no batches, no features."""
        lib.cv_trace_paths_alone(self.handle)

    def shares_alone(self, every: int) -> None:
        """Take features from one window in ``every`` from now on, for what shares they tell; no line is counted as distinct."""
        lib.cv_trace_shares_alone(self.handle, every)

    def choose(self, phase: tuple[int, int] | None = None, ranges: Iterable[tuple[str, int, int]] = ()) -> None:
        """Keep only some of the segments defined from now on.

        ``phase`` (i, n): the i-th of n parts, counted from 0. ``ranges``: those that overlap a (path, begin, end).
        """
        if phase is not None:
            self._check(lib.cv_trace_choose_phase(self.handle, *phase))
        for path, begin, end in ranges:
            self._check(lib.cv_trace_choose_range(self.handle, os.fsencode(path), begin, end))

    def warmup(self, on: bool = True) -> None:
        """Take the beginning of each window, up to its mark, as a warm-up: simulators do not count it."""
        lib.cv_trace_warmup(self.handle, on)

    def stale(self, references: int) -> None:
        """Let simulators not count so many references at the beginning of each window but the first, which find stale caches."""
        lib.cv_trace_stale(self.handle, references)

    def unpack(self, data: bytes, before: int) -> tuple[Unpacked, int]:
        """Unpack an ADDR chunk that ``before`` visits and samples precede; also returns how many precede the next one."""
        count, unpacked = ffi.new("uint64_t *", before), ffi.new("cv_unpacked *")
        self._check(lib.cv_trace_unpack(self.handle, ffi.from_buffer(data), len(data), count, unpacked))
        dtype = np.dtype(np.uint64)
        starts, ordinals = (copied(array, unpacked.record_count, dtype) for array in (unpacked.starts, unpacked.ordinals))
        return Unpacked(copied(unpacked.words, unpacked.word_count, dtype), starts, ordinals), int(count[0])

    def attribute(self, owners: bool = False) -> None:
        """Attribute the references decoded from now on to data objects (:meth:`objects`, :meth:`pairs`).

        ``owners``: simulators and collectors get pairs, by number, in place of sites.
        """
        lib.cv_trace_attribute(self.handle, int(owners))
        self.attributes = True

    def events(self, data: bytes) -> None:
        """Take the payload of an EVNT chunk: what happens to data objects at the marks in the addresses that follow."""
        self._check(lib.cv_trace_events(self.handle, ffi.from_buffer(data), len(data)))

    def feed(self, data: bytes) -> None:
        """Decode wire bytes; a record may be cut anywhere between two calls."""
        self._check(lib.cv_trace_feed(self.handle, ffi.from_buffer(data), len(data)))

    def define(self, data: bytes) -> None:
        """Take the payload of a MODS or BLKS chunk."""
        self._check(lib.cv_trace_define(self.handle, ffi.from_buffer(data), len(data)))

    def replay(self, data: bytes) -> None:
        """Decode the payload of an ADDR chunk; signals are seen every now and then."""
        payload, used = ffi.from_buffer(data), ffi.new("size_t *")
        while used[0] < len(data):
            self._check(lib.cv_trace_replay(self.handle, payload, len(data), SLICE_MILLISECONDS, used))

    def flush(self) -> None:
        """Hand out what is batched; raises :class:`FormatError` when the input stopped inside a record."""
        self._check(lib.cv_trace_flush(self.handle))
        for kept in self._kept:
            if isinstance(kept, Relay):
                kept.drain()

    def pump(self, fd: int, milliseconds: int) -> int:
        """Read and decode from a pipe without the interpreter's lock; returns why it came back (:data:`END` ...)."""
        state = ffi.new("int *")
        self._check(lib.cv_trace_pump(self.handle, fd, milliseconds, state))
        return int(state[0])

    def record(self, *, units: bool = False) -> None:
        """Record what is decoded from now on, for :meth:`take`; by units, nothing else becomes of addresses (:meth:`units`)."""
        lib.cv_trace_record(self.handle, lib.CV_RECORD_UNITS if units else lib.CV_RECORD_ALL)

    def units(self) -> NDArray[Any]:
        """Return where in the addresses and set samples recorded since :meth:`take` each interval begins (:data:`UNIT`)."""
        return column(lib.cv_trace_units, self.handle, UNIT)

    def coarsen(self, sets: bytes, classes: int, set_class: int) -> bytes:
        """Return the set samples of a unit with those of one of ``classes`` alone."""
        pointer, size = ffi.new("const uint8_t **"), ffi.new("size_t *")
        self._check(lib.cv_trace_coarsen(self.handle, ffi.from_buffer(sets), len(sets), classes, set_class, pointer, size))
        return bytes(ffi.buffer(pointer[0], size[0])[:]) if size[0] else b""

    def take(self) -> TracePayloads:
        """Return what was recorded since the last call."""
        size = ffi.new("size_t *")
        parts = []
        for kind in range(lib.CV_RECORDED_KINDS):
            pointer = lib.cv_trace_recorded(self.handle, kind, size)
            parts.append(ffi.buffer(pointer, size[0])[:] if size[0] else b"")
        lib.cv_trace_taken(self.handle)
        return TracePayloads(*parts)

    @property
    def chunk_full(self) -> bool:
        """True when enough is recorded for a chunk."""
        return bool(lib.cv_trace_chunk_full(self.handle))

    @property
    def totals(self) -> dict[str, int]:
        """What was decoded so far, field by field of ``cv_trace_totals``."""
        totals = lib.cv_trace_totals_of(self.handle)
        return {name: int(getattr(totals, name)) for name, _ in ffi.typeof("cv_trace_totals").fields}

    def system(self) -> bytes:
        """Return the record of system calls and pages (``struct cv_wire_system``) as it came; empty where there was none."""
        pointer = ffi.new("const uint8_t **")
        size = lib.cv_trace_system(self.handle, pointer)
        return bytes(ffi.buffer(pointer[0], size)[:]) if size else b""

    def _texts(self, getter: Any, count: int) -> list[str]:
        return [os.fsdecode(ffi.string(getter(self.handle, i))) for i in range(count)]

    def modules(self) -> NDArray[Any]:
        """Return the modules seen so far (:data:`MODULE`)."""
        return column(lib.cv_trace_modules, self.handle, MODULE)

    def module_paths(self) -> list[str]:
        """Return the path of each module, empty for code outside every file."""
        return self._texts(lib.cv_trace_module_path, len(self.modules()))

    def segments(self) -> NDArray[Any]:
        """Return the segments seen so far (:data:`SEGMENT`)."""
        return column(lib.cv_trace_segments, self.handle, SEGMENT)

    def instructions(self) -> NDArray[Any]:
        """Return the instructions of all segments, one segment after another (:data:`INSTRUCTION`)."""
        return column(lib.cv_trace_instructions, self.handle, INSTRUCTION)

    def sites(self) -> NDArray[Any]:
        """Return the sites (:data:`SITE`)."""
        return column(lib.cv_trace_sites, self.handle, SITE)

    def code(self) -> NDArray[np.uint8]:
        """Return the instruction bytes of all segments, one segment after another."""
        return column(lib.cv_trace_code, self.handle, np.dtype(np.uint8))

    def features(self) -> NDArray[Any]:
        """Return the features of the sites (:data:`FEATURES`)."""
        return column(lib.cv_trace_features, self.handle, FEATURES)

    def objects(self) -> NDArray[Any]:
        """Return the data objects (:data:`OBJECT`); the first stands for what nothing is known of."""
        return column(lib.cv_trace_objects, self.handle, OBJECT)

    def object_texts(self) -> list[str]:
        """Return the text of each data object: function, symbol or path."""
        return self._texts(lib.cv_trace_object_text, len(self.objects()))

    def pairs(self) -> NDArray[Any]:
        """Return which sites referred to which data objects (:data:`PAIR`)."""
        return column(lib.cv_trace_pairs, self.handle, PAIR)

    def visits(self) -> NDArray[np.uint64]:
        """Return how often each segment was recorded."""
        visits = np.zeros(lib.cv_trace_visits(self.handle, ffi.NULL, 0), dtype=np.uint64)
        lib.cv_trace_visits(self.handle, ffi.cast("uint64_t *", visits.ctypes.data), len(visits))
        return visits

    def sampled(self) -> NDArray[np.uint64]:
        """Return how often each site was recorded in windows."""
        segments = self.segments()
        visits = np.repeat(self.visits(), segments["sites"])
        return np.asarray(visits - self.features()["skipped"], dtype=np.uint64)

    def distinct(self, segment: int) -> NDArray[np.uint8] | None:
        """Return the distinct-line registers of a segment, or None when nothing was sampled there."""
        pointer = lib.cv_trace_distinct(self.handle, segment)
        return None if pointer == ffi.NULL else copied(pointer, REGISTERS, np.dtype(np.uint8))


class Collector:
    """Keeps copies of batches until they are taken."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self.handle: Any = ffi.new_handle(self._batches)

    def take(self) -> list[Batch]:
        """Return the batches kept since the last call."""
        taken = self._batches.copy()
        self._batches.clear()
        return taken


@ffi.def_extern(error=lib.CV_ERROR_INTERRUPTED, onerror=keep_error)
def cv_python_batch(batches: Any, refs: Any, about: Any) -> int:
    """Let a :class:`Collector` keep a batch, as a sink of the C core."""
    columns = ((refs.address, np.uint64), (refs.owner, np.uint32), (refs.size, np.uint16), (refs.write, np.bool_))
    arrays = (copied(column, refs.count, np.dtype(kind)) for column, kind in columns)
    ffi.from_handle(batches).append(Batch(about.kind, about.thread, about.window, bool(about.warm), *arrays))
    return int(lib.CV_OK)

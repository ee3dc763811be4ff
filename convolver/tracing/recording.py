"""What one traced run leaves: the file written while it runs, the signature and the header's words at its end."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convolver._native.trace_decoder import Decoder
from convolver.errors import FormatError
from convolver.signature.counted import with_counts
from convolver.tracing import format as cvt
from convolver.tracing.assemble import assemble_objects, assemble_signature
from convolver.tracing.blocks import Blocks, rebuild_blocks
from convolver.tracing.definitions import Definitions
from convolver.tracing.found_objects import FoundObjects, find_objects
from convolver.tracing.kernel_use import system_document
from convolver.tracing.launch import rank
from convolver.tracing.path_features import PathFeatures
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.session import Outcome
from convolver.tracing.symbols import resolve_names
from convolver.tracing.writer import TraceWriter

if TYPE_CHECKING:
    from convolver.signature.data_objects import DataObjects
    from convolver.signature.signature import Signature

FIRST_SNAPSHOT_SECONDS, SNAPSHOT_SECONDS = 1.0, 20.0
"""When the counters are first written while the program runs, for the case that Convolver itself is killed, and how often at
last: the time between doubles."""


def signature_path(output: Path) -> Path:
    """Return where the signature of a trace file lies: ``APP.sig.parquet`` beside ``APP.cvt``."""
    return output.with_name(output.name.removesuffix(".cvt") + ".sig.parquet")


def objects_path(output: Path) -> Path:
    """Return where the data objects of a trace file lie: ``APP.objects.parquet`` beside ``APP.cvt``."""
    return output.with_name(output.name.removesuffix(".cvt") + ".objects.parquet")


def describe(argv: Sequence[str], plan: SamplingPlan, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return what a trace's header says from the beginning."""
    return {
        "command": list(argv),
        "folder": os.getcwd(),
        "sampling": plan.document(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": {"name": platform.node(), "system": platform.release(), "machine": platform.machine()},
        "engine": plan.engine,
        "rank": rank(environment),
    }


def ending_of(outcome: Outcome, decoder: Decoder, seconds: float) -> dict[str, Any]:
    """Return what the header says at the end."""
    totals = decoder.totals
    return {
        "complete": outcome.complete,
        "reason": outcome.reason,
        "exit_status": outcome.exit_status,
        "traced_seconds": round(seconds, 3),
        "recorded_references": totals["window_references"],
        "set_references": totals["set_references"],
        "windows": totals["windows"],
        "threads": max(totals["threads"], 1),
        "system": system_document(decoder.system()),
        "went_native": list(outcome.went_native),
    }


class Ended:
    """What is known after the run: definitions, counters, blocks, signature."""

    def __init__(
        self, decoder: Decoder, counters: bytes, header: dict[str, Any], counts: Signature | None, paths: PathFeatures
    ) -> None:
        self.counters = np.frombuffer(counters, dtype="<u8").astype(np.uint64)
        self.definitions = Definitions.of(decoder)
        self.blocks: Blocks = rebuild_blocks(self.definitions, self.counters)
        self._decoder = decoder
        self._header = header
        self._counts = counts
        self.paths = paths

    def signature(self, trace_id: str) -> Signature:
        """Return the table of blocks."""
        names = resolve_names(self.definitions, self.blocks)
        inputs = {"trace": trace_id}
        made = assemble_signature(self._decoder, self.counters, self.blocks, names, self._header, inputs, self.paths)
        return made if self._counts is None else with_counts(made, self._counts)

    def found_objects(self) -> FoundObjects | None:
        """Return the data objects, where they were asked for."""
        return find_objects(self._decoder, self.definitions) if self._decoder.attributes else None

    def data_objects(self, found: FoundObjects, trace_id: str) -> DataObjects:
        """Return the references of each block to each data object."""
        return assemble_objects(self._decoder, self.definitions, self.blocks, found, {"trace": trace_id})


class Recording:
    """Writes the file while the program runs."""

    def __init__(self, counters: Callable[[], bytes], decoder: Decoder, writer: TraceWriter) -> None:
        self._counters, self._decoder, self.writer = counters, decoder, writer
        self._snapshot, self._pause = time.monotonic(), FIRST_SNAPSHOT_SECONDS

    def chunk(self) -> None:
        """Write what was decoded."""
        self.writer.put_recorded(self._decoder.take())

    def tick(self) -> None:
        """Write a snapshot when one is due."""
        if time.monotonic() - self._snapshot > self._pause:
            self.chunk()
            self.writer.put_counts(self._counters())
            self._snapshot, self._pause = time.monotonic(), min(2 * self._pause, SNAPSHOT_SECONDS)


def finish(writer: TraceWriter, ended: Ended, ending: dict[str, Any]) -> None:
    """Write the signature beside the trace and into it, data objects where there are some, and move the trace to its place."""
    found = ended.found_objects()
    try:
        if found is not None:
            writer.put(cvt.OBJECTS, found.dumps(), cvt.ZSTD)
    except FormatError:
        writer.keep()
        raise
    trace_id = writer.id
    signature = ended.signature(trace_id)
    path = signature_path(writer.path)
    try:
        signature.save(path)
        if found is not None:
            ended.data_objects(found, trace_id).save(objects_path(writer.path))
        writer.put(cvt.SIGNATURE, path.read_bytes())
        writer.finish(ending)
    except FormatError:
        writer.keep()
        raise

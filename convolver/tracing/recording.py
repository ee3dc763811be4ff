"""What one traced run leaves: the file written while it runs, the signature and the header's words at its end."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from convolver._native.trace_decoder import Decoder
from convolver.errors import FormatError
from convolver.signature.counted import with_counts
from convolver.signature.data_objects import DataObjects
from convolver.signature.signature import Signature
from convolver.tracing import format as cvt
from convolver.tracing.assemble import assemble_objects, assemble_signature
from convolver.tracing.blocks import Blocks, rebuild_blocks
from convolver.tracing.counters import counters_so_far, thin_out, thinned_by_tracer
from convolver.tracing.definitions import Definitions
from convolver.tracing.engine_choice import visible_sets
from convolver.tracing.found_objects import FoundObjects, find_objects
from convolver.tracing.kernel_use import system_document
from convolver.tracing.launch import rank
from convolver.tracing.path_features import PathFeatures
from convolver.tracing.reader import read_chunks
from convolver.tracing.sampling import SamplingPlan, tell_warm_ups
from convolver.tracing.session import Outcome
from convolver.tracing.symbols import resolve_names
from convolver.tracing.thinning import Thinning
from convolver.tracing.writer import TraceWriter

FIRST_SNAPSHOT_SECONDS, SNAPSHOT_SECONDS = 1.0, 20.0
"""When the counters are first written while the program runs, for the case that Convolver itself is killed, and how often at
last: the time between doubles."""


_RECORDED = ("recorded_references", "set_references", "windows")
"""What the header says of all that the file holds."""


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
        "processor_sets": visible_sets(plan.engine),
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
        "made_code": outcome.made_code,
        "untraced": outcome.untraced,
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
    """Writes the file while the program runs. To be made before the decoder decodes; ``counters``: the tracer's file."""

    def __init__(self, decoder: Decoder, writer: TraceWriter, plan: SamplingPlan, counters: Path) -> None:
        self._counters, self._decoder, self.writer, self._plan = counters, decoder, writer, plan
        self._snapshot, self._pause = time.monotonic(), FIRST_SNAPSHOT_SECONDS
        ways = partial(thin_out, counters), partial(thinned_by_tracer, counters)
        self._thinning = Thinning(plan, decoder, *ways) if plan.kept_bytes else None
        decoder.record(units=self._thinning is not None)
        self._paths = PathFeatures(decoder, plan.document()) if self._thinning is None else None

    def chunk(self) -> None:
        """Write what was decoded."""
        self.writer.put_recorded(self._thinning.take() if self._thinning else self._decoder.take())

    def tick(self) -> None:
        """Write a snapshot when one is due."""
        if time.monotonic() - self._snapshot > self._pause:
            self.chunk()
            if counters := counters_so_far(self._counters):
                self.writer.put_counts(counters)
            self._snapshot, self._pause = time.monotonic(), min(2 * self._pause, SNAPSHOT_SECONDS)

    def end(self, outcome: Outcome, seconds: float) -> tuple[Decoder, PathFeatures, dict[str, Any]]:
        """Write the rest; return a decoder of all that the file holds, what is seen along its paths, and the header's ending."""
        self.chunk()
        ending = ending_of(outcome, self._decoder, seconds)
        if self._thinning is None or self._paths is not None:
            assert self._paths is not None
            return self._decoder, self._paths, ending
        self._thinning.finish()
        self.writer.begin_again()
        for payload in self._thinning.chunks():
            self.writer.put(cvt.ADDRESSES, payload, cvt.CRITICAL | cvt.ZSTD)
        decoder = Decoder(str(self.writer.path))
        tell_warm_ups(decoder, self._plan.document())
        paths = PathFeatures(decoder, self._plan.document())
        for chunk in read_chunks(self.writer.current):
            content = chunk.content(str(self.writer.current))
            (decoder.replay if chunk.kind == cvt.ADDRESSES else decoder.define)(content)
        decoder.flush()
        found = {name: ending_of(outcome, decoder, seconds)[name] for name in _RECORDED}
        return decoder, paths, {**ending, **found, "sampling": self._thinning.document()}


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
    try:
        if found is not None:
            ended.data_objects(found, trace_id).save(objects_path(writer.path))
        writer.put_signature(signature)
        writer.finish(ending)
    except FormatError:
        writer.keep()
        raise

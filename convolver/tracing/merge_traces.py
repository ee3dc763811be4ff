"""Joins the phases of a trace, runs of the same program that recorded different parts of its code, and groups traces of ranks.

Each phase counts what it passes over, so the records of all phases can be put back into their order exactly. Counts are exact in
every phase; phases whose code or counts differ do not belong together and are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.trace_decoder import Decoder, Unpacked
from convolver.errors import FormatError, ProvenanceError, UsageError
from convolver.heavy import pl
from convolver.progress import SILENT, Progress, step
from convolver.tracing import format as cvt
from convolver.tracing.assemble import assemble_signature
from convolver.tracing.reader import Trace, read_chunks
from convolver.tracing.symbols import resolve_names
from convolver.tracing.writer import TraceWriter

if TYPE_CHECKING:
    from convolver.signature.signature import Signature


_CONTROL = np.uint64(3)
_LOST = 4


class _Phase:
    """The records of one trace, in order, as far as they have been read."""

    def __init__(self, trace: Trace, keep_controls: bool) -> None:
        self._decoder = Decoder(str(trace.path))
        self._chunks = self._unpacked(trace)
        self._keep_controls = keep_controls
        self._before = 0
        self.ended = False
        empty = np.zeros(0, dtype=np.uint64)
        self._now = Unpacked(empty, empty, empty)

    def _unpacked(self, trace: Trace) -> Iterator[Unpacked]:
        for chunk in read_chunks(trace.path):
            content = chunk.content(str(trace.path))
            if chunk.kind == cvt.ADDRESSES:
                unpacked, self._before = self._decoder.unpack(content, self._before)
                yield unpacked
            else:
                self._decoder.define(content)

    def fill(self) -> None:
        """Read the next chunk when nothing is left."""
        while not len(self._now.starts) and not self.ended:
            following = next(self._chunks, None)
            self.ended = following is None
            self._now = following or self._now

    @property
    def last(self) -> int:
        """Sort key of the last record that is there; everything in later chunks comes after it, or is a control beside it."""
        return int(self._keys()[-1])

    def _keys(self) -> NDArray[np.uint64]:
        """Twice the place in the stream, controls before the record at their place."""
        heads = self._now.words[self._now.starts.astype(np.int64)]
        return self._now.ordinals * np.uint64(2) + (~_is_control(heads)).astype(np.uint64)

    def take(self, limit: int) -> tuple[NDArray[np.uint64], list[NDArray[np.uint64]]]:
        """Take the records up to the sort key ``limit``; returns the keys and the words of each record."""
        words, starts, ordinals = self._now
        keys = self._keys()
        count = int(np.searchsorted(keys, np.uint64(limit), side="right"))
        bounds = [*starts.tolist(), len(words)]
        wanted = [place for place in range(count) if self._keep_controls or keys[place] & np.uint64(1)]
        rest = bounds[count]
        self._now = Unpacked(words[rest:], starts[count:] - np.uint64(rest), ordinals[count:])
        return keys[wanted], [words[bounds[place] : bounds[place + 1]] for place in wanted]


def _is_control(heads: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Tell control records from visits and sampled references; one whose site is lost is a reference."""
    kinds = heads >> np.uint64(56) & np.uint64(63)
    return np.asarray((heads >> np.uint64(62) == _CONTROL) & (kinds != _LOST))


def _in_order(phases: Sequence[_Phase]) -> Iterator[bytes]:
    """Yield the records of all phases in the order of the program."""
    while True:
        for phase in phases:
            phase.fill()
        waiting = [phase.last for phase in phases if not phase.ended]
        if not waiting:
            return
        limit = min(waiting)
        taken = [phase.take(limit) for phase in phases]
        order = np.argsort(np.concatenate([keys for keys, _ in taken]), kind="stable")
        parts = [part for _, words in taken for part in words]
        yield b"".join(parts[place].tobytes() for place in order.tolist())


def _check(traces: Sequence[Trace]) -> None:
    first = traces[0]
    numbers = []
    for trace in traces:
        phase = (trace.header.get("sampling") or {}).get("phase")
        if not phase:
            raise UsageError(f"{trace.path} is not a phase of a trace; record it with --phase I/N.")
        numbers.append(tuple(phase))
        same = (
            trace.definitions.paths == first.definitions.paths
            and np.array_equal(trace.definitions.segments, first.definitions.segments)
            and np.array_equal(trace.counters, first.counters)
        )
        if not same:
            raise ProvenanceError(
                f"{trace.path} and {first.path} did not run the same: their counts differ, so they cannot be joined; "
                "give the program the same input, threads and environment in every phase."
            )
        plan = {**trace.header["sampling"], "phase": None}
        if plan != {**first.header["sampling"], "phase": None} or trace.header["command"] != first.header["command"]:
            raise ProvenanceError(
                f"{trace.path} and {first.path} have different commands or sampling plans; they cannot be joined."
            )
    whole = numbers[0][1]
    if sorted(numbers) != [(number, whole) for number in range(1, whole + 1)]:
        have = ", ".join(f"{i}/{n}" for i, n in sorted(numbers))
        raise UsageError(f"All {whole} phases are needed, each once; there are {have}.")


def merge_traces(paths: Sequence[str | Path], *, output: str | Path, progress: Progress = SILENT) -> Trace:
    """Join all phases of a trace into one file, exactly what a run without phases records; returns it.

    Raises :class:`UsageError` when a phase is missing and :class:`ProvenanceError` when they do not belong together.
    """
    traces = sorted((Trace.load(path) for path in paths), key=lambda trace: _number(trace))
    if not traces:
        raise UsageError("There is nothing to merge; give the files of all phases.")
    _check(traces)
    first = traces[0]
    header = dict(first.header)
    header["sampling"] = {**header["sampling"], "phase": None}
    keep = ("command", "sampling", "started", "host", "engine", "rank")
    meta = {name: header[name] for name in keep if name in header}
    meta["inputs"] = {f"phase {number}": trace.id for number, trace in enumerate(traces, 1)}
    decoder = Decoder(str(output))
    for chunk in read_chunks(first.path):
        if chunk.kind != cvt.ADDRESSES:
            decoder.define(chunk.content(str(first.path)))
    writer = TraceWriter(output, meta)
    with step(progress, "Merging", unit="bytes"), writer.whole_or_none():
        _copy_definitions(first, writer)
        decoder.record()
        for data in _in_order([_Phase(trace, trace is first) for trace in traces]):
            decoder.define(data)
            if decoder.chunk_full:
                writer.put_recorded(decoder.take())
            progress.advance(len(data))
        decoder.flush()
        _finish(writer, decoder, first, {**header, **meta})
    return Trace.load(output)


def _number(trace: Trace) -> Any:
    phase = (trace.header.get("sampling") or {}).get("phase")
    return phase[0] if phase else 0


def _copy_definitions(trace: Trace, writer: TraceWriter) -> None:
    for chunk in read_chunks(trace.path):
        if chunk.kind != cvt.ADDRESSES:
            writer.put(chunk.kind, chunk.content(str(trace.path)), chunk.flags)


def _finish(writer: TraceWriter, decoder: Decoder, first: Trace, header: dict[str, Any]) -> None:
    writer.put_recorded(decoder.take())
    writer.put_counts(first.counters.astype("<u8").tobytes())
    totals = decoder.totals
    names = ("complete", "reason", "exit_status", "traced_seconds", "threads", "system")
    end = {name: header[name] for name in names if name in header}
    end |= {"recorded_references": totals["window_references"], "set_references": totals["set_references"]}
    end["windows"] = totals["windows"]
    try:
        names_of_blocks = resolve_names(first.definitions, first.blocks)
        inputs = {"trace": writer.id}
        signature = assemble_signature(decoder, first.counters, first.blocks, names_of_blocks, {**header, **end}, inputs)
        writer.put_signature(signature)
        writer.finish(end)
    except OSError as error:
        raise FormatError(f"{writer.path} cannot be written: {error.strerror}.") from error


def _asked(trace: Trace) -> dict[str, Any]:
    """Return the sampling plan without what a budget made of it: each rank has its own."""
    plan = dict(trace.header["sampling"] or {})
    for name in ("sets", "burst_interval", "set_share") if plan.get("budget") else ():
        plan.pop(name, None)
    return plan


def _check_ranks(traces: Sequence[Trace]) -> None:
    found = [trace.header.get("rank") for trace in traces]
    if None in found:
        alone = traces[found.index(None)].path
        raise UsageError(f"{alone} has no rank: it was not traced under an MPI launcher; group traces of ranks only.")
    ranks = sorted(int(number) for number in found if number is not None)
    if ranks != list(range(len(ranks))):
        have = ", ".join(map(str, ranks))
        raise UsageError(f"Each rank from 0 on is needed, once; there are {have}.")
    first = traces[0]
    for trace in traces:
        if _asked(trace) != _asked(first):
            raise ProvenanceError(f"{trace.path} and {first.path} have different sampling plans; trace all ranks in one run.")


def group_ranks(paths: Sequence[str | Path]) -> Signature:
    """Return the blocks of all ranks as one signature, in the order of ranks, with a column ``rank``.

    ``inputs`` names the trace of every rank, so the traces stay usable each by itself. Raises :class:`UsageError` when a rank is
    missing or there twice, :class:`ProvenanceError` when the traces are of different plans.
    """
    from convolver.signature.signature import Signature

    traces = sorted(
        (Trace.load(path) for path in paths), key=lambda trace: -1 if trace.header.get("rank") is None else trace.header["rank"]
    )
    if not traces:
        raise UsageError("There is nothing to merge; give the traces of all ranks.")
    _check_ranks(traces)
    tables = [
        trace.signature.table.with_columns(pl.lit(number, dtype=pl.UInt32).alias("rank")) for number, trace in enumerate(traces)
    ]
    table = pl.concat(tables, how="diagonal").with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).alias("block"))
    header: dict[str, Any] = dict(traces[0].header)
    fields = {name: header[name] for name in ("command", "sampling")}
    fields["complete"] = all(trace.complete for trace in traces)
    fields["exit_status"] = max(int(trace.header.get("exit_status", 0)) for trace in traces)
    return Signature(table, inputs={f"rank {number}": trace.id for number, trace in enumerate(traces)}, **fields)

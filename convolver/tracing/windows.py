"""Executed paths from a trace file: for Python piece by piece, for readers in C all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from convolver._native.path_builder import Paths, PathWindow
from convolver._native.trace_decoder import Decoder
from convolver.progress import SILENT, Progress
from convolver.tracing import format as cvt
from convolver.tracing.reader import read_chunks

if TYPE_CHECKING:
    from convolver.tracing.reader import Trace

WINDOW_VISITS = 65_536
"""Longest piece of a path, unless told otherwise."""


def _start(trace: Trace, max_visits: int | None) -> tuple[Decoder, Paths]:
    decoder = Decoder(str(trace.path))
    warmup = bool((trace.header.get("sampling") or {}).get("warmup"))
    return decoder, Paths(decoder, WINDOW_VISITS if max_visits is None else max_visits, warmup=warmup)


def _decode(trace: Trace, decoder: Decoder) -> Iterator[int]:
    """Decode chunk by chunk; yields the size of each after it was decoded."""
    where = str(trace.path)
    for chunk in read_chunks(trace.path):
        content = chunk.content(where)
        if chunk.kind == cvt.ADDRESSES:
            decoder.replay(content)
        else:
            decoder.define(content)
        yield len(chunk.payload)
    decoder.flush()
    yield 0


def path_windows(trace: Trace, max_visits: int | None = None) -> Iterator[PathWindow]:
    """Yield what each thread executed in each window, in order, in pieces of at most ``max_visits`` visits.

    Memory is bounded by a chunk of the file and by the code. Segments that do not refer to memory are among the visits only where
    ``trace.whole_paths`` says so. Segment ids are rows of ``trace.definitions.segments`` and of ``trace.segments``.
    """
    decoder, paths = _start(trace, max_visits)
    collector = paths.add_collector()
    for _ in _decode(trace, decoder):
        yield from collector.take()


def walk_paths(
    trace: Trace,
    prepare: Callable[[Decoder, Paths], None],
    max_visits: int | None = None,
    progress: Progress = SILENT,
) -> None:
    """Read all windows into readers in C, which ``prepare`` adds to the decoder and to the builder of paths."""
    decoder, paths = _start(trace, max_visits)
    prepare(decoder, paths)
    progress.start("Reading paths", total=float(trace.path.stat().st_size), unit="bytes")
    try:
        for size in _decode(trace, decoder):
            progress.advance(size)
    finally:
        progress.finish()

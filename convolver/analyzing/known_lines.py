"""Lines that threads touch and hand over, found out once of each trace: they are the same on all machines."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np

from convolver._native.touches import Touches
from convolver._native.trace_decoder import Decoder
from convolver.analyzing.analysis_store import find_bytes, keep_bytes
from convolver.heavy import pl
from convolver.simulation.handed_lines import HandedLines, follow_lines, handed_lines
from convolver.tracing.reader import Trace
from convolver.tracing.spin_loops import SpinLoop
from convolver.tracing.touched_lines import TouchedLine, TouchedLines, touched_lines

_WHAT = "lines.msgpack"
_COLUMNS = {"block": np.uint32, "kind": np.uint8, "own": np.float64, "other": np.float64, "count": np.float64}


class KnownLines(NamedTuple):
    """Lines that threads contend for, with loops that wait, and lines that they hand over; None: there are none."""

    touched: TouchedLines | None
    handed: HandedLines | None


class _Touched(msgspec.Struct):
    lines: list[TouchedLine]
    touches: dict[str, list[Any]] | None
    spins: list[SpinLoop]


class _Kept(msgspec.Struct):
    touched: _Touched | None
    handed: dict[str, list[float]] | None


class LineReader:
    """Reads which lines the threads of a trace touch and hand over, while a decoder decodes it."""

    def __init__(self, trace: Trace) -> None:
        self._trace, self._touches = trace, Touches()

    def join(self, decoder: Decoder) -> None:
        """Take what a decoder of the trace decodes from now on."""
        self._touches.join(decoder)
        self._directory = follow_lines(self._trace, decoder)

    def keep(self) -> KnownLines:
        """Return what was read, after the store of analyses got it."""
        handed = None if self._directory is None else handed_lines(self._trace, self._directory)
        found = KnownLines(touched_lines(self._trace, self._touches), handed)
        if self._trace.id:
            keep_bytes(self._trace.id, _WHAT, msgspec.msgpack.encode(_kept(found)))
        return found


def unread_lines(trace: object) -> LineReader | None:
    """Return a reader for a trace of several threads whose lines the store does not have; else None."""
    if not isinstance(trace, Trace) or trace.thread_log is None or _content(trace) is not None:
        return None
    return LineReader(trace)


def known_lines(trace: Trace) -> KnownLines:
    """Return the lines of a trace's threads, from the store of analyses where they are there, else from a pass over the trace."""
    found = _stored(trace)
    if found is not None:
        return found
    lines = LineReader(trace)
    trace.read(lines.join)
    return lines.keep()


def _content(trace: Trace) -> bytes | None:
    return find_bytes(trace.id, _WHAT) if trace.id else None


def _stored(trace: Trace) -> KnownLines | None:
    content = _content(trace)
    return None if content is None else _restored(msgspec.msgpack.decode(content, type=_Kept))


def _kept(found: KnownLines) -> _Kept:
    touched, handed = found
    columns = None if handed is None else {name: getattr(handed, name).tolist() for name in _COLUMNS}
    if touched is None:
        return _Kept(None, columns)
    touches = None if touched.touches is None else touched.touches.to_dict(as_series=False)
    return _Kept(_Touched(touched.lines, touches, touched.spins), columns)


def _restored(kept: _Kept) -> KnownLines:
    columns, touched = kept.handed, kept.touched
    handed = None if columns is None else HandedLines(**{name: np.array(columns[name], kind) for name, kind in _COLUMNS.items()})
    if touched is None:
        return KnownLines(None, handed)
    whole = dict.fromkeys(("serial", "number", "block"), pl.UInt32)
    touches = None if touched.touches is None else pl.DataFrame(touched.touches, schema_overrides=whole)
    return KnownLines(TouchedLines(touched.lines, touches, touched.spins), handed)

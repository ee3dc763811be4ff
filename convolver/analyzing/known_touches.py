"""Lines that threads touch, found out once of each trace: they are the same on all machines."""

from __future__ import annotations

from typing import Any

import msgspec

from convolver.analyzing.analysis_store import find_bytes, keep_bytes
from convolver.heavy import pl
from convolver.tracing.reader import Trace
from convolver.tracing.spin_loops import SpinLoop
from convolver.tracing.touched_lines import TouchedLine, TouchedLines, touched_lines

_WHAT = "touches.msgpack"


class _Kept(msgspec.Struct):
    lines: list[TouchedLine]
    touches: dict[str, list[Any]] | None
    spins: list[SpinLoop]


def known_touches(trace: Trace) -> TouchedLines | None:
    """Return what :func:`convolver.tracing.touched_lines.touched_lines` does, from the store of analyses where it is there."""
    content = find_bytes(trace.id, _WHAT) if trace.id else None
    if content is not None:
        return _restored(msgspec.msgpack.decode(content, type=_Kept | None))
    found = touched_lines(trace)
    if trace.id:
        keep_bytes(trace.id, _WHAT, msgspec.msgpack.encode(_kept(found)))
    return found


def _kept(found: TouchedLines | None) -> _Kept | None:
    if found is None:
        return None
    return _Kept(found.lines, None if found.touches is None else found.touches.to_dict(as_series=False), found.spins)


def _restored(kept: _Kept | None) -> TouchedLines | None:
    if kept is None:
        return None
    whole = dict.fromkeys(("serial", "number", "block"), pl.UInt32)
    touches = None if kept.touches is None else pl.DataFrame(kept.touches, schema_overrides=whole)
    return TouchedLines(kept.lines, touches, kept.spins)

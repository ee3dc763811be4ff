"""Lines that threads touch and hand over, found out once of each trace: they are the same on all machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from convolver.analyzing.analysis_store import find_bytes, keep_bytes
from convolver.heavy import pl
from convolver.simulation.handed_lines import HandedLines, handed_lines
from convolver.tracing.reader import Trace
from convolver.tracing.spin_loops import SpinLoop
from convolver.tracing.touched_lines import TouchedLine, TouchedLines, touched_lines

_WHAT, _HANDED = "touches.msgpack", "handed.msgpack"
_COLUMNS = {"block": np.uint32, "kind": np.uint8, "own": np.float64, "other": np.float64, "count": np.float64}


class _Kept(msgspec.Struct):
    lines: list[TouchedLine]
    touches: dict[str, list[Any]] | None
    spins: list[SpinLoop]


def known_touches(trace: Trace) -> TouchedLines | None:
    """Return what :func:`convolver.tracing.touched_lines.touched_lines` does, from the store of analyses where it is there."""
    return _restored(_known(trace, _WHAT, _Kept | None, lambda: _kept(touched_lines(trace))))


def known_handed(trace: Trace) -> HandedLines | None:
    """Return what :func:`convolver.simulation.handed_lines.handed_lines` does, from the store of analyses where it is there."""
    columns = _known(trace, _HANDED, dict[str, list[float]] | None, lambda: _columns(handed_lines(trace)))
    return None if columns is None else HandedLines(**{name: np.array(columns[name], kind) for name, kind in _COLUMNS.items()})


def _known(trace: Trace, what: str, kind: Any, find: Callable[[], Any]) -> Any:
    """Return a value of a ``kind`` that the store has of a trace, else what ``find`` returns, which it keeps."""
    content = find_bytes(trace.id, what) if trace.id else None
    if content is not None:
        return msgspec.msgpack.decode(content, type=kind)
    found = find()
    if trace.id:
        keep_bytes(trace.id, what, msgspec.msgpack.encode(found))
    return found


def _columns(found: HandedLines | None) -> dict[str, list[float]] | None:
    return None if found is None else {name: getattr(found, name).tolist() for name in _COLUMNS}


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

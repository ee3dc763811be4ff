"""The tracer's counter file: exact execution counts in shared memory that survives the tracer's death (cv_wire.h)."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

from convolver.errors import TracerError

MAGIC = 0x31525443564E4F43
OFFSET = 4096
_HEADER = struct.Struct("<QQQQq")
_EVERY = struct.Struct("<QQQ")


def read_counters(path: Path) -> bytes:
    """Return the counters in use, 8 bytes little-endian each; raises :class:`TracerError` when the file is not the tracer's."""
    try:
        with open(path, "rb") as file:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size or _HEADER.unpack(header)[0] != MAGIC:
                raise TracerError("The tracer left no counters: it was killed while it started; trace again.")
            used = _HEADER.unpack(header)[2]
            file.seek(OFFSET)
            return file.read(used * 8)
    except OSError as error:
        raise TracerError(f"The tracer's counters cannot be read: {error.strerror}; trace again.") from error


def counters_so_far(path: Path) -> bytes:
    """Return the counters in use, none while the tracer has not begun, which takes seconds on a busy machine."""
    with contextlib.suppress(TracerError):
        return read_counters(path)
    return b""


def thin_out(path: Path, bursts: int, stretches: int, sets: int) -> None:
    """Tell the tracer what to record from now on; nothing is sent to one that is gone.

    One of ``bursts`` intervals has a burst, one of ``stretches`` begins a stretch of set samples, which hold 1/``sets`` of all.
    """
    with contextlib.suppress(OSError), open(path, "r+b", buffering=0) as file:
        file.seek(_HEADER.size)
        file.write(_EVERY.pack(bursts, stretches, sets))

"""The tracer's counter file: exact execution counts in shared memory that survives the tracer's death (cv_wire.h)."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from convolver._native.trace_decoder import COUNTERS, COUNTERS_EVERY, COUNTERS_MAGIC, COUNTERS_OFFSET
from convolver.errors import TracerError


def read_counters(path: Path) -> bytes:
    """Return the counters in use, 8 bytes little-endian each; raises :class:`TracerError` when the file is not the tracer's."""
    try:
        with open(path, "rb") as file:
            header = np.frombuffer(file.read(COUNTERS.itemsize).ljust(COUNTERS.itemsize, b"\0"), COUNTERS)[0]
            if header["magic"] != COUNTERS_MAGIC:
                raise TracerError("The tracer left no counters: it was killed while it started; trace again.")
            file.seek(COUNTERS_OFFSET)
            return file.read(int(header["used"]) * 8)
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
        file.seek(COUNTERS_EVERY)
        file.write(np.array((bursts, stretches, sets), "<u8").tobytes())


def thinned_by_tracer(path: Path) -> tuple[int, int]:
    """Return how seldom the tracer itself begins bursts and stretches, where they cost too much; 0, 0: as it is asked to."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        content = file.read(COUNTERS.itemsize)
        if len(content) == COUNTERS.itemsize:
            bursts, stretches = np.frombuffer(content, COUNTERS)[0]["own"]
            return int(bursts), int(stretches)
    return 0, 0

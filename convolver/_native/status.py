"""Turns a status code of the C core into an exception."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any

from convolver._native._core import ffi, lib
from convolver.errors import ConvolverError, FormatError, SimulationError

_CLASSES: dict[int, type[Exception]] = {
    lib.CV_ERROR_MEMORY: MemoryError,
    lib.CV_ERROR_ARGUMENT: SimulationError,
    lib.CV_ERROR_FORMAT: FormatError,
    lib.CV_ERROR_IO: ConvolverError,
    lib.CV_ERROR_LIMIT: SimulationError,
}


STDERR = 2
_ABORTS = RLock()
_interruptions: list[BaseException] = []


def keep_error(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
    """Let :func:`check` raise what a function that C called raised, where C ends with ``CV_ERROR_INTERRUPTED``."""
    _interruptions.append(error)


@ffi.def_extern(error=1, onerror=keep_error)
def cv_python_interrupts() -> int:
    """Let Python call the handlers of signals that came while the C core was running, which it does as a function begins."""
    return 0


lib.cv_ask_for_interrupts(lib.cv_python_interrupts)


def owned(handle: Any, free: Any) -> Any:
    """Return a new handle of the C core, which ``free`` frees when nobody holds it; raises :class:`MemoryError` for NULL."""
    if handle == ffi.NULL:
        raise MemoryError
    return ffi.gc(handle, free)


@contextmanager
def _held_stderr() -> Iterator[int]:
    """Hold back what is written to stderr, and drop it where an exception comes; gives a descriptor of stderr itself."""
    try:
        stderr = os.dup(STDERR)
    except OSError:  # it is closed
        yield STDERR
        return
    kept = b""
    with open(os.memfd_create("stderr"), "r+b", buffering=0) as held:
        os.dup2(held.fileno(), STDERR)
        try:
            yield stderr
            held.seek(0)
            kept = held.read()
        finally:
            os.dup2(stderr, STDERR)
            with suppress(OSError):
                os.write(stderr, kept)
            os.close(stderr)


@contextmanager
def abort_says(sentence: str, status: int) -> Iterator[None]:
    """Let ``abort()`` write a sentence and end the process with an exit status.

    What a library writes to stderr before it aborts or raises is dropped: polars' threads tell of their panics there.
    """
    with _ABORTS, _held_stderr() as stderr:  # one thread at a time: descriptor and sentence are the process's
        lib.cv_abort_says(sentence.encode(), status, stderr)
        try:
            yield
        finally:
            lib.cv_abort_says(ffi.NULL, 0, stderr)


def check(status: int, what: str) -> None:
    """Raise the exception of a status other than ``CV_OK``; ``what`` says what was being done."""
    if status == lib.CV_ERROR_INTERRUPTED:
        raise _interruptions.pop()
    if status != lib.CV_OK:
        message = ffi.string(lib.cv_status_message(status)).decode()
        raise _CLASSES.get(status, ConvolverError)(f"{what}: {message}.")

"""Turns a status code of the C core into an exception."""

from __future__ import annotations

from convolver._native._core import ffi, lib
from convolver.errors import ConvolverError, FormatError, SimulationError

_CLASSES: dict[int, type[Exception]] = {
    lib.CV_ERROR_MEMORY: MemoryError,
    lib.CV_ERROR_ARGUMENT: SimulationError,
    lib.CV_ERROR_FORMAT: FormatError,
    lib.CV_ERROR_IO: ConvolverError,
    lib.CV_ERROR_LIMIT: SimulationError,
}


def check(status: int, what: str) -> None:
    """Raise the exception of a status other than ``CV_OK``; ``what`` says what was being done."""
    if status != lib.CV_OK:
        message = ffi.string(lib.cv_status_message(status)).decode()
        raise _CLASSES.get(status, ConvolverError)(f"{what}: {message}.")

"""Marks in a Python program of the part that is to be traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def marked() -> Iterator[None]:
    """Mark the body of a ``with`` block for ``convolver trace --start-at marker --stop-at marker``, as CONVOLVER_START and
    CONVOLVER_STOP of convolver_markers.h do in C; elsewhere it does nothing. Blocks may follow one another::

        with convolver.marked():
            solve()
    """
    from convolver._native._core import lib

    lib.cv_mark_start()
    try:
        yield
    finally:
        lib.cv_mark_stop()

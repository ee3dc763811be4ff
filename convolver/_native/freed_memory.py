"""Memory that was freed."""

from __future__ import annotations

from convolver._native._core import lib


def give_back_memory() -> None:
    """Give pages that nobody uses back to the system: the C library keeps those of many threads."""
    lib.cv_give_back_memory()

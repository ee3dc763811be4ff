"""The progress protocol: the library reports, the command line draws."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """What long-running functions call while they work."""

    def start(self, label: str, total: float | None = None, unit: str = "") -> None:
        """Begin a step; ``total`` is in the unit of :meth:`advance`, or None where unknown; with a ``unit`` its rate is shown."""

    def advance(self, amount: float, note: str = "") -> None:
        """Report that ``amount`` more of the current step is done."""

    def finish(self) -> None:
        """End the current step."""


@contextmanager
def step(progress: Progress, label: str, total: float | None = None, unit: str = "") -> Iterator[None]:
    """Return a context that is one step; it ends with its body, whatever ends that."""
    progress.start(label, total, unit)
    try:
        yield
    finally:
        progress.finish()


class _Silent:
    def start(self, label: str, total: float | None = None, unit: str = "") -> None:
        pass

    def advance(self, amount: float, note: str = "") -> None:
        pass

    def finish(self) -> None:
        pass


SILENT: Progress = _Silent()
"""Reports nothing: the default everywhere in the library."""

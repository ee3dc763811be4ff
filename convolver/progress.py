"""The progress protocol: the library reports, the command line draws."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """What long-running functions call while they work."""

    def start(self, label: str, total: float | None = None, unit: str = "") -> None:
        """Begin a step; ``total`` is in the unit of :meth:`advance`, or None where unknown; with a ``unit`` its rate is shown."""

    def advance(self, amount: float, note: str = "") -> None:
        """Report that ``amount`` more of the current step is done."""

    def finish(self) -> None:
        """End the current step."""


class _Silent:
    def start(self, label: str, total: float | None = None, unit: str = "") -> None:
        pass

    def advance(self, amount: float, note: str = "") -> None:
        pass

    def finish(self) -> None:
        pass


SILENT: Progress = _Silent()
"""Reports nothing: the default everywhere in the library."""

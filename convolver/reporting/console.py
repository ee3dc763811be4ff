"""The consoles and the progress bar: data on stdout, everything else on stderr; bars only on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from convolver.progress import SILENT, Progress

if TYPE_CHECKING:
    from rich.console import Console


def out() -> Console:
    """Return a console on stdout (``NO_COLOR`` and pipes are respected by rich)."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)


class _Bar:
    """Draws one step at a time as a rich progress bar with rate and remaining time."""

    def __init__(self) -> None:
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: progress.TaskID | None = None

    def start(self, label: str, total: float | None = None) -> None:
        self.finish()
        self._bar.start()
        self._task = self._bar.add_task(label, total=total, note="")

    def advance(self, amount: float, note: str = "") -> None:
        if self._task is not None:
            self._bar.update(self._task, advance=amount, note=note)

    def finish(self) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None
            self._bar.stop()


def terminal_progress() -> Progress:
    """Return a progress bar on stderr when it is a terminal, else silence."""
    return _Bar() if sys.stderr.isatty() else SILENT

"""The consoles and the progress bar: data on stdout, everything else on stderr; bars only on a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from convolver.progress import SILENT, Progress
from convolver.reporting.grid import fit
from convolver.units import format_bytes, format_count

if TYPE_CHECKING:
    from rich.console import Console

LEAST_SECONDS = 0.1
"""No rate is shown before this time: it would be noise."""


def out() -> Console:
    """Return a console on stdout (``NO_COLOR`` and pipes are respected by rich) that prints names and arguments as they are.

    A table that is too wide for the terminal is cut as :func:`convolver.reporting.grid.fit` does; then its lines wrap. Sentences
    wrap on a terminal alone.
    """
    from rich.console import Console
    from rich.table import Table

    class Whole(Console):
        def print(self, *objects: Any, **how: Any) -> None:
            usual = self.width
            if not self.is_terminal and isinstance(objects[:1] and objects[0], str):
                how.setdefault("soft_wrap", True)
            self.width = max([usual, *(fit(one, self) for one in objects if isinstance(one, Table))])
            super().print(*objects, **how)
            self.width = usual

        def on_broken_pipe(self) -> None:
            raise  # rich alone would end with status 1; who runs the command line ends it by SIGPIPE

    return Whole(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 160, height=25)


class _Bar:
    """Draws one step at a time as a rich progress bar with rate and remaining time."""

    def __init__(self) -> None:
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[rate]}", markup=False),
            progress.TextColumn("{task.fields[note]}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: progress.TaskID | None = None

    def start(self, label: str, total: float | None = None, unit: str = "") -> None:
        self.finish()
        self._bar.start()
        self._unit, self._began, self._done = unit, time.monotonic(), 0.0
        self._task = self._bar.add_task(label, total=total, note="", rate="")

    def advance(self, amount: float, note: str = "") -> None:
        if self._task is not None:
            self._done += amount
            self._bar.update(self._task, advance=amount, note=note, rate=self._rate())

    def _rate(self) -> str:
        """Return the rate since the start of the step, such as ``12.3 M references/s``."""
        seconds = time.monotonic() - self._began
        if not self._unit or seconds < LEAST_SECONDS:
            return ""
        rate = self._done / seconds
        return f"{format_bytes(rate)}/s" if self._unit == "bytes" else f"{format_count(rate)} {self._unit}/s"

    def finish(self) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None
            self._bar.stop()


def terminal_progress() -> Progress:
    """Return a progress bar on stderr when it is a terminal, else silence."""
    return _Bar() if sys.stderr.isatty() else SILENT

"""Native runs of a command: how long it really takes, without any tracing."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from convolver.errors import TracerError
from convolver.progress import SILENT, Progress
from convolver.tracing.preflight import check_command


@dataclass(frozen=True)
class Measurement:
    """Repeated native runs: wall-clock and processor (user + system) seconds of each, and the last exit status."""

    wall_seconds: tuple[float, ...]
    processor_seconds: tuple[float, ...]
    exit_status: int

    @property
    def seconds(self) -> float:
        """Median of the processor seconds: what a prediction is compared with.

        A prediction knows nothing of other programs that take the processor away, nor of waiting for files, so wall-clock time
        would measure the neighbours too.
        """
        return median(self.processor_seconds)

    def to_document(self) -> dict[str, object]:
        """Return all runs as a JSON-able document."""
        return {
            "seconds": self.seconds,
            "wall_seconds": list(self.wall_seconds),
            "processor_seconds": list(self.processor_seconds),
            "exit_status": self.exit_status,
        }


def measure(argv: Sequence[str], *, runs: int = 3, progress: Progress = SILENT) -> Measurement:
    """Run a command ``runs`` times with its input and outputs closed off and return the times.

    Raises :class:`UsageError` for a command that does not exist and :class:`TracerError` for one that cannot be started.
    """
    argv = check_command(argv)
    progress.start(f"Running {os.path.basename(argv[0])} natively", total=runs)
    try:
        times = []
        for _ in range(runs):
            times.append(_once(argv))
            progress.advance(1)
    finally:
        progress.finish()
    return Measurement(tuple(wall for wall, _, _ in times), tuple(cpu for _, cpu, _ in times), times[-1][2])


def _once(argv: Sequence[str]) -> tuple[float, float, int]:
    before = time.perf_counter()
    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError as error:
        raise TracerError(f"The command '{argv[0]}' could not be started: {error.strerror}.") from error
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - before
    return wall, processor_seconds(usage), process.returncode


def processor_seconds(usage: resource.struct_rusage) -> float:
    """Return user + system seconds."""
    return usage.ru_utime + usage.ru_stime

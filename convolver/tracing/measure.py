"""Native runs of a command: how long it really takes, without any tracing."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

from convolver.child_processes import interrupted_later
from convolver.errors import NoiseWarning, TracerError
from convolver.progress import SILENT, Progress, step
from convolver.tracing.launch import inherited_environment, input_again
from convolver.tracing.preflight import check_command

_DISTURBED_SPREAD = 0.15
_DISTURBED_SECONDS = 0.01
"""Processor seconds may differ by this share of the median, or by this much, between runs of an undisturbed program."""
_MORE_SECONDS = 5.0
_MORE_TIMES = 3
"""Where they differ more, further runs are started for so long, up to so many times the runs that were asked for."""


_START_SECONDS = 0.001
"""Elapsed time that the start of a process takes on its own."""


class _Run(NamedTuple):
    wall: float
    processor: float
    queued: float
    children: float
    status: int


@dataclass(frozen=True)
class Measurement:
    """Repeated native runs: wall-clock and processor (user + system) seconds of each, and the last exit status."""

    wall_seconds: tuple[float, ...]
    processor_seconds: tuple[float, ...]
    exit_status: int
    wanted: int = 3
    """How many runs were asked for; there are more where those differed."""
    queued_seconds: tuple[float, ...] = ()
    """How long the main thread of each run was ready while others had the processor; empty where the kernel does not tell."""
    cpus: int = 1
    """On how many the runs could be."""
    children_seconds: tuple[float, ...] = ()
    """Processor seconds of each run that processes have which the command started, in ticks of the kernel's clock."""

    @property
    def seconds(self) -> float:
        """Median of the processor seconds of the ``wanted`` shortest runs: what a prediction is compared with.

        A prediction knows nothing of other programs that take the processor away, nor of waiting for files, so wall-clock time
        would measure other VMs too; and of those on the core, which only add time, as little as the probe does, which
        keeps its shortest samples.
        """
        return median(self._shortest)

    @property
    def waiting_seconds(self) -> float | None:
        """Elapsed time in which a program of one process and thread did not want the processor, in the run with the least of it;
        None where that is not known."""
        runs = zip(self.wall_seconds, self.processor_seconds, self.queued_seconds, strict=False)
        least = min((wall - processor - queued for wall, processor, queued in runs), default=None)
        return None if least is None else max(least - _START_SECONDS, 0.0)

    @property
    def queued_share(self) -> float:
        """Share of the elapsed time of all runs in which other programs had the processor."""
        return sum(self.queued_seconds) / sum(self.wall_seconds) if sum(self.wall_seconds) else 0.0

    @property
    def children_share(self) -> float:
        """Share of the processor seconds that processes have which the command started."""
        whole = sum(self.processor_seconds)
        return sum(self.children_seconds) / whole if whole else 0.0

    @property
    def _shortest(self) -> list[float]:
        return sorted(self.processor_seconds)[: self.wanted]

    @property
    def disturbed(self) -> bool:
        """Whether the runs that count differ by more than those of one program on a quiet machine do."""
        range_seconds = max(self._shortest) - min(self._shortest)
        return range_seconds > max(_DISTURBED_SPREAD * self.seconds, _DISTURBED_SECONDS)

    def to_document(self) -> dict[str, object]:
        """Return all runs as a JSON-able document."""
        return {
            "seconds": self.seconds,
            "wall_seconds": list(self.wall_seconds),
            "processor_seconds": list(self.processor_seconds),
            "queued_seconds": list(self.queued_seconds),
            "exit_status": self.exit_status,
            "cpus": self.cpus,
        }


def measure(argv: Sequence[str], *, runs: int = 3, progress: Progress = SILENT) -> Measurement:
    """Run a command ``runs`` times, more often where the runs differ, and return the times.

    Its outputs are closed off; each run has the same input (:func:`convolver.tracing.launch.input_again`).
    Raises :class:`UsageError` for a command that does not exist and :class:`TracerError` for one that cannot be started; warns
    with :class:`NoiseWarning` where the runs differ by more than a quiet machine makes them.
    """
    argv = check_command(argv, scan=False)
    with step(progress, f"Running {os.path.basename(argv[0])} natively", total=runs):
        times = []
        for _ in range(runs):
            times.append(_once(argv))
            progress.advance(1)
        end = time.monotonic() + _MORE_SECONDS
        while (found := _of(times, runs)).disturbed and len(times) < _MORE_TIMES * runs and time.monotonic() < end:
            times.append(_once(argv))
    if found.disturbed:
        warnings.warn(
            f"The {len(times)} native runs took {min(found.processor_seconds):.3g} to {max(found.processor_seconds):.3g} s: "
            "something disturbed them, or the program does not always do the same. The error of the prediction holds that, too.",
            NoiseWarning,
            stacklevel=2,
        )
    return found


def _of(runs: Sequence[_Run], wanted: int) -> Measurement:
    wall, processor, queued, children, status = zip(*runs, strict=True)
    known = not any(math.isnan(one) for one in queued)
    return Measurement(wall, processor, status[-1], wanted, queued if known else (), len(os.sched_getaffinity(0)), children)


def _once(argv: Sequence[str]) -> _Run:
    with input_again() as stdin:
        before = time.perf_counter()
        try:
            with interrupted_later() as catch_up:
                process = subprocess.Popen(
                    argv, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=inherited_environment()
                )
        except OSError as error:
            raise TracerError(f"The command '{argv[0]}' could not be started: {error.strerror}.") from error
        try:
            catch_up()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        except BaseException:  # Ctrl-C or another end of this process: the program goes with it
            process.kill()
            process.wait()
            raise
        wall = time.perf_counter() - before
    queued, children = _queued(process.pid), _children(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return _Run(wall, processor_seconds(usage), queued, children, process.returncode)


def _queued(pid: int) -> float:
    """Return for how long the main thread of a process that ended, but was not waited for, stood in a queue for a processor; nan
    where the kernel does not tell."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return math.nan


def _children(pid: int) -> float:
    """Return the processor seconds of the processes that one started and waited for; it ended, but was not waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()  # from the third one on
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def processor_seconds(usage: resource.struct_rusage) -> float:
    """Return user + system seconds."""
    return usage.ru_utime + usage.ru_stime

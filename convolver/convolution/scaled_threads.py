"""Elapsed times of a program on several numbers of cores: from one trace, or from one a number of threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from convolver.analyzing.analyze import analyze
from convolver.convolution.block_times import BlockTimes, without_draws
from convolver.convolution.convolve import convolve
from convolver.convolution.elapsed import of_one_thread
from convolver.convolution.elapsed_replay import ThreadReplay
from convolver.machine.profile import MachineProfile
from convolver.progress import SILENT, Progress
from convolver.tracing.reader import Trace


class ThreadScaling:
    """A program's elapsed times by the number of cores; ``anew`` are traces of it with as many threads as their key says."""

    def __init__(
        self,
        threads: ThreadReplay | None,
        anew: Mapping[int, Trace],
        machines: Sequence[MachineProfile],
        progress: Progress = SILENT,
    ) -> None:
        self._threads = threads
        self._anew = {
            count: (analyze(trace, machines, progress=progress), ThreadReplay.of(trace)) for count, trace in anew.items()
        }

    def on(
        self, cores: int, machine: MachineProfile, times: BlockTimes, method: str, overlap: str, pinning: str | None = None
    ) -> dict[str, Any]:
        """Return the replay on so many cores as a document; ``times`` are the machine's for the program's own trace."""
        threads = self._threads
        if cores in self._anew:
            analysis, threads = self._anew[cores]
            times = convolve(analysis, machine, method=method, overlap=overlap)
        found = of_one_thread(times, cores) if threads is None else threads.on(machine, times, cores=cores, pinning=pinning)
        return without_draws(found.document())

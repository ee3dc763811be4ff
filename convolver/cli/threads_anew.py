"""``predict --scaling`` of a command: it is traced anew with each number of threads, where the program does as it is asked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from convolver.cli.common import new_file, say
from convolver.progress import Progress
from convolver.tracing.launch import closed_off, threads_asked
from convolver.tracing.reader import Trace
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace
from convolver.tracing.writer import signature_path

PLACE = "{threads}"
"""Stands for the number of threads in the words of a command."""


class ThreadsAnew:
    """A command and the numbers of threads that it is to run with."""

    def __init__(self, words: Sequence[str], counts: Sequence[int]) -> None:
        self._words, self._counts = list(words), sorted(set(counts), reverse=True)
        self._placed = bool(counts) and any(PLACE in word for word in words)
        self.usual = len(os.sched_getaffinity(0))

    def words(self, count: int) -> list[str]:
        """Return the words of a run with so many threads."""
        return [word.replace(PLACE, str(count)) for word in self._words] if self._placed else self._words

    def paths(self, folder: Path, stem: str, force: bool) -> dict[int, Path]:
        """Return the traces to make; raises :class:`UsageError` for one that is there and may not be replaced."""
        found = {count: folder / f"{stem}.{count}-threads.cvt" for count in self._counts if count != self.usual}
        for path in found.values():
            new_file(signature_path(new_file(path, force)), force)
        return found

    def record(self, usual: Trace, paths: Mapping[int, Path], plan: SamplingPlan, progress: Progress) -> dict[int, Trace]:
        """Trace with each number of threads; only the first, where the program has as many threads as in its usual run."""
        made: dict[int, Trace] = {}
        for count, path in paths.items():
            with closed_off(), _asked_for(count):
                found = trace(self.words(count), output=path, sampling=plan, progress=progress)
            if not made and not self._placed and _threads(found) == _threads(usual):
                say("The program runs as many threads whatever it is asked for: its one trace answers for all numbers of cores.")
                return {}
            made[count] = found
        return made


@contextmanager
def _asked_for(count: int) -> Iterator[None]:
    """Ask the programs that are run meanwhile for so many threads, where the environment does not say."""
    asked = threads_asked(count)
    os.environ.update(asked)
    try:
        yield
    finally:
        for name in asked:
            del os.environ[name]


def _threads(traced: Trace) -> int:
    return 1 if traced.thread_log is None else traced.thread_log.threads

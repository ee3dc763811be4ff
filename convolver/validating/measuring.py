"""Native runs of a whole campaign, interleaved: every round runs every program under every condition once.

So a drift of the machine's speed reaches all of them alike. Each run is kept in a file as it ends; an interrupted campaign goes
on behind the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from convolver.errors import ConvolverError, FormatError
from convolver.progress import SILENT, Progress
from convolver.validating.campaign import Condition, Job
from convolver.validating.running import Run, control_group, hogs, run_once


class Runs:
    """The runs of a campaign, in a file with one JSON object a line."""

    def __init__(self, path: Path) -> None:
        """Read what an earlier campaign left in the file; a line that a crash cut off is dropped."""
        self._path = path
        self.all: list[Run] = []
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    self.all.append(msgspec.json.decode(line, type=Run))
                except msgspec.MsgspecError:
                    continue

    def add(self, run: Run) -> None:
        """Keep a run; raises :class:`FormatError` on a full disk."""
        self.all.append(run)
        try:
            with self._path.open("a") as file:
                file.write(msgspec.json.encode(run).decode() + "\n")
        except OSError as error:
            raise FormatError(f"{self._path} cannot be written: {error.strerror}.") from error

    def of(self, job: Job, condition: Condition) -> list[Run]:
        """Return the successful runs of a job under a condition."""
        return [run for run in self.all if run.job == job.key and run.condition == condition.name and run.status == job.status]

    def tried(self, job: Job, condition: Condition, number: int) -> bool:
        """Tell whether this round's run was made, whatever came of it."""
        return any(run.job == job.key and run.condition == condition.name and run.round == number for run in self.all)


def measure_all(
    jobs: Sequence[Job], conditions: Sequence[Condition], rounds: int, runs: Runs, cpu: int, progress: Progress = SILENT
) -> dict[str, str]:
    """Make all runs that are missing; returns why a condition could not be had, by its name."""
    refused: dict[str, str] = {}
    local = [condition for condition in conditions if not condition.profile]
    missing = sum(not runs.tried(job, one, number) for job in jobs for one in local for number in range(rounds))
    progress.start("running natively", float(missing))
    try:
        for number in range(rounds):
            for condition in local:
                if condition.name in refused:
                    continue
                todo = [job for job in jobs if not runs.tried(job, condition, number)]
                try:
                    _round(todo, condition, number, runs, cpu, progress)
                except ConvolverError as error:
                    refused[condition.name] = str(error)
    finally:
        progress.finish()
    return refused


def _round(jobs: Sequence[Job], condition: Condition, number: int, runs: Runs, cpu: int, progress: Progress) -> None:
    if not jobs:
        return
    with ExitStack() as stack:
        group = stack.enter_context(control_group(condition))
        stack.enter_context(hogs(condition, cpu))
        for job in jobs:
            runs.add(run_once(job, condition, number, cpu, group))
            progress.advance(1.0, f"{job.name} under {condition.name}")

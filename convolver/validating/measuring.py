"""Native runs of a whole campaign, interleaved: every round runs every program once under each condition, one after another.

So a drift of the machine's speed reaches all conditions of a program alike, and its runs of one round can be compared as a
pair. A run waits until its core is alone (:mod:`convolver.validating.sharing`); where too few were, the program gets more rounds.
Each run is kept in a file as it ends; an interrupted campaign goes on after the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from convolver.errors import ConvolverError
from convolver.outputs import append_line, open_kept
from convolver.progress import SILENT, Progress, step
from convolver.validating.campaign import Condition, Job
from convolver.validating.running import NativeRun, background_load, control_group, cpus_of, run_once
from convolver.validating.runs_that_count import chosen_runs, undisturbed
from convolver.validating.sharing import wait_until_alone, watched
from convolver.validating.warming import warm_huge_pages

VISITS_A_ROUND = 2
"""How often the machine is probed in each of a campaign's rounds; once more at the end."""
TRIES = 3
"""Runs of a program under a condition in one round, at most, until one went undisturbed: half of them may meet a co-runner on the
core, and a pair of conditions counts only where both did not."""
REPEATED_ROUNDS = 1
"""Rounds that are made more at most, of programs with fewer undisturbed runs than were asked for."""


class CampaignRuns:
    """The runs of a campaign, in a file with one JSON object a line."""

    def __init__(self, path: Path) -> None:
        """Read what an earlier campaign left in the file; a line that a crash cut off is dropped."""
        self._path = path
        self.all: list[NativeRun] = []
        if path.exists():
            with open_kept(path) as file:
                lines = file.readlines()
            for line in lines:
                try:
                    self.all.append(msgspec.json.decode(line, type=NativeRun))
                except (msgspec.MsgspecError, RecursionError):
                    continue

    def add(self, run: NativeRun) -> None:
        """Keep a run; raises :class:`FormatError` on a full disk."""
        self.all.append(run)
        append_line(self._path, msgspec.json.encode(run))

    def of(self, job: Job, condition: Condition) -> list[NativeRun]:
        """Return the successful runs of a job under a condition."""
        return [run for run in self.all if run.job == job.key and run.condition == condition.name and run.status == job.status]

    def counting(self, job: Job, condition: Condition) -> Sequence[NativeRun]:
        """Return those of them that count (:func:`chosen_runs`)."""
        return chosen_runs(self.of(job, condition), self.alone(condition))

    def tried(self, job: Job, condition: Condition, number: int) -> bool:
        """Tell whether this round's run was made, whatever came of it."""
        return any(run.job == job.key and run.condition == condition.name and run.round == number for run in self.all)

    def alone(self, condition: Condition) -> float:
        """Return the cycles of an instruction with the core alone: the least seen under a condition; 0 where nobody looked."""
        looked = (run.witness_cycles for run in self.all if run.condition == condition.name)
        return min((cycles for cycles in looked if cycles > 0), default=0.0)

    def peak_bytes(self, job: Job) -> int:
        """Return the most memory that a run of a job was seen to take; 0 before the first."""
        return max((run.peak_bytes for run in self.all if run.job == job.key), default=0)

    def lacks(self, job: Job, condition: Condition, wanted: int) -> bool:
        """Tell whether fewer than the wanted runs went undisturbed, though runs end well."""
        good, alone = self.of(job, condition), self.alone(condition)
        return bool(good) and sum(undisturbed(run, alone) for run in good) < wanted


def measure_all(
    jobs: Sequence[Job],
    conditions: Sequence[Condition],
    rounds: int,
    runs: CampaignRuns,
    cpu: int,
    progress: Progress = SILENT,
    *,
    repeated: int = 0,
    tries: int = 1,
    visit: Callable[[int], dict[str, str]] = lambda number: {},
) -> dict[str, str]:
    """Make the runs that are missing, each up to ``tries`` times until one goes undisturbed, and up to ``repeated`` rounds more
    of programs that lack such runs; returns why a condition could not be had, by its name.

    ``visit`` is called :data:`VISITS_A_ROUND` times a round, evenly among the jobs, and after the last run, with numbers from 0
    up; it says which conditions cannot be had.
    """
    refused: dict[str, str] = {}
    here = [condition for condition in conditions if not condition.profile]
    possible = {job.key: [one for one in here if cpus_of(job, one, cpu)] for job in jobs}
    missing = sum(not runs.tried(job, one, number) for job in jobs for one in possible[job.key] for number in range(rounds))
    with step(progress, "running natively", float(missing)):
        for number in range(rounds + repeated):
            for index, job in enumerate(jobs):
                local = possible[job.key]
                if number < rounds and (due := _visit_due(index, len(jobs))) is not None:
                    refused.update(visit(number * VISITS_A_ROUND + due))
                if number < rounds or any(runs.lacks(job, one, rounds) for one in local):
                    _pair(job, [one for one in local if one.name not in refused], number, runs, cpu, refused, tries)
                if number < rounds:
                    progress.advance(float(len(local)), job.name)
        refused.update(visit(rounds * VISITS_A_ROUND))
    return refused


def _visit_due(index: int, jobs: int) -> int | None:
    """Return which of a round's visits comes before its job ``index``; None for most jobs."""
    first = [part * jobs // VISITS_A_ROUND for part in range(VISITS_A_ROUND)]
    return first.index(index) if index in first else None


def _pair(
    job: Job, conditions: Sequence[Condition], number: int, runs: CampaignRuns, cpu: int, refused: dict[str, str], tries: int
) -> None:
    """Run a program once under each condition where that was not done; notes conditions that cannot be had."""
    for condition in conditions:
        if runs.tried(job, condition, number):
            continue
        try:
            for _ in range(tries):
                runs.add(run := _run(job, condition, number, runs, cpu))
                if run.status != job.status or undisturbed(run, runs.alone(condition)):
                    break
        except ConvolverError as error:
            refused[condition.name] = str(error)


def _run(job: Job, condition: Condition, number: int, runs: CampaignRuns, cpu: int) -> NativeRun:
    with control_group(condition) as group, background_load(condition, cpu):
        if condition.pages == "thp":
            warm_huge_pages(runs.peak_bytes(job))
        before = wait_until_alone(cpu, runs.alone(condition))
        with watched(cpu) as seen:
            run = run_once(job, condition, number, cpu, group)
    return msgspec.structs.replace(run, witness_cycles=round(seen.witness_cycles or before, 4))

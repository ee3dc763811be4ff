"""Native runs of a whole campaign, interleaved: every round runs every program once under each condition, one after another.

So a drift of the machine's speed reaches all conditions of a program alike, and its runs of one round can be compared as a
pair. A run waits until its core is alone (:mod:`convolver.validating.sharing`); where too few were, the program gets more rounds.
Each run is kept in a file as it ends; an interrupted campaign goes on after the last one.

While another VM's thread shares the core, a program goes on at a part of its speed. So the mean speed of a run falls in
proportion to the share of its time in which the core was shared, which the cycles of a taken branch show
(:mod:`convolver.validating.sharing`). A line through the speeds of many runs tells the speed at the cycles of a core alone, even
where no run had the core for itself all the time. The line is Theil's: the median of the slopes between pairs of runs.

Huge pages are touched before a run under a condition that asks for them: a hypervisor takes memory that its guest has left free
for seconds back and gives it again, 2 MiB at a time, at the first touch: a page that was not used lately costs 3 to 8 times as
much as one just given back. How long memory lay idle before a run is no property of the condition, and a probe finds memory that
it just used; so as much as the program takes is touched and given back right before the run.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median

import msgspec

from convolver.errors import ConvolverError
from convolver.outputs import append_line, open_kept
from convolver.progress import SILENT, Progress, step
from convolver.validating.campaign import Condition, Job
from convolver.validating.running import NativeRun, background_load, control_group, cpus_of, run_once
from convolver.validating.sharing import SHARED, SHARED_RUN, is_shared, wait_until_alone, watched

DISTURBED = 0.1
"""Share of all CPUs that others and the hypervisor may take during a run before it counts as disturbed."""
LEAST_UNDISTURBED = 5
"""So many runs on a core alone say more than a line through all of them."""
LEAST_PAIRS = 20
"""Of runs with clearly different sharing, for a line."""


def undisturbed(run: NativeRun, alone: float) -> bool:
    """Tell whether nothing disturbed a run: neither other programs nor a thread on the same core, whose taken branches take
    ``alone`` cycles by themselves (0: unknown)."""
    return _others_rested(run) and not is_shared(run.witness_cycles, alone, SHARED_RUN)


def chosen_runs(runs: Sequence[NativeRun], alone: float = 0.0) -> Sequence[NativeRun]:
    """Return the runs that count: the undisturbed ones; where these are few, all beside which no other program ran, with times
    as on a core alone where a line through their speeds tells them; else the one whose core was shared least.

    Predictions are for a machine as its probe found it, and a probe keeps its quietest samples, too. Among runs that nobody
    looked at, or with the same sharing, the shortest counts, since disturbances only add time.
    """
    kept = [run for run in runs if undisturbed(run, alone)]
    if len(kept) >= LEAST_UNDISTURBED:
        return kept
    return _as_alone(runs, alone) or kept or sorted(runs, key=lambda run: (run.witness_cycles, run.processor_seconds))[:1]


def _others_rested(run: NativeRun) -> bool:
    return run.others + run.steal <= DISTURBED


def _as_alone(runs: Sequence[NativeRun], alone: float) -> list[NativeRun]:
    """Return the runs beside which no other program ran, with their times on a core alone; none where no line tells them."""
    seen = [run for run in runs if _others_rested(run) and run.witness_cycles > 0 and run.processor_seconds > 0]
    slopes = [
        (1 / two.processor_seconds - 1 / one.processor_seconds) / (two.witness_cycles - one.witness_cycles)
        for one, two in combinations(seen, 2)
        if abs(two.witness_cycles - one.witness_cycles) > (SHARED - 1) * alone
    ]
    if not alone or len(slopes) < LEAST_PAIRS:
        return []
    slope = min(median(slopes), 0.0)  # sharing makes nothing faster
    return [_scaled(run, 1 / (1 - slope * (run.witness_cycles - alone) * run.processor_seconds)) for run in seen]


def _scaled(run: NativeRun, factor: float) -> NativeRun:
    times = {name: getattr(run, name) * factor for name in ("wall_seconds", "user_seconds", "system_seconds")}
    return msgspec.structs.replace(run, **times)


HUGE_PAGE = 2 << 20


def warm_huge_pages(size_bytes: int) -> int:
    """Touch and give back so many bytes of huge pages; returns the pages touched, 0 where this system has none."""
    advice, flags = getattr(mmap, "MADV_HUGEPAGE", None), getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
    pages = -(-size_bytes // HUGE_PAGE)
    if advice is None or pages < 1:
        return 0
    # One page more, since the mapping need not be aligned.
    with mmap.mmap(-1, (pages + 1) * HUGE_PAGE, flags=flags) as memory:
        try:
            memory.madvise(advice)
        except OSError:
            return 0
        for page in range(pages + 1):
            memory[page * HUGE_PAGE] = 1
    return pages + 1


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

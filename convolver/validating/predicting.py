"""The rows of a campaign's jobs, each traced, simulated and predicted, here or in other processes; CPU ratios of machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from convolver.analyzing.analyze import analyze
from convolver.analyzing.core_cycles import CoreCycles
from convolver.analyzing.program_analysis import Analysis
from convolver.convolution.block_times import BlockTimes
from convolver.convolution.choice import compared
from convolver.convolution.convolve import common_method
from convolver.convolution.elapsed_replay import ThreadReplay, times_on
from convolver.errors import ConvolverError
from convolver.fanout import Journal, run_missing
from convolver.heavy import pl
from convolver.machine.profile import MachineProfile
from convolver.progress import SILENT, Progress, step
from convolver.signature.block_columns import IDENTITY
from convolver.signature.signature import Signature
from convolver.tracing.reader import Trace
from convolver.units import listed
from convolver.validating.campaign import Campaign, Condition, Job, Mode
from convolver.validating.measuring import CampaignRuns
from convolver.validating.tracing import trace_job
from convolver.validating.validation_rows import measured_fields, paired_ratios, row, timed_by, waited_seconds, with_its_pages


def whole_machines(campaign: Campaign) -> list[Condition]:
    """Return the conditions that are machines and no state of one: the base, and those measured elsewhere."""
    return [one for one in campaign.condition if one.profile or one.name == campaign.base_name]


def pair_rows(
    job: Job,
    mode: Mode,
    method: str,
    machines: Sequence[Condition],
    times: Mapping[str, BlockTimes],
    measured: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return one row for each ordered pair of these machines with times and a measurement of the job.

    ``predicted`` and ``measured`` are seconds on ``base`` over seconds on ``target``; ``low`` and ``high`` the ends of the 90 %
    interval, None where the times have none.
    """
    names = [one.name for one in machines if one.name in times and one.name in measured]
    rows = []
    for base, target in permutations(names, 2):
        first, second = times[base], times[target]
        if first.ratio_to(second) is None:
            continue
        predicted, ends = compared(first, second)
        known = measured[base]["measured_seconds"] / measured[target]["measured_seconds"]
        low, high = ends or (None, None)
        row: dict[str, Any] = {"program": job.program, "input": job.input, "origin": job.origin, "mode": mode, "method": method}
        row |= {"base": base, "target": target, "predicted": predicted, "low": low, "high": high, "measured": known}
        rows.append({**row, "error": predicted / known - 1})
    return rows


METHODS: dict[str, dict[str, Any]] = {"model": {}, "paper": {"method": "paper"}}
"""The ways to predict that are compared, and what :func:`times_on` is asked for each."""


class JobRows(NamedTuple):
    """The rows of one job, why it has none from a trace, by their names, and its CPU ratios by pair of machines."""

    rows: list[dict[str, Any]]
    left_out: dict[str, str]
    pairs: list[dict[str, Any]]


def cores_for(signature: Signature, known: Analysis) -> dict[str, CoreCycles]:
    """Return the core cycles of an analysis, by machine, for another trace of the same program; none if its blocks differ."""
    columns = [*IDENTITY, "executions"]
    joined = signature.table.select(*columns).join(
        known.signature.table.select(*columns).with_row_index("row"),
        on=list(IDENTITY),
        how="left",
        maintain_order="left",
        suffix="_known",
    )
    if joined.height != signature.table.height:
        return {}
    rows = joined["row"].fill_null(0).to_numpy().astype(np.intp)
    executed, before = pl.col("executions"), pl.col("executions_known")
    share = joined.select(pl.when(before > 0).then(executed / before).otherwise(0.0)).to_series().to_numpy()
    return {part.machine: part.core.of_rows(rows, share) for part in known.parts if part.core is not None}


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """What the predictions of a campaign follow from: its profiles by condition, its native runs, and times by (program, input)
    that were measured elsewhere. Another process can have it."""

    campaign: Campaign
    traces: Path
    machines: Mapping[str, MachineProfile]
    runs: CampaignRuns
    elsewhere: Mapping[str, Mapping[tuple[str, str], float]]

    def of(self, job: Job) -> JobRows:
        """Trace, simulate and predict a job; a trace that fails is left out with its reason."""
        rows: list[dict[str, Any]] = []
        measured = self.measured(job)
        if not measured:
            return JobRows(rows, {job.name: self._not_measured(job)}, [])
        pairs: list[dict[str, Any]] = []
        left_out: dict[str, str] = {}
        paths: Analysis | None = None
        for mode in job_modes(self.campaign, job):
            try:
                own, paths = self._of_trace(job, mode, measured, paths)
                rows += own.rows
                pairs += own.pairs
            except Exception as error:  # half an hour of measurements must not be lost to one program
                kind = "" if isinstance(error, ConvolverError) else f"{type(error).__name__}: "
                left_out[f"{job.name} ({mode})"] = f"{kind}{error}"
        return JobRows(rows, left_out, pairs)

    def _of_trace(
        self, job: Job, mode: Mode, measured: Mapping[str, dict[str, Any]], paths: Analysis | None
    ) -> tuple[JobRows, Analysis | None]:
        """Return the rows of a job from one of its traces, and its analysis with core cycles along paths.

        A trace with every reference has no paths and takes those of the one before, ``paths``: what is compared is what sampling
        does to the memory.
        """
        conditions = [one for one in self.campaign.condition if one.name in measured]
        traced = trace_job(job, self.campaign, mode, self.traces)
        machines = [self.machines[one.name] for one in conditions]
        analysis = analyze(traced.path, machines)
        signature = analysis.signature
        if all(part.core is not None for part in analysis.parts):
            paths = analysis
        elif paths is not None:
            analysis = analysis.with_cores(cores_for(signature, paths))
        native = self._processor_seconds(job)
        threads = ThreadReplay.of(Trace.load(traced.path)) if job.threads > 1 else None
        found = JobRows([], {}, [])
        for method, options in self._methods().items():
            how = {"threads": threads, "cores": job.threads, **options}
            times = {one.name: times_on(analysis, self.machines[one.name], **how) for one in conditions}
            for one in conditions:
                total = with_its_pages(one, self.campaign.base_condition, times, signature) if method == "model" else None
                pairs, waited = self._pairs(job, one), self._waited(job)
                seconds = traced.processor_seconds
                found.rows.append(
                    row(job, one, mode, method, times[one.name], measured[one.name], seconds, native, pairs, total, waited)
                )
            found.pairs.extend(pair_rows(job, mode, method, whole_machines(self.campaign), times, measured))
        return found, paths

    def _methods(self) -> dict[str, dict[str, Any]]:
        """Return the methods with their options: one model for all machines."""
        return {**METHODS, "model": {"method": common_method(self.machines.values())}}

    def measured(self, job: Job) -> dict[str, dict[str, Any]]:
        """Return what was measured of a job by the names of the conditions under which it can be predicted."""
        known = ((one.name, self._measured(job, one)) for one in self.campaign.condition if one.name in self.machines)
        return {name: fields for name, fields in known if fields is not None}

    def _not_measured(self, job: Job) -> str:
        """Return why nothing is known of a job to compare with."""
        ended = sorted({run.status for run in self.runs.all if run.job == job.key})
        words = f"its runs ended with status {listed([str(one) for one in ended])}, not {job.status}"
        return words if ended else "nothing was measured of it"

    def _measured(self, job: Job, condition: Condition) -> dict[str, Any] | None:
        if condition.profile:
            seconds = self.elsewhere.get(condition.name, {}).get((job.program, job.input))
            return None if seconds is None else measured_fields(condition, [], seconds, threads=job.threads)
        return measured_fields(condition, self.runs.counting(job, condition), None, job.threads)

    def _processor_seconds(self, job: Job) -> float | None:
        """Return the native processor time of a job under the base condition; None where that is not known."""
        fields = self._measured(job, self.campaign.base_condition) or {}
        if job.threads > 1 and fields.get("user_seconds") is not None:
            return float(fields["user_seconds"] + fields["system_seconds"])
        return fields.get("measured_seconds")

    def _pairs(self, job: Job, condition: Condition) -> list[float]:
        """Return the measured CPU ratios of single rounds between the base and a condition."""
        base = self.campaign.base_condition
        first, own = (self.runs.counting(job, one) for one in (base, condition))
        return [] if condition is base else paired_ratios(first, own, timed_by(base, condition, threads=job.threads))

    def _waited(self, job: Job) -> float:
        """Return how long a job's program waits under the base condition; 0 where that pauses it, too."""
        base = self.campaign.base_condition
        wall = timed_by(base, threads=job.threads) == "wall"
        return 0.0 if wall else waited_seconds(self.runs.counting(job, base))


def job_modes(campaign: Campaign, job: Job) -> tuple[Mode, ...]:
    """Return the kinds of traces from which a job is predicted."""
    own: tuple[Mode, ...] = ("full",) if job.full and "full" not in campaign.modes else ()
    return (*campaign.modes, *own)


def predict_all(predictor: Predictor, jobs: Sequence[Job], processes: int = 1, progress: Progress = SILENT) -> JobRows:
    """Return the rows of all jobs in their order, predicted in so many processes.

    Raises :class:`ConvolverError` when workers die again and again.
    """
    done = Journal(None, "")
    with step(progress, "predicting", float(len(jobs))):
        if processes > 1:
            tasks = {number: (predictor, job) for number, job in enumerate(jobs)}
            run_missing(Predictor.of, tasks, done, jobs=processes, advance=lambda _: progress.advance(1.0))
        else:
            for number, job in enumerate(jobs):
                done.add(number, predictor.of(job))
                progress.advance(1.0, job.name)
    found: list[JobRows] = [done.done[number] for number in range(len(jobs))]
    return JobRows(
        [one for job in found for one in job.rows],
        {key: why for job in found for key, why in job.left_out.items()},
        [one for job in found for one in job.pairs],
    )

"""The whole campaign: prepare, probe, run natively, trace, predict, compare."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

from convolver import __version__
from convolver.convolution.convolve import convolve
from convolver.convolution.core import CoreSeconds
from convolver.convolution.seconds import core_seconds
from convolver.errors import ConvolverError
from convolver.machine.profile import MachineProfile
from convolver.pipeline import load_trace
from convolver.probing.load import QUIET_SHARE, wait_until_quiet
from convolver.probing.probe import default_cpu
from convolver.progress import SILENT, Progress
from convolver.signature.blocks import IDENTITY
from convolver.signature.signature import Signature
from convolver.simulation.cache import hit_rates
from convolver.validating.campaign import Campaign, Condition, Job, Mode
from convolver.validating.machines import measured_elsewhere, profiles
from convolver.validating.measuring import REPEATED_ROUNDS, TRIES, VISITS_A_ROUND, Runs, measure_all
from convolver.validating.pages import with_its_pages
from convolver.validating.preparing import prepare
from convolver.validating.rows import chosen_runs, measured_fields, paired_ratios, row, timed_by, waited_seconds
from convolver.validating.tracing import trace_job
from convolver.validating.validation import Validation
from convolver.validating.visits import Visits

METHODS: dict[str, dict[str, Any]] = {"model": {}, "paper": {"method": "paper"}}
"""The ways to predict that are compared, and what :func:`convolve` is told for each."""


Stop = Literal["measured", "traced"]
"""Where a campaign can end before it has a result."""


class _Campaign:
    """One run of a campaign: what is known so far."""

    def __init__(self, campaign: Campaign, here: Path, folder: Path, progress: Progress) -> None:
        self.campaign, self.here, self.folder, self.progress = campaign, here, folder, progress
        self.cpu = default_cpu()
        self.left_out: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.machines: dict[str, MachineProfile] = {}
        self.elsewhere: dict[str, dict[tuple[str, str], float]] = {}
        self.runs: Runs
        self.cores: dict[str, tuple[Signature, dict[str, CoreSeconds]]] = {}

    def gather(self, calibrate: bool) -> list[Job]:
        """Prepare, probe and run natively; returns the jobs that can be traced."""
        work = self.folder / "work"
        jobs, self.left_out = prepare(self.campaign, self.here, work.resolve())
        folder, rounds = self.folder / "machines", self.campaign.runs
        self.runs = Runs(self.folder / "runs.jsonl")
        visits = Visits(self.campaign, folder, self.cpu, self.progress)
        refused = measure_all(
            jobs,
            self.campaign.condition,
            rounds,
            self.runs,
            self.cpu,
            self.progress,
            repeated=REPEATED_ROUNDS,
            tries=TRIES,
            visit=visits.make,
        )
        visits.make_up(rounds * VISITS_A_ROUND + 1)
        self.machines, self.refused = profiles(self.campaign, self.here, folder, self.cpu, self.progress, calibrate=calibrate)
        self.refused.update(refused)
        for condition in self.campaign.condition:
            if condition.profile and condition.name in self.machines:
                self.elsewhere[condition.name] = measured_elsewhere(condition, self.here)
        return jobs

    def rows(self, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        """Trace, simulate and predict every job; one that fails is left out with its reason."""
        found = []
        self.progress.start("tracing and predicting", float(sum(len(self.modes(job)) for job in jobs)))
        try:
            for job in jobs:
                for mode in self.modes(job):
                    try:
                        found += self._job_rows(job, mode)
                    except Exception as error:  # half an hour of measurements must not be lost to one program
                        kind = "" if isinstance(error, ConvolverError) else f"{type(error).__name__}: "
                        self.left_out[f"{job.name} ({mode})"] = f"{kind}{error}"
                    self.progress.advance(1.0, job.name)
        finally:
            self.progress.finish()
        return found

    def modes(self, job: Job) -> tuple[Mode, ...]:
        """Return the kinds of traces from which a job is predicted."""
        own: tuple[Mode, ...] = ("full",) if job.full and "full" not in self.campaign.modes else ()
        return (*self.campaign.modes, *own)

    def trace(self, jobs: Sequence[Job]) -> None:
        """Make all traces that are missing."""
        self.progress.start("tracing", float(sum(len(self.modes(job)) for job in jobs)))
        try:
            for job in jobs:
                for mode in self.modes(job):
                    with suppress(ConvolverError):  # tried again, and then reported, when it is predicted
                        trace_job(job, self.campaign, mode, self.folder / "traces")
                    self.progress.advance(1.0, job.name)
        finally:
            self.progress.finish()

    def _job_rows(self, job: Job, mode: Mode) -> list[dict[str, Any]]:
        known = {condition.name: self._measured(job, condition) for condition in self.campaign.condition}
        conditions = [one for one in self.campaign.condition if one.name in self.machines and known[one.name] is not None]
        if not conditions:
            self.left_out[job.name] = "no run of it ended well"
            return []
        traced = trace_job(job, self.campaign, mode, self.folder / "traces")
        trace = load_trace(traced.path)
        machines = [self.machines[one.name] for one in conditions]
        rates = hit_rates(trace, machines)
        cores = core_seconds(trace, machines, rates=rates) or self._cores_of_paths(job, trace.signature)
        self.cores[job.name] = (trace.signature, cores)
        base = known.get(self.campaign.base_name) or {}
        found = []
        for method, options in self._methods().items():
            times = {
                one.name: convolve(trace.signature, rates, machine, core=cores.get(machine.id), **options)
                for one, machine in zip(conditions, machines, strict=True)
            }
            for one in conditions:
                measured = known[one.name] or {}
                native = base.get("measured_seconds")
                total = with_its_pages(one, self._base(), times, trace.signature) if method == "model" else None
                pairs, waited = self._pairs(job, one), self._waited(job)
                seconds = traced.processor_seconds
                found.append(row(job, one, mode, method, times[one.name], measured, seconds, native, pairs, total, waited))
        return found

    def _base(self) -> Condition:
        return next(one for one in self.campaign.condition if one.name == self.campaign.base_name)

    def _cores_of_paths(self, job: Job, signature: Signature) -> dict[str, CoreSeconds]:
        """Return core times from the paths of the job's earlier trace: one with every reference has none, and what is compared is
        what sampling does to the memory."""
        known, cores = self.cores.get(job.name, (None, {}))
        if known is None or not cores:
            return {}
        columns = [*IDENTITY, "executions"]
        joined = signature.table.select(*columns).join(
            known.table.select(*columns).with_row_index("row"),
            on=list(IDENTITY),
            how="left",
            maintain_order="left",
            suffix="_known",
        )
        if joined.height != signature.table.height:
            return {}
        rows = joined["row"].fill_null(0).to_numpy().astype(np.intp)
        share = (joined["executions"] / joined["executions_known"]).fill_nan(0).fill_null(0).to_numpy()
        return {key: seconds.of_rows(rows, share) for key, seconds in cores.items()}

    def _methods(self) -> dict[str, dict[str, Any]]:
        """Return the methods with their options: one model for all machines, or a CPU ratio would hold the difference of two."""
        calibrated = all(machine.calibration for machine in self.machines.values())
        return METHODS if calibrated else {**METHODS, "model": {"method": "curves"}}

    def _measured(self, job: Job, condition: Condition) -> dict[str, Any] | None:
        if condition.profile:
            seconds = self.elsewhere.get(condition.name, {}).get((job.program, job.input))
            return None if seconds is None else measured_fields(condition, [], seconds)
        return measured_fields(condition, self.runs.of(job, condition), None, self.runs.alone(condition))

    def _pairs(self, job: Job, condition: Condition) -> list[float]:
        """Return the measured CPU ratios of single rounds between the base and a condition."""
        base = self._base()
        found = [(self.runs.of(job, one), self.runs.alone(one)) for one in (base, condition)]
        if condition is base or not all(runs for runs, _ in found):
            return []
        first, own = (chosen_runs(runs, alone) for runs, alone in found)
        return paired_ratios(first, own, timed_by(base, condition))

    def _waited(self, job: Job) -> float:
        """Return how long a job's program waits under the base condition; 0 where that pauses it, too."""
        base = self._base()
        return 0.0 if timed_by(base) == "wall" else waited_seconds(self.runs.of(job, base), self.runs.alone(base))

    def machine(self, waited: float) -> dict[str, Any]:
        """Return what is said of the machine that this ran on, and how quiet it was."""
        base = self.machines.get(self.campaign.base_name)
        cpu = {} if base is None else base.cpu
        others = [run.others for run in self.runs.all if run.condition == self.campaign.base_name]
        steal = [run.steal for run in self.runs.all if run.condition == self.campaign.base_name]
        noise = {"others": median(others) if others else 0.0, "steal": median(steal) if steal else 0.0, "before": waited}
        noise["busy"] = noise["others"] + noise["steal"] > QUIET_SHARE
        return {
            "cpu": cpu.get("model", ""),
            "cpus": cpu.get("cpus"),
            "measured_on": self.cpu,
            "hypervisor": cpu.get("hypervisor", ""),
            "system": f"{platform.system()} {platform.release()}",
            "noise": noise,
        }


def validate(
    campaign: Campaign,
    here: str | Path,
    folder: str | Path,
    *,
    stop: Stop | None = None,
    patience: float = 0.0,
    progress: Progress = SILENT,
) -> Validation | None:
    """Run a campaign and return its result; what an interrupted one left in ``folder`` is used again.

    ``stop`` ends it, without a result, when the machines and programs are measured, or when the programs are traced as well: so
    the measurements can be made while the machine is quiet and the rest, which no other work disturbs, at any time.
    ``here`` is the folder of the campaign file; ``patience`` is how many seconds to wait for a quiet machine before the start.
    Profiles, native runs and traces are kept; predictions are always made anew, so that a changed model is judged by the same
    measurements. Raises :class:`PredictionError` when there is no result at all, :class:`ToolError` when a preparation fails.
    """
    here, folder = Path(here).resolve(), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    share = wait_until_quiet(patience, progress)
    state = _Campaign(campaign, here, folder, progress)
    jobs = state.gather(calibrate=stop is None)
    if stop == "traced":
        state.trace(jobs)
    if stop is not None:
        return None
    rows = state.rows(jobs)
    return Validation.make(
        rows,
        inputs={name: profile.id for name, profile in state.machines.items()},
        campaign=campaign.name,
        base=campaign.base_name,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        convolver=__version__,
        runs=campaign.runs,
        machine=state.machine(share),
        left_out=state.left_out,
        refused=state.refused,
    )

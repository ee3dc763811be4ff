"""The whole campaign: prepare, probe, run natively, trace, predict, compare; or measure and write files for another campaign."""

from __future__ import annotations

import csv
import datetime
import io
import os
import platform
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, Literal

import msgspec
import numpy as np

from convolver import __version__
from convolver.errors import ConvolverError, ConvolverWarning, PredictionError, ToolError, UsageError
from convolver.machine.maps import Curve
from convolver.machine.profile import SUFFIX, MachineProfile
from convolver.outputs import save_text
from convolver.probing.load import QUIET_SHARE, wait_until_quiet
from convolver.probing.machine_probe import default_cpu
from convolver.progress import SILENT, Progress, step
from convolver.schema import document_id
from convolver.units import listed
from convolver.validating.campaign import Campaign, Condition, Job, Program, fill
from convolver.validating.campaign_machines import check_kept, elsewhere, profiles
from convolver.validating.measuring import REPEATED_ROUNDS, TRIES, VISITS_A_ROUND, CampaignRuns, measure_all
from convolver.validating.predicting import JobRows, Predictor, job_modes, predict_all
from convolver.validating.tracing import trace_job
from convolver.validating.validation import Validation
from convolver.validating.validation_rows import taken, timed_by
from convolver.validating.visits import Visits

QUIET = 0.2
"""Share of the runs that are taken as quiet: the slowest of them gives a program's time."""


def write_bundle(
    name: str, profile: MachineProfile, jobs: Sequence[Job], runs: CampaignRuns, condition: Condition, folder: Path
) -> list[Path]:
    """Write ``NAME.machine.json``, without single samples, and ``times-NAME.csv`` (program, input, seconds of processor time);
    returns both paths.

    The times are those that a fifth of the runs that count stay below: they stand for the machine, not for a moment of it, and
    what other VMs do only adds time.

    Raises :class:`PredictionError` when no program ended well.
    """
    rows = []
    for job in jobs:
        seconds = [taken(run, timed_by(condition, threads=job.threads)) for run in runs.counting(job, condition)]
        if seconds:
            rows.append((job.program, job.input, f"{np.quantile(seconds, QUIET):.4g}"))
    if not rows:
        raise PredictionError("No program of the campaign ended well here, so there are no times to export.")
    machine, times = folder / f"{name}{SUFFIX}", folder / f"times-{name}.csv"
    _without_samples(msgspec.structs.replace(profile, name=name)).save(machine)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("program", "input", "seconds"), *rows])
    save_text(times, text.getvalue())
    return [machine, times]


def _without_samples(profile: MachineProfile) -> MachineProfile:
    """Return the profile without its single samples and the host's name: a fifth of its size, and all that predictions use."""

    def short(curve: Curve) -> Curve:
        return msgspec.structs.replace(
            curve, points=tuple(msgspec.structs.replace(one, samples_seconds=()) for one in curve.points)
        )

    return msgspec.structs.replace(
        profile,
        provenance={key: value for key, value in profile.provenance.items() if key != "host"},
        maps=tuple(map(short, profile.maps)),
        huge_maps=tuple(map(short, profile.huge_maps)),
        floating_point=tuple(msgspec.structs.replace(one, samples_seconds=()) for one in profile.floating_point),
    )


def prepare(campaign: Campaign, here: Path, folder: Path) -> tuple[list[Job], dict[str, str]]:
    """Run the campaign's preparations in ``folder``; returns what can run, and why the rest was left out, by program.

    Raises :class:`ToolError` when a preparation fails: all that follows would measure something else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for words in campaign.prepare:
        command = [fill(word, {"{here}": str(here), "{python}": sys.executable}) for word in words]
        _run(command, folder, f"The preparation '{shlex.join(words)}'")
    left_out, built = {}, {}
    for program in campaign.program:
        try:
            built[program.name] = _build(program, here, folder) if program.source else ""
        except ConvolverError as error:
            left_out[program.name] = str(error)
    jobs = []
    for job in campaign.jobs(here, folder):
        Path(job.folder).mkdir(parents=True, exist_ok=True)
        if job.program not in left_out and (reason := _missing(job)):
            left_out[job.program] = reason
        if job.program not in left_out:
            jobs.append(msgspec.structs.replace(job, built=built[job.program]))
    return jobs, left_out


def _run(command: Sequence[str], folder: Path, what: str) -> str:
    """Run a command and return what it printed; raises :class:`ToolError`."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, errors="replace")
    except (OSError, ValueError) as error:
        raise ToolError(f"{what} cannot be started: {getattr(error, 'strerror', None) or error}.") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["nothing"]
        said = next((line for line in lines if "error:" in line), lines[-1])  # a compiler's first
        raise ToolError(f"{what} failed with status {done.returncode}; it said: {said}")
    return done.stdout


def _build(program: Program, here: Path, folder: Path) -> str:
    """Compile a program unless it is there; returns a hash of its preprocessed source and its flags, which runs and traces are
    kept by, or nothing of one that an older Convolver compiled."""
    source, target = here / program.source, folder / program.name
    if not source.is_file():
        raise ToolError(f"its source {source} does not exist")
    what, note = f"The compilation of {source.name}", target.with_name(f"{program.name}.built")
    text = _run(["cc", "-E", "-P", *program.flags, str(source)], folder, what)
    wanted = document_id({"text": text, "flags": program.flags})
    older = target.exists() and not note.exists() and target.stat().st_mtime > source.stat().st_mtime
    if older or (target.exists() and note.exists() and note.read_text() == wanted):
        return "" if older else wanted
    note.unlink(missing_ok=True)
    _run(["cc", "-g", *program.flags, "-o", str(target), str(source), "-lm"], folder, what)
    save_text(note, wanted)
    return wanted


def _missing(job: Job) -> str | None:
    name = job.command[0]
    found = (Path(job.folder) / name).exists() if "/" in name else shutil.which(name)
    if found:
        cpus = len(os.sched_getaffinity(0))
        return f"it has {job.threads} threads, and this machine {cpus} CPUs" if job.threads > cpus else None
    return f"'{name}' is not installed" + (f" (apt-get install {job.package})" if job.package else "")


Stop = Literal["measured", "traced"]
"""Where a campaign can end before it has a result."""
EXPORTED_ROUNDS = 15
"""Rounds of native runs, at least, of a machine that other machines' campaigns compare with: enough to meet quiet moments."""


def _open(folder: Path, fresh: bool) -> None:
    """Make a campaign's folder; ``fresh``: without the profiles and native runs that are there."""
    try:
        (folder / "machines").mkdir(parents=True, exist_ok=True)
        if fresh:
            (folder / "runs.jsonl").unlink(missing_ok=True)
            for path in (folder / "machines").rglob("*.json*"):
                path.unlink()
    except OSError as error:
        raise UsageError(f"The campaign cannot be kept in {folder} ({error.strerror}); choose another folder with -o.") from error


class _Campaign:
    """One run of a campaign: what is known so far."""

    def __init__(self, campaign: Campaign, here: Path, folder: Path, progress: Progress, *, fresh: bool, patience: float) -> None:
        """See that it is possible, before anything is dropped or measured."""
        self.campaign, self.here, self.folder, self.progress = campaign, here, folder, progress
        self.cpu = default_cpu()
        self.left_out: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.machines: dict[str, MachineProfile] = {}
        self.elsewhere = elsewhere(campaign, here)
        self.runs: CampaignRuns
        _open(folder, fresh)
        check_kept(campaign, folder / "machines")
        self.others_before = wait_until_quiet(patience, progress)

    def gather(self, calibrate: bool) -> list[Job]:
        """Prepare, probe and run natively; returns the jobs that can be traced."""
        work = self.folder / "work"
        jobs, self.left_out = prepare(self.campaign, self.here, work.resolve())
        if not jobs:
            raise PredictionError(f"No program of the campaign can run here: {'; '.join(self.left_out.values())}.")
        folder, rounds = self.folder / "machines", self.campaign.runs
        self.runs = CampaignRuns(self.folder / "runs.jsonl")
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
            visit=visits.make_due,
        )
        visits.make_up(rounds * VISITS_A_ROUND + 1)
        self.machines, self.refused = profiles(self.campaign, self.here, folder, self.cpu, self.progress, calibrate=calibrate)
        self.refused.update(refused)
        for name, times in self.elsewhere.items():
            unknown = [job.name for job in jobs if (job.program, job.input) not in times]
            if len(unknown) == len(jobs):
                self.refused[name] = "its times are of other programs or inputs"
            elif unknown:
                self.refused[f"{listed(unknown)} on {name}"] = "its file of times has none"
        return jobs

    def rows(self, jobs: Sequence[Job], processes: int) -> JobRows:
        """Trace what was not, one program after another, and predict every job; one that fails is left out with its reason."""
        predictor = Predictor(
            campaign=self.campaign,
            traces=self.folder / "traces",
            machines=self.machines,
            runs=self.runs,
            elsewhere=self.elsewhere,
        )
        self.trace([job for job in jobs if predictor.measured(job)])
        found = predict_all(predictor, jobs, processes, self.progress)
        self.left_out.update(found.left_out)
        return found

    def trace(self, jobs: Sequence[Job]) -> None:
        """Make all traces that are missing."""
        with step(self.progress, "tracing", float(sum(len(job_modes(self.campaign, job)) for job in jobs))):
            for job in jobs:
                for mode in job_modes(self.campaign, job):
                    with suppress(Exception):  # tried again, and then reported, when it is predicted
                        trace_job(job, self.campaign, mode, self.folder / "traces")
                    self.progress.advance(1.0, job.name)

    def machine(self) -> dict[str, Any]:
        """Return what is said of the machine that this ran on, and how quiet it was."""
        base = self.machines.get(self.campaign.base_name)
        cpu = {} if base is None else base.cpu
        others = [run.others for run in self.runs.all if run.condition == self.campaign.base_name]
        steal = [run.steal for run in self.runs.all if run.condition == self.campaign.base_name]
        noise = {
            "others": median(others) if others else 0.0,
            "steal": median(steal) if steal else 0.0,
            "before": self.others_before,
        }
        noise["busy"] = noise["others"] + noise["steal"] > QUIET_SHARE
        return {
            "cpu": cpu.get("model", ""),
            "cpus": cpu.get("cpus"),
            "measured_on": self.cpu,
            "hypervisor": cpu.get("hypervisor", ""),
            "system": f"{platform.system()} {platform.release()}",
            "noise": noise,
        }


def export_machine(
    campaign: Campaign,
    here: str | Path,
    folder: str | Path,
    name: str,
    *,
    fresh: bool = False,
    patience: float = 0.0,
    progress: Progress = SILENT,
) -> tuple[list[Path], dict[str, str]]:
    """Measure this machine under the campaign's base condition alone and write it as a bundle for another machine's campaign
    (:func:`convolver.validating.run_campaign.write_bundle`); what an interrupted campaign left in ``folder`` is used again.

    Returns the files, and why programs were left out, by program.

    Raises :class:`UsageError` for an impossible name or a base that is another machine, :class:`ToolError` when a preparation
    fails, and :class:`PredictionError` when there is nothing to export.
    """
    if not name or "/" in name:
        raise UsageError(f"'{name}' cannot name a machine; choose one without '/'.")
    base = campaign.base_condition
    if base.profile:
        raise UsageError(f"The base '{base.name}' of the campaign is measured elsewhere; only this machine can be exported.")
    folder = Path(folder)
    measured = msgspec.structs.replace(campaign, condition=(base,), runs=max(campaign.runs, EXPORTED_ROUNDS))
    state = _Campaign(measured, Path(here).resolve(), folder, progress, fresh=fresh, patience=patience)
    jobs = state.gather(calibrate=True)
    if base.name not in state.machines:
        raise PredictionError(f"The machine has no profile: {state.refused.get(base.name, 'it was not probed')}.")
    return write_bundle(name, state.machines[base.name], jobs, state.runs, base, folder), state.left_out


def validate(
    campaign: Campaign,
    here: str | Path,
    folder: str | Path,
    *,
    stop: Stop | None = None,
    fresh: bool = False,
    patience: float = 0.0,
    processes: int = 1,
    progress: Progress = SILENT,
) -> Validation | None:
    """Run a campaign and return its result; what an interrupted one left in ``folder`` is used again.

    ``stop`` ends it, without a result, when the machines and programs are measured, or when the programs are traced as well: so
    the measurements can be made while the machine is quiet and the rest, which no other work disturbs, at any time.
    ``here`` is the folder of the campaign file; ``fresh`` drops kept profiles and native runs; ``patience`` is how many seconds
    to wait for a quiet machine before the start.
    Predictions alone, which other work does not disturb, are made in so many ``processes``.
    Profiles, native runs and traces are kept; predictions are always made anew, so that a changed model is judged by the same
    measurements. Raises :class:`PredictionError` when there is no result at all, :class:`ToolError` when a preparation fails.
    """
    state = _Campaign(campaign, Path(here).resolve(), Path(folder), progress, fresh=fresh, patience=patience)
    jobs = state.gather(calibrate=stop is None)
    if stop == "traced":
        state.trace(jobs)
    if stop is not None:
        for name, reason in {**state.left_out, **state.refused}.items():
            warnings.warn(f"{name} is left out: {reason}.".replace("..", "."), ConvolverWarning, stacklevel=2)
        return None
    found = state.rows(jobs, processes)
    return Validation.make(
        found.rows,
        pairs=found.pairs,
        inputs={name: profile.id for name, profile in state.machines.items()},
        campaign=campaign.name,
        base=campaign.base_name,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        convolver=__version__,
        runs=campaign.runs,
        machine=state.machine(),
        left_out=state.left_out,
        refused=state.refused,
    )

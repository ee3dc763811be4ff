"""A measured machine as two files for a condition of another machine's campaign: its profile and its programs' times."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from convolver.errors import PredictionError
from convolver.machine.maps import Curve
from convolver.machine.profile import SUFFIX, MachineProfile
from convolver.outputs import save_text
from convolver.validating.campaign import Condition, Job
from convolver.validating.measuring import CampaignRuns
from convolver.validating.validation_rows import taken, timed_by

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

"""The rows of a validation: one for each program, input, condition, trace mode and method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from convolver.convolution.block_times import BlockTimes
from convolver.validating.campaign import Condition, Job, Mode
from convolver.validating.running import Run

DISTURBED = 0.1
"""Share of all CPUs that others and the hypervisor may take during a run before it counts as disturbed."""


def chosen_runs(runs: Sequence[Run]) -> Sequence[Run]:
    """Return the runs that count: the undisturbed ones; where there is none, the shortest, since disturbances only add time.

    Predictions are for a machine as its probe found it, and a probe keeps its quietest samples, too.
    """
    undisturbed = [run for run in runs if run.others + run.steal <= DISTURBED]
    return undisturbed or [min(runs, key=lambda run: run.processor_seconds)]


def measured_fields(condition: Condition, runs: Sequence[Run], elsewhere: float | None) -> dict[str, Any] | None:
    """Return the medians of a job's runs under a condition that count (:func:`chosen_runs`); None where there is none.

    Processor time is compared, user and system together; under a CPU quota it is the time on the wall, since that is all a quota
    changes.
    """
    if elsewhere is not None:
        times = {"measured_seconds": elsewhere, "wall_seconds": None, "user_seconds": None, "system_seconds": None}
        return {**times, "timed": "processor", "spread": 0.0, "runs": 0, "others": None, "steal": None}
    if not runs:
        return None
    runs = chosen_runs(runs)
    timed = "wall" if condition.cpu_quota < 1 else "processor"
    values = [run.wall_seconds if timed == "wall" else run.processor_seconds for run in runs]
    return {
        "measured_seconds": median(values),
        "wall_seconds": median(run.wall_seconds for run in runs),
        "user_seconds": median(run.user_seconds for run in runs),
        "system_seconds": median(run.system_seconds for run in runs),
        "timed": timed,
        "spread": (max(values) - min(values)) / 2 / median(values) if median(values) else 0.0,
        "runs": len(runs),
        "others": median(run.others for run in runs),
        "steal": median(run.steal for run in runs),
    }


def row(
    job: Job,
    condition: Condition,
    mode: Mode,
    method: str,
    times: BlockTimes,
    measured: Mapping[str, Any],
    traced_seconds: float,
    native_seconds: float | None,
) -> dict[str, Any]:
    """Return one row: what was predicted, what was measured, and how far they lie apart."""
    scale = 1 / condition.cpu_quota
    predicted, low, high = (value * scale for value in times.total)
    return {
        "program": job.program,
        "input": job.input,
        "origin": job.origin,
        "condition": condition.name,
        "mode": mode,
        "method": method,
        "predicted_seconds": predicted,
        "predicted_system_seconds": None if times.system is None else times.system.seconds * scale,
        "low_seconds": low,
        "high_seconds": high,
        **measured,
        "error": predicted / measured["measured_seconds"] - 1,
        "covered": low <= measured["measured_seconds"] <= high,
        "memops": int(times.table["memops"].sum()),
        "coverage": times.coverage,
        "sampled_share": times.sampled_share,
        "slowdown": traced_seconds / native_seconds if native_seconds else None,
    }

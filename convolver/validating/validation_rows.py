"""The rows of a validation: one for each program, input, condition, trace mode and method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from convolver.convolution.block_times import BlockTimes
from convolver.validating.campaign import Condition, Job, Mode
from convolver.validating.pages import PredictedSeconds
from convolver.validating.running import NativeRun


def timed_by(*conditions: Condition, threads: int = 1) -> str:
    """Return the clock that counts: processor time, or, with several threads or a CPU quota, which stretches it, the wall's."""
    return "wall" if threads > 1 or any(one.cpu_quota < 1 for one in conditions) else "processor"


def taken(run: NativeRun, timed: str) -> float:
    """Return the seconds of a run by the clock that counts."""
    return run.wall_seconds if timed == "wall" else run.processor_seconds


def measured_fields(
    condition: Condition, runs: Sequence[NativeRun], elsewhere: float | None, threads: int = 1
) -> dict[str, Any] | None:
    """Return the medians of a job's runs under a condition that count; None where there is none.

    User and system time are compared together, or the elapsed time (:func:`timed_by`).
    """
    if elsewhere is not None:
        times = {"measured_seconds": elsewhere, "wall_seconds": None, "user_seconds": None, "system_seconds": None}
        return {**times, "timed": timed_by(threads=threads), "spread": 0.0, "runs": 0, "others": None, "steal": None}
    if not runs:
        return None
    timed = timed_by(condition, threads=threads)
    values = [taken(run, timed) for run in runs]
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


def waited_seconds(runs: Sequence[NativeRun]) -> float:
    """Return how long a program waits for other things than its processor, which no quota stretches: the median of time on the
    wall less user and system time, over the base's runs that count; 0 without any.

    All threads of a run share one CPU, so that this is the time in which none of them had it.
    """
    return max(0.0, median([run.wall_seconds - run.processor_seconds for run in runs] or [0.0]))


def paired_ratios(base: Sequence[NativeRun], runs: Sequence[NativeRun], timed: str) -> list[float]:
    """Return base time / time of the rounds in which both were run, given the runs of either condition that count."""
    first = {run.round: taken(run, timed) for run in base}
    pairs = [(first[run.round], taken(run, timed)) for run in runs if run.round in first]
    return [one / other for one, other in pairs if other > 0]


def row(
    job: Job,
    condition: Condition,
    mode: Mode,
    method: str,
    times: BlockTimes,
    measured: Mapping[str, Any],
    traced_seconds: float,
    native_seconds: float | None,
    pairs: Sequence[float] = (),
    predicted: PredictedSeconds | None = None,
    waited: float = 0.0,
) -> dict[str, Any]:
    """Return one row: what was predicted, what was measured, and how far they lie apart; ``pairs`` are the CPU ratios of single
    rounds, ``predicted`` what stands for the totals of ``times`` where it is given, ``waited`` the :func:`waited_seconds`, which
    belong to an elapsed time."""
    scale, wall = 1 / condition.cpu_quota, measured["timed"] == "wall"
    total, system = predicted or PredictedSeconds.of(times)
    seconds, low, high = (value * scale + (waited if wall else 0.0) for value in total)
    return {
        "program": job.program,
        "input": job.input,
        "origin": job.origin,
        "condition": condition.name,
        "mode": mode,
        "method": method,
        "predicted_seconds": seconds,
        "predicted_system_seconds": None if system is None else system * scale,
        "low_seconds": low,
        "high_seconds": high,
        **measured,
        "waited_seconds": waited if wall else None,
        "measured_ratio": median(pairs) if pairs else None,
        "ratio_spread": (max(pairs) - min(pairs)) / 2 / median(pairs) if pairs else None,
        "error": seconds / measured["measured_seconds"] - 1,
        "covered": low <= measured["measured_seconds"] <= high,
        "memops": int(times.table["memops"].sum()),
        "coverage": times.coverage,
        "sampled_share": times.sampled_share,
        "slowdown": traced_seconds / native_seconds if native_seconds else None,
    }

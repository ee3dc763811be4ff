"""The rows of a validation: one for each program, input, condition, trace mode and method.

Under a condition of huge pages: one takes the place of 512 aligned ones in one mapping, and such a condition gives them only
where the program's allocator asks for them: so a program whose arrays are small, or static, gets none and runs as with the base's
pages. In between, each page is taken to be used as much as any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from convolver.convolution.block_times import BlockTimes
from convolver.convolution.system_time import allocated_huge
from convolver.signature.signature import Signature
from convolver.validating.campaign import Condition, Job, Mode
from convolver.validating.running import NativeRun


class PredictedSeconds(NamedTuple):
    """Seconds, the ends of their interval, and the system time among them."""

    total: tuple[float, float, float]
    system_seconds: float | None

    @classmethod
    def of(cls, times: BlockTimes) -> PredictedSeconds:
        """Return what block times predict in total: elapsed seconds where a second thread ran."""
        return cls(times.awaited, None if times.system is None else times.system.seconds)


def differ_in_pages(condition: Condition, base: Condition) -> bool:
    """Tell whether a condition is the base but for huge pages, which a program may get or not."""
    same = (condition.loaded_cpus, condition.profile) == (base.loaded_cpus, base.profile)
    return same and condition.pages == "thp" and base.pages != "thp"


def huge_share(system: Mapping[str, Any] | None) -> float:
    """Return which part of a program's own pages its allocator gets as huge ones, from what its signature says of the kernel's
    work; 1 where that says nothing."""
    pages = (system or {}).get("pages")
    if not pages or not pages["anonymous"]:
        return 1.0
    return min(allocated_huge(pages)[0] / pages["anonymous"], 1.0)


def of_both(huge: BlockTimes, small: BlockTimes, share: float) -> PredictedSeconds:
    """Return the time of a program that gets huge pages for a share, from its times with them alone and without any."""
    system, other = PredictedSeconds.of(huge).system_seconds, PredictedSeconds.of(small).system_seconds
    # The kernel's work counts the huge pages that the program gets already.
    shift = 0.0 if system is None or other is None else (1 - share) * (system - other)
    predicted, low, high = (share * one + (1 - share) * two + shift for one, two in zip(huge.awaited, small.awaited, strict=True))
    return PredictedSeconds((predicted, low, high), system)


def with_its_pages(
    condition: Condition, base: Condition, times: Mapping[str, BlockTimes], signature: Signature
) -> PredictedSeconds | None:
    """Return the time under a condition with huge pages of a program that gets them for a part of its memory, given its times by
    condition; None where the condition is none of huge pages, or differs from the base in more."""
    if base.name not in times or not differ_in_pages(condition, base):
        return None
    return of_both(times[condition.name], times[base.name], huge_share(signature.header.get("system")))


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

"""Times from phases, errors, the cost of the prediction and the advice on how many processes to use (equations 6 and 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from convolver.errors import ModelError


def predicted_time(phase_seconds: Mapping[int, float], weights: Mapping[int, int]) -> float:
    """Return PET: the sum over phases of their time times their weight (equation 6)."""
    if phase_seconds.keys() != weights.keys():
        raise ModelError("Every phase needs a time and a weight.")
    return sum(seconds * weights[phase] for phase, seconds in phase_seconds.items())


def time_error(actual_seconds: float, predicted_seconds: float) -> float:
    """Return PETE: the absolute error relative to the actual time."""
    return abs(actual_seconds - predicted_seconds) / actual_seconds


@dataclass(frozen=True)
class CostedRun:
    """One point of a scaling curve and what it cost: seconds of the run and the cores it held."""

    processes: int
    seconds: float
    cores: int


def core_hours(runs: Sequence[CostedRun]) -> float:
    """Return the cost of runs (equation 7, in core hours: the paper's numbers are in hours though its sum is in seconds)."""
    return sum(run.seconds * run.cores for run in runs) / 3600


@dataclass(frozen=True)
class ScalingPoint:
    """Speedup and efficiency of a process count relative to the smallest one, and whether it is advised."""

    processes: int
    seconds: float
    speedup: float
    efficiency: float
    advised: bool


def scaling_curve(seconds: Mapping[int, float], threshold: float = 0.7) -> list[ScalingPoint]:
    """Return speedup and efficiency over process counts, ideal being linear from the smallest count.

    A count is advised while no smaller one's efficiency fell under ``threshold``.
    """
    if not seconds or min(seconds.values()) <= 0:
        raise ModelError("A scaling curve needs at least one time above 0.")
    first = min(seconds)
    points, good = [], True
    for count in sorted(seconds):
        speedup = first * seconds[first] / seconds[count]
        good = good and speedup / count >= threshold
        points.append(ScalingPoint(count, seconds[count], speedup, speedup / count, good))
    return points


def advice(points: Sequence[ScalingPoint]) -> str:
    """Return one sentence: the largest advised count and where efficiency falls under the threshold."""
    advised = [point for point in points if point.advised]
    if not advised:
        return "No process count is efficient enough."
    best = advised[-1]
    rest = [point for point in points if not point.advised]
    text = f"Use up to {best.processes} processes (efficiency {100 * best.efficiency:.0f} %)"
    return text + (f"; at {rest[0].processes} it falls to {100 * rest[0].efficiency:.0f} %." if rest else ".")

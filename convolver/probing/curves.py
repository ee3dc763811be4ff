"""From the lines of the probe to curves and instructions of a profile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from convolver.errors import ProbeError
from convolver.machine.maps import Curve, Point
from convolver.machine.profile import Throughput
from convolver.probing.runner import Kernel
from convolver.probing.samples import Line, Summary, by_point, combine


def summaries(lines: Sequence[Line]) -> dict[tuple[str, int, int], Summary]:
    """Combine the rounds of each point, by (kernel, threads, working set); raises :class:`ProbeError` without a sample."""
    rounds = by_point(lines)
    if not rounds:
        raise ProbeError("The CPU is so busy that no sample went undisturbed; probe again on a quiet machine.")
    return {key: combine(group) for key, group in rounds.items()}


def _point(working_set_bytes: int, summary: Summary) -> Point:
    return Point(
        working_set_bytes=working_set_bytes,
        seconds_per_reference=summary.seconds,
        samples_seconds=summary.samples_seconds,
        references_per_sample=summary.references,
        spread=summary.spread,
        stable=summary.stable,
        rounds_seconds=summary.rounds_seconds,
        rejected_samples=summary.rejected,
    )


def curves(summaries: dict[tuple[str, int, int], Summary], kernels: Mapping[str, Kernel], page_bytes: int) -> tuple[Curve, ...]:
    """Return the curves of all kernels with memory."""
    points: dict[tuple[str, int], list[Point]] = defaultdict(list)
    for (name, threads, size), summary in sorted(summaries.items()):
        if kernels[name].pattern:
            points[name, threads].append(_point(size, summary))
    return tuple(
        Curve(
            kernel=name,
            pattern=kernels[name].pattern,
            operation=kernels[name].operation,
            width_bytes=kernels[name].width_bytes,
            stride_bytes=kernels[name].stride_bytes,
            chains=kernels[name].chains,
            threads=threads,
            page_bytes=page_bytes,
            points=tuple(group),
        )
        for (name, threads), group in points.items()
    )


def throughputs(summaries: dict[tuple[str, int, int], Summary], kernels: Mapping[str, Kernel]) -> tuple[Throughput, ...]:
    """Return the instructions that were measured alone."""
    return tuple(
        Throughput(
            kernel=name,
            operation=kernels[name].operation,
            seconds=summary.seconds,
            width_bytes=kernels[name].width_bytes,
            flops=kernels[name].flops,
            samples_seconds=summary.samples_seconds,
            spread=summary.spread,
            stable=summary.stable,
        )
        for (name, threads, _), summary in sorted(summaries.items())
        if not kernels[name].pattern and threads == 1
    )

"""What the kernel takes: page faults, system calls, bytes, the start of a process (probes/system)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from convolver.machine.kernel_costs import KernelCost
from convolver.probing.moments import ALIKE, alone_limit, grouped
from convolver.probing.runner import tell
from convolver.progress import SILENT, Progress, step

CONTENDED = ("thread.counters", "thread.sums", "thread.shared_", "thread.atomic_")
"""Names of what two threads that want one line take (or beginnings of them): who has it, and for how long, is chance."""


def kernel_cost(name: str, samples: Sequence[float]) -> KernelCost | None:
    """Return the first quartile of samples (seconds), since disturbances only add time; None without any.

    The interval reaches from the least sample to the median. Of :data:`CONTENDED` lines the median counts, and the interval
    holds nine tenths of the samples: a program has one line at one moment, as each of these.
    """
    if not samples:
        return None
    ordered = sorted(samples)
    if name.startswith(CONTENDED):
        low, high = ordered[len(ordered) // 20], ordered[19 * len(ordered) // 20]
        return KernelCost(name=name, seconds=ordered[len(ordered) // 2], low=low, high=high)
    return KernelCost(name=name, seconds=ordered[len(ordered) // 4], low=ordered[0], high=median(ordered))


def kernel_samples(cpu: int, progress: Progress = SILENT) -> list[dict[str, Any]]:
    """Return what the probe tells of the kernel's work on a CPU, after a second, or four where others share its core.

    Raises :class:`ProbeError` when the probe fails.
    """
    with step(progress, f"probing the kernel on CPU {cpu}"):
        return tell("the kernel", "--system", "--cpu", str(cpu))


def measure_kernel(cpu: int, progress: Progress = SILENT) -> tuple[KernelCost, ...]:
    """Measure the kernel's work on a CPU once (:func:`kernel_samples`); what it cannot do here is left out."""
    return kernel_costs(kernel_samples(cpu, progress))


def kernel_costs(lines: Iterable[Mapping[str, Any]]) -> tuple[KernelCost, ...]:
    """Return the costs from what the probe printed at one or more moments: of the samples that had the core alone.

    Another thread on the core makes the kernel a quarter slower. Where no sample of a cost had it alone, those count that were
    shared least; work of several CPUs is not judged, since it keeps the core busy itself.
    """
    groups = grouped(lines, lambda line: line["name"])
    samples = {name: [one for line in group for one in _looked(line)] for name, group in groups.items()}
    limit = alone_limit(cycles for pairs in samples.values() for _, cycles in pairs if cycles)

    def quiet(pairs: Sequence[tuple[float, float]]) -> list[float]:
        most = max(limit, ALIKE * min((cycles for _, cycles in pairs), default=0.0))
        return [seconds for seconds, cycles in pairs if cycles <= most]

    found = [kernel_cost(name, quiet(pairs)) for name, pairs in samples.items()]
    return tuple(cost for cost in found if cost is not None)


def _looked(line: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return samples and the cycles of a taken branch around each; 0 where nobody looked."""
    seconds = line["seconds"]
    return list(zip(seconds, line.get("witness_cycles") or [0.0] * len(seconds), strict=True))

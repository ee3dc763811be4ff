"""What the kernel takes: page faults, system calls, bytes, the start of a process (probes/system)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from convolver.machine.kernel_costs import KernelCost
from convolver.probing.runner import tell
from convolver.progress import SILENT, Progress


def kernel_cost(name: str, samples: Sequence[float]) -> KernelCost | None:
    """Return the first quartile of samples (seconds), since disturbances only add time; None without any.

    The interval reaches from the least sample to the median.
    """
    if not samples:
        return None
    ordered = sorted(samples)
    return KernelCost(name=name, seconds=ordered[len(ordered) // 4], low=ordered[0], high=median(ordered))


def measure_kernel(cpu: int, progress: Progress = SILENT) -> tuple[KernelCost, ...]:
    """Measure the kernel's work on a CPU, under half a second; what it cannot do here is left out.

    Raises :class:`ProbeError` when the probe fails.
    """
    progress.start(f"probing the kernel on CPU {cpu}")
    try:
        return kernel_costs(tell("the kernel", "--system", "--cpu", str(cpu)))
    finally:
        progress.finish()


def kernel_costs(told: Sequence[Mapping[str, Any]]) -> tuple[KernelCost, ...]:
    """Return the costs from what the probe prints."""
    found = [kernel_cost(one["name"], one["seconds"]) for one in told]
    return tuple(cost for cost in found if cost is not None)

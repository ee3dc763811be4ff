"""What the kernel takes: page faults, system calls, bytes, the start of a process (probes/system)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from statistics import median

from convolver.errors import ProbeError
from convolver.machine.kernel_costs import KernelCost
from convolver.probing.runner import probe_binary
from convolver.progress import SILENT, Progress

_TIMEOUT_SECONDS = 30.0


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
    command = [str(probe_binary()), "--system", "--cpu", str(cpu)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ProbeError(f"The probe failed while it measured the kernel ({error}); probe again.") from error
    finally:
        progress.finish()
    found = (kernel_cost(one["name"], one["seconds"]) for one in map(json.loads, done.stdout.splitlines()))
    return tuple(cost for cost in found if cost is not None)

"""What the CPUs of this machine do: is it quiet enough to measure?"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from convolver.progress import SILENT, Progress, step
from convolver.units import format_share

QUIET_SHARE = 0.1
"""A machine whose CPUs spend less than this share on other programs counts as quiet."""
_LOOK_SECONDS = 0.2


class Usage(msgspec.Struct, frozen=True):
    """Processor seconds of all CPUs since boot: spent on programs, taken by the hypervisor, and in total."""

    busy: float
    steal: float
    total: float

    @classmethod
    def now(cls) -> Usage:
        """Read /proc/stat; all zero where there is none."""
        try:
            first = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        except OSError:
            return cls(0.0, 0.0, 0.0)
        user, nice, system, idle, waiting, interrupts, soft, steal = (int(word) / os.sysconf("SC_CLK_TCK") for word in first[:8])
        busy = user + nice + system + interrupts + soft
        return cls(busy, steal, busy + steal + idle + waiting)

    def since(self, before: Usage) -> Usage:
        """Return what was used since then."""
        return Usage(self.busy - before.busy, self.steal - before.steal, self.total - before.total)

    def others(self, own: float = 0.0) -> float:
        """Return the share of all processors that programs took, but for ``own`` seconds; without the hypervisor's."""
        return max(0.0, self.busy - own) / self.total if self.total > 0 else 0.0

    @property
    def stolen(self) -> float:
        """The share of all processors that the hypervisor took."""
        return self.steal / self.total if self.total > 0 else 0.0


def others_share(seconds: float = _LOOK_SECONDS) -> float:
    """Return the share of all CPUs that other programs and the hypervisor use now; this process only waits meanwhile."""
    before = Usage.now()
    time.sleep(seconds)
    spent = Usage.now().since(before)
    return spent.others() + spent.stolen


def wait_until_quiet(patience_seconds: float, progress: Progress = SILENT) -> float:
    """Wait until other programs leave the CPUs alone, or as long as patience lasts; return the share they use at the end."""
    end = time.monotonic() + patience_seconds
    share = others_share()
    if share < QUIET_SHARE or patience_seconds <= 0:
        return share
    with step(progress, "waiting for a quiet machine", patience_seconds):
        while share >= QUIET_SHARE and time.monotonic() < end:
            share = others_share(1.0)
            progress.advance(1.0, f"others use {format_share(share)}")
    return share

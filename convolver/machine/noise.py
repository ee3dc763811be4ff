"""How disturbed a probe was: one threshold for the probe itself, for campaigns and for the check of a profile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from convolver.machine.profile import MachineProfile

UNSETTLED_SHARE = 0.2
"""A probe more of whose points than this did not settle was disturbed."""


class Timed(Protocol):
    """A time that is known well enough, or not: of a point, an instruction, or the rounds of either."""

    @property
    def stable(self) -> bool:
        """Whether the time settled."""


def unsettled_share(timed: Iterable[Timed]) -> float:
    """Return the share of times that did not settle; 1 where there are none."""
    stable = [one.stable for one in timed]
    return 1 - sum(stable) / len(stable) if stable else 1.0


def reported_unsettled_share(profile: MachineProfile) -> float:
    """Return the share of its points that did not settle, as the profile's probe reported it; 0 where it does not say."""
    return float(profile.provenance.get("noise", {}).get("unstable_share", 0.0))


def is_disturbed(share: float) -> bool:
    """Tell whether so large a share of the points did not settle that the probe should go on, or be repeated."""
    return share > UNSETTLED_SHARE

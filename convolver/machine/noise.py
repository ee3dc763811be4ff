"""How disturbed a probe was: one threshold for the probe itself, for campaigns and for the check of a profile."""

from __future__ import annotations

from convolver.machine.profile import MachineProfile

UNSETTLED_SHARE = 0.2
"""A probe more of whose points than this did not settle was disturbed."""


def unsettled_share(profile: MachineProfile) -> float:
    """Return the share of the probe's points that did not settle; 0 where the profile does not say."""
    return float(profile.provenance.get("noise", {}).get("unstable_share", 0.0))


def was_disturbed(profile: MachineProfile) -> bool:
    """Tell whether so many of the points did not settle that the probe should be repeated."""
    return unsettled_share(profile) > UNSETTLED_SHARE

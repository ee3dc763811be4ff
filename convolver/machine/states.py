"""A machine and a moment: a probe on a shared host sees what other VMs left, not the machine; ``NAME@alone`` chooses.

- ``probed``: as the probe found it; what a prediction for this very host wants;
- ``alone``: the last level as large as the hardware reports, as where nobody else uses it; latencies and bandwidths, which no
  probe beside other VMs can distinguish from theirs, stay;
- ``usual``: medians over many hosts, which derived machines are (:mod:`convolver.machine.derived`);
- ``machine``: what somebody gets who chooses it: usual where that is known, else alone.
"""

from __future__ import annotations

from convolver.errors import UsageError
from convolver.machine.profile import MachineProfile
from convolver.machine.project import Changes, project

STATES = ("machine", "probed", "alone", "usual")
SEPARATOR = "@"


def is_another(name: str, projected: bool) -> bool:
    """True for a machine that stated changes made another one, which is more than a state of one that was measured."""
    return projected and SEPARATOR not in name


def in_state(profile: MachineProfile, state: str) -> MachineProfile:
    """Return the machine in a state, ``NAME@alone`` where that is another than the profile's.

    Raises :class:`UsageError` for an unknown state and for one that the profile does not tell.
    """
    derived = profile.provenance.get("kind") == "derived"
    if state not in STATES:
        raise UsageError(f"'{state}' is no state of a machine; choose {', '.join(STATES[:-1])} or {STATES[-1]}.")
    if state == "machine":
        state = "usual" if derived else "alone"
    if state == ("usual" if derived else "probed"):
        return profile
    if derived or state == "usual":
        known = "as it usually is" if derived else "as probed and alone"
        raise UsageError(f"'{profile.name}' is known {known} only; choose another state, or a machine that has this one.")
    return _alone(profile)


def both_states(profile: MachineProfile, state: str) -> tuple[MachineProfile, MachineProfile | None]:
    """Return the machine in a state, and in the other one that it is known in: alone and as probed; None where these are one."""
    chosen = in_state(profile, state)
    if profile.provenance.get("kind") == "derived":
        return chosen, None
    other = in_state(profile, "alone" if state == "probed" else "probed")
    return chosen, other if other.hierarchy != chosen.hierarchy else None


def _alone(profile: MachineProfile) -> MachineProfile:
    reported = {level.level: level.size_bytes for level in profile.hierarchy_reported}
    last = profile.hierarchy[-1]
    if reported.get(last.level, 0) <= last.size_bytes:
        return profile
    note = "As probed, but with the whole last level, as where no neighbor uses it."
    changes = Changes(sizes={last.level: reported[last.level]})
    return project(profile, f"{profile.name}{SEPARATOR}alone", changes, note=note)

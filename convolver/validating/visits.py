"""Probes of a campaign's conditions, spread over its native runs.

The last cache and memory are shared with other guests of the host and change within minutes. A profile of one moment would
differ from the median of a program's runs by what that moment was like, so each condition is probed many times, shortly, all
conditions right after one another, between the runs; the visits are merged as :func:`convolver.probing.merge_probes.merge` does.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from glob import escape
from pathlib import Path

import msgspec

from convolver.errors import ConvolverError, NoiseWarning
from convolver.machine.profile import SUFFIX, MachineProfile
from convolver.probing.machine_probe import choose_plan, probe
from convolver.probing.merge_probes import merge
from convolver.probing.plan import Plan
from convolver.progress import SILENT, Progress
from convolver.validating.campaign import Campaign, Condition
from convolver.validating.running import background_load
from convolver.validating.sharing import is_shared, wait_until_alone, witness_cycles

FOLDER = "visits"
LEAST = 3
"""Visits of all conditions that found the core alone; fewer are made up for at the end."""
MORE = 2
"""Visits at the end, at most."""
APART_SECONDS = 60.0
"""Beyond the least number of visits: sooner after the last one, a visit would see the same moment."""
_LOOKED = "witness_cycles"
"""Key of a visit's provenance: cycles of a taken branch right before or after it, the larger."""


def is_visited(condition: Condition, campaign: Campaign) -> bool:
    """Tell whether a condition has a profile of its own that is probed here.

    A quota has not: it takes time away, not speed, so it borrows the base's.
    """
    quota = condition.cpu_quota < 1 and condition.loaded_cpus == 0 and condition.pages == "default"
    return not condition.profile and (not quota or condition.name == campaign.base_name)


class Visits:
    """The visits of the conditions without a profile, each kept in a file as it ends; those that are there are not made again."""

    def __init__(self, campaign: Campaign, folder: Path, cpu: int, progress: Progress = SILENT) -> None:
        """``folder`` is that of the profiles."""
        self._campaign, self._folder, self._cpu, self._progress = campaign, folder, cpu, progress
        missing = [one for one in campaign.condition if not (folder / f"{one.name}{SUFFIX}").exists()]
        self.conditions = [one for one in missing if is_visited(one, campaign)]
        self._alone: dict[str, float] = {}
        self._last = -math.inf

    def make_due(self, number: int) -> dict[str, str]:
        """Probe every condition once unless that was done just now; returns why one could not be, by its name."""
        if number >= LEAST and time.monotonic() - self._last < APART_SECONDS:
            return {}
        return self.make(number)

    def make(self, number: int) -> dict[str, str]:
        """Probe every condition once; returns why one could not be, by its name."""
        refused: dict[str, str] = {}
        for condition in list(self.conditions):
            path = self._path(condition, number)
            if path.exists():
                continue
            try:
                self._visit(condition, number, path)
            except ConvolverError as error:
                refused[condition.name] = str(error)
                self.conditions.remove(condition)
        self._last = time.monotonic()
        return refused

    def make_up(self, number: int) -> None:
        """Visit again, from this number on, where the core was shared too often."""
        for more in range(number, number + MORE):
            if len(undisturbed([visits(self._folder, one) for one in self.conditions])) >= LEAST:
                return
            self.make(more)

    def _path(self, condition: Condition, number: int) -> Path:
        return self._folder / FOLDER / f"{condition.name}.{number}{SUFFIX}"

    def _visit(self, condition: Condition, number: int, path: Path) -> None:
        plan = visit_plan(choose_plan(full=self._campaign.probe == "full", cpu=self._cpu, pages=condition.pages), number)
        path.parent.mkdir(parents=True, exist_ok=True)
        with background_load(condition, self._cpu), warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)  # one round cannot settle; what counts is how the visits agree
            before = wait_until_alone(self._cpu, self._alone.get(condition.name, 0.0))
            profile = probe(plan, cpu=self._cpu, progress=self._progress)
            cycles = max(before, witness_cycles(self._cpu))
        looks = [one for one in (self._alone.get(condition.name), before, cycles) if one]
        self._alone[condition.name] = min(looks, default=0.0)
        provenance = {**profile.provenance, _LOOKED: round(cycles, 4)}
        msgspec.structs.replace(profile, name=condition.name, provenance=provenance).save(path)


def visit_plan(plan: Plan, number: int) -> Plan:
    """Return one round of a plan; what does not change with the moment, the core and the kernel above all, only now and then."""
    short = msgspec.structs.replace(plan, rounds=1, most_rounds=1, budget_seconds=0.0, patience_seconds=0.0)
    core, around = plan.core and number % 2 == 0, plan.surroundings and number == 0
    return msgspec.structs.replace(short, core=core, surroundings=around, loaded=plan.loaded if around else ())


def visits(folder: Path, condition: Condition) -> dict[int, MachineProfile]:
    """Return the visits of a condition that were kept, by number."""
    found = (folder / FOLDER).glob(f"{escape(condition.name)}.*{SUFFIX}")
    numbered = {int(number): path for path in found if (number := path.name[len(condition.name) + 1 : -len(SUFFIX)]).isdigit()}
    return {number: MachineProfile.load(numbered[number]) for number in sorted(numbered)}


def undisturbed(found: Sequence[Mapping[int, MachineProfile]]) -> set[int]:
    """Return the numbers of the visits that count, given those of all conditions: under most of them nothing shared the core.

    The conditions have them in common, so that the ratio of two profiles holds the conditions and not two different moments.
    Where there are fewer than two, all numbers count.
    """
    shared: dict[int, list[bool]] = defaultdict(list)
    for own in found:
        looks = {number: float(profile.provenance.get(_LOOKED, 0.0)) for number, profile in own.items()}
        alone = min((cycles for cycles in looks.values() if cycles > 0), default=0.0)
        for number, cycles in looks.items():
            shared[number].append(is_shared(cycles, alone))
    good = {number for number, these in shared.items() if 2 * sum(these) <= len(these)}
    return good if len(good) >= 2 else set(shared)


def merged_visits(folder: Path, condition: Condition, conditions: Sequence[Condition]) -> MachineProfile | None:
    """Return the profile of one of the conditions from its visits that count; None where there are none."""
    found = {one.name: visits(folder, one) for one in conditions}
    good = undisturbed(list(found.values()))
    own = [profile for number, profile in found[condition.name].items() if number in good]
    return merge(own) if len(own) > 1 else next(iter(own), None)

"""The machines of a campaign: a profile for each condition, merged from the visits under it or read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from convolver.calibration.calibrate import calibrated
from convolver.errors import ConvolverError, MachineError, SchemaError, UsageError
from convolver.foreign_text import decode_json, readable
from convolver.heavy import pl
from convolver.machine.catalog import find_machine
from convolver.machine.profile import SUFFIX, MachineProfile
from convolver.outputs import save_bytes
from convolver.probing.kernel import measure_kernel
from convolver.progress import SILENT, Progress
from convolver.validating.campaign import Campaign, Condition
from convolver.validating.running import background_load
from convolver.validating.validation_rows import differ_in_pages
from convolver.validating.visits import is_visited, merged_visits


def profiles(
    campaign: Campaign, here: Path, folder: Path, cpu: int, progress: Progress = SILENT, *, calibrate: bool = True
) -> tuple[dict[str, MachineProfile], dict[str, str]]:
    """Return the profile of each condition, and why a condition has none, once it was visited
    (:class:`convolver.validating.visits.Visits`); a profile left by an earlier campaign is used again, with the kernel's costs
    where it had none.

    What is kept is what was measured, so that a changed model is calibrated anew; not at all without ``calibrate``.
    """
    folder.mkdir(exist_ok=True)
    found: dict[str, MachineProfile] = {}
    refused: dict[str, str] = {}
    for condition in _in_order(campaign):
        try:
            profile = _with_core(_profile(condition, campaign, here, folder, cpu, found, progress), condition, campaign, found)
            wanted = calibrate and not profile.calibration
            like = found.get(campaign.base_name) if _same_pages(condition, campaign) else None
            found[condition.name] = calibrated(profile, like=like, progress=progress)[0] if wanted else profile
        except ConvolverError as error:
            refused[condition.name] = str(error)
    return found, refused


def _same_pages(condition: Condition, campaign: Campaign) -> bool:
    """Tell whether a condition is a state of the base's machine with the base's pages.

    With others, the fit finds other reasons for the same times.
    """
    base = campaign.base_condition
    return not condition.profile and not base.profile and condition.pages == base.pages


def _with_core(
    profile: MachineProfile, condition: Condition, campaign: Campaign, known: Mapping[str, MachineProfile]
) -> MachineProfile:
    """Return the profile with the base's figures of the core where only pages differ: these do not change the core, so another
    figure is what one of the two probes missed."""
    base = campaign.base_condition
    if base.name not in known or not differ_in_pages(condition, base):
        return profile
    return msgspec.structs.replace(profile, core=known[base.name].core, core_ports=known[base.name].core_ports)


def _in_order(campaign: Campaign) -> list[Condition]:
    """Return the base first: a quota borrows its profile."""
    return sorted(campaign.condition, key=lambda condition: condition.name != campaign.base_name)


def _profile(
    condition: Condition,
    campaign: Campaign,
    here: Path,
    folder: Path,
    cpu: int,
    known: Mapping[str, MachineProfile],
    progress: Progress,
) -> MachineProfile:
    if condition.profile:
        return _renamed(_profile_elsewhere(condition, here), condition)
    if not is_visited(condition, campaign) and campaign.base_name in known:
        return _renamed(known[campaign.base_name], condition)
    path = folder / f"{condition.name}{SUFFIX}"
    if path.exists():
        profile = MachineProfile.load(path)
        if profile.kernel:
            return profile
        with background_load(condition, cpu):  # an older probe did not ask what the kernel takes
            profile = msgspec.structs.replace(profile, kernel=measure_kernel(cpu, progress))
    else:
        visited = merged_visits(folder, condition, [one for one in campaign.condition if is_visited(one, campaign)])
        if visited is None:
            raise MachineError(f"The condition '{condition.name}' was not probed; measure again with --fresh.")
        profile = _renamed(visited, condition)
    profile.save(path)
    return profile


def _renamed(profile: MachineProfile, condition: Condition) -> MachineProfile:
    """Return the profile under the condition's name: machines of one simulation need different names."""
    return msgspec.structs.replace(profile, name=condition.name)


def elsewhere(campaign: Campaign, here: Path) -> dict[str, dict[tuple[str, str], float]]:
    """Return what was measured on other machines, by condition; raises, with the condition, what reading its times and finding
    its machine raise."""
    found = {}
    for condition in campaign.condition:
        if condition.profile:
            try:
                _profile_elsewhere(condition, here)
                found[condition.name] = measured_elsewhere(condition, here)
            except ConvolverError as error:
                raise type(error)(f"The condition '{condition.name}' cannot be had: {error}") from error
    return found


def _profile_elsewhere(condition: Condition, here: Path) -> MachineProfile:
    path = here / condition.profile
    return find_machine(path if path.is_file() else condition.profile)


def check_kept(campaign: Campaign, folder: Path) -> None:
    """Raise :class:`UsageError` where the profiles and runs that an earlier campaign left are of conditions that have changed;
    ``folder`` is that of the profiles, in which the conditions are noted."""
    note = folder / "conditions.json"
    known = decode_json(note.read_bytes(), str(note)) if note.exists() else {}
    known = known if isinstance(known, dict) else {}
    for one in campaign.condition:
        if not one.profile:
            now = {"loaded_cpus": one.loaded_cpus, "pages": one.pages, "cpu_quota": one.cpu_quota, "probe": campaign.probe}
            if known.setdefault(one.name, now) != now:
                raise UsageError(
                    f"The condition '{one.name}' was another one when {folder.parent} was measured; "
                    "measure again with --fresh, or name another folder with -o."
                )
    save_bytes(note, msgspec.json.encode(known))


def measured_elsewhere(condition: Condition, here: Path) -> dict[tuple[str, str], float]:
    """Return the seconds by (program, input) that were measured on another machine; raises :class:`FormatError`."""
    path = here / condition.times
    with readable(path):
        content = path.read_bytes()
    try:
        table = pl.read_csv(content, schema_overrides={"program": pl.String, "input": pl.String, "seconds": pl.Float64})
        rows = table.select("program", pl.col("input").fill_null(""), "seconds").rows()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        first = (str(error).strip().splitlines() or ["no reason"])[0]
        raise SchemaError(f"{path} needs the columns program, input and seconds: {first}") from error
    return {(program, name): seconds for program, name, seconds in rows if seconds is not None and seconds > 0}

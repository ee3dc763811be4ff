"""Machines by name: a profile ``NAME.machine.json`` in one of the machine folders, or any file given by its path."""

from __future__ import annotations

import platform
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from convolver.errors import UnknownMachineError, UsageError
from convolver.locations import files_in, machine_folders
from convolver.machine.derived import DERIVED_SUFFIX, Derivation
from convolver.machine.profile import SUFFIX, MachineProfile
from convolver.machine.states import SEPARATOR, in_state

MachineName = MachineProfile | str | Path
"""How every public function takes a machine: a profile, the name of one, or the path of its file."""
HOST = "host"
"""Stands for the machine that we run on, as ``convolver probe`` names it."""


class Entry(NamedTuple):
    """A machine that can be found by name."""

    name: str
    path: Path


def host_name() -> str:
    """Return the name under which this machine's profile is stored."""
    return platform.node().split(".")[0] or HOST


def list_machines() -> list[Entry]:
    """Return every machine that a name finds, by name; an earlier folder hides a later one's machine of the same name."""
    found: dict[str, Entry] = {}
    for folder in machine_folders():
        for suffix in (SUFFIX, DERIVED_SUFFIX):
            for path in files_in(folder, f"*{suffix}"):
                name = path.name.removesuffix(suffix)
                found.setdefault(name, Entry(name, path))
    return sorted(found.values())


def load_machine(path: Path) -> MachineProfile:
    """Return the profile in a file, that of a derived machine made from its base; raises what :meth:`MachineProfile.load` and
    :func:`find_machine` raise."""
    if not path.name.endswith(DERIVED_SUFFIX):
        return MachineProfile.load(path)
    derivation = Derivation.load(path)
    kernel_base = find_machine(derivation.kernel_base) if derivation.kernel_base else None
    return derivation.apply(find_machine(derivation.base), kernel_base)


def find_machine(name_or_path: str | Path) -> MachineProfile:
    """Return the machine of this name or in this file, in a state where one is named (``NAME@alone``,
    :mod:`convolver.machine.states`); ``host`` is this machine's own profile.

    Raises :class:`UnknownMachineError` for a name or a path that does not exist and whatever :meth:`MachineProfile.load` raises.
    """
    text = str(name_or_path)
    path = Path(text)
    name, separator, state = text.rpartition(SEPARATOR)
    if separator and "/" not in state and not path.exists():
        return in_state(find_machine(name), state)
    if path.is_file():
        return load_machine(path)
    if "," in text:
        raise UnknownMachineError(f"'{text}' are several machines; repeat the option for each.")
    if "/" in text or text.endswith(".json"):
        raise UnknownMachineError(f"There is no machine file {text}; `convolver machine list` shows the machines known by name.")
    wanted = [text, host_name()] if text == HOST else [text]
    entries = {entry.name: entry for entry in list_machines()}
    for name in wanted:
        if name in entries:
            return load_machine(entries[name].path)
    if text == HOST:
        raise UnknownMachineError("This machine has no profile yet; run `convolver probe` in this folder first.")
    near = get_close_matches(text, entries, n=1)
    meant = f" did you mean '{near[0]}'? Else" if near else ""
    raise UnknownMachineError(
        f"No machine is called '{text}';{meant} give a name that `convolver machine list` shows, or the path of a profile."
    )


def as_machine(machine: MachineName) -> MachineProfile:
    """Return a profile by name or path, or the profile itself.

    Raises :class:`UnknownMachineError` for an unknown one, :class:`UsageError` for something else.
    """
    if isinstance(machine, MachineProfile):
        return machine
    if not isinstance(machine, (str, Path)):
        raise UsageError(f"{type(machine).__name__} is no machine; give a profile, its name or the path of its file.")
    return find_machine(machine)

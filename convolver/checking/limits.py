"""Limits of programs, from a TOML file: the pinned machine, the threshold of a regression, the longest time of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from convolver.errors import FormatError, UnknownMachineError, UsageError
from convolver.foreign_text import decode_toml
from convolver.locations import BUNDLED_MACHINES
from convolver.machine.catalog import find_machine, load_machine
from convolver.machine.profile import SUFFIX, MachineProfile

MACHINE = "cloud-server"
"""Bundled profile that times are predicted for where nothing else is asked for."""
THRESHOLD = 0.01
"""Relative change of time that counts where nothing else is asked for: twice what two runs of one program may differ by."""
BASELINE = "convolver-baseline.json"
_FIELDS = {"machine": str, "threshold": float, "baseline": str, "program": dict}
_PROGRAM_FIELDS = {"threshold": float, "seconds": float}


class ProgramLimits(NamedTuple):
    """Limits of one program: relative ``threshold`` of a regression and longest ``seconds`` (None: any)."""

    threshold: float = THRESHOLD
    seconds: float | None = None


class Limits(NamedTuple):
    """What a file of limits says. ``folder`` is where paths start from; programs that are not listed have ``usual`` limits."""

    machine: str = MACHINE
    baseline: Path = Path(BASELINE)
    usual: ProgramLimits = ProgramLimits()
    programs: Mapping[str, ProgramLimits] = {}
    folder: Path = Path()

    @classmethod
    def load(cls, path: Path) -> Limits:
        """Read a file of limits; raises :class:`FormatError` for one that is missing, damaged or says something unknown."""
        try:
            document = decode_toml(path.read_bytes(), str(path))
        except OSError as error:
            raise FormatError(f"{path} cannot be read: {error.strerror}.") from error
        _check_fields(path, "the file", document, _FIELDS)
        usual = ProgramLimits(_threshold(path, document.get("threshold", THRESHOLD)))
        programs = {}
        for name, table in document.get("program", {}).items():
            if not isinstance(table, dict):
                raise FormatError(f"{path}: program.{name} is no table; write [program.{name}].")
            _check_fields(path, f"program.{name}", table, _PROGRAM_FIELDS)
            own = _threshold(path, table.get("threshold", usual.threshold))
            programs[name] = ProgramLimits(own, _seconds(path, table.get("seconds")))
        baseline = path.parent / document.get("baseline", BASELINE)
        return cls(document.get("machine", MACHINE), baseline, usual, programs, path.parent)

    def of(self, name: str) -> ProgramLimits:
        """Return the limits of a program."""
        return self.programs.get(name, self.usual)

    def pinned(self) -> MachineProfile:
        """Return the machine, the bundled one before any of that name on this computer, so that all runners have the same.

        Raises :class:`UnknownMachineError` and :class:`UsageError` for one that cannot be pinned.
        """
        if self.machine == "host":
            raise UsageError("'host' is another machine on each runner; pin one that `convolver machine list` names, or a file.")
        bundled = BUNDLED_MACHINES / f"{self.machine}{SUFFIX}"
        own = self.folder / self.machine
        try:
            return load_machine(bundled) if bundled.is_file() else find_machine(own if own.is_file() else self.machine)
        except UnknownMachineError as error:
            raise UnknownMachineError(f"The pinned machine cannot be found. {error}") from error


def _threshold(path: Path, value: float) -> float:
    if not 0 < value < 1:
        raise FormatError(f"{path}: a threshold of {value:g} is no share between 0 and 1; 0.01 is one percent.")
    return float(value)


def _seconds(path: Path, value: float | None) -> float | None:
    if value is not None and value <= 0:
        raise FormatError(f"{path}: {value:g} is no longest time; give seconds above 0.")
    return value


def _check_fields(path: Path, where: str, table: Mapping[str, Any], known: Mapping[str, type]) -> None:
    for name, value in table.items():
        if name not in known:
            raise FormatError(f"{path}: {where} has an unknown field '{name}'; known are {', '.join(known)}.")
        wanted = (int, float) if known[name] is float else known[name]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise FormatError(f"{path}: '{name}' of {where} has a wrong type.")

"""The baseline of a check: what programs took on the pinned machine when it was last updated, one JSON file for a repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from convolver import __version__
from convolver.checking.observed import Observed
from convolver.errors import FormatError, ProvenanceError
from convolver.foreign_text import decode_json
from convolver.machine.profile import MachineProfile
from convolver.outputs import save_text

_AGAIN = "`convolver check --update -- COMMAND` makes the baseline anew"


class CheckBaseline:
    """Programs by name, and what their times rest on: the machine's id and the version of Convolver.

    The file is meant for version control: it has a line a number, and no id that a merge would break.
    """

    def __init__(self, machine: MachineProfile, programs: dict[str, Observed] | None = None) -> None:
        self.machine = machine
        self.programs = programs or {}

    @classmethod
    def load(cls, path: Path, machine: MachineProfile, *, anew: bool = False) -> CheckBaseline:
        """Read a baseline, an empty one where there is no file or, with ``anew``, one for something else.

        Raises :class:`FormatError` for something else, :class:`ProvenanceError` for another machine or version of Convolver.
        """
        if not path.exists():
            return cls(machine)
        try:
            document = decode_json(path.read_bytes(), str(path))
            made = {name: document[name] for name in ("machine", "machine_id", "convolver")}
            programs = {name: Observed.read(one) for name, one in document["programs"].items()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, FormatError) as error:
            raise FormatError(f"{path} is no baseline ({error}); {_AGAIN}.") from error
        current = (made["machine_id"], made["convolver"]) == (machine.id, __version__)
        if anew:
            return cls(machine, programs if current else {})
        if made["machine_id"] != machine.id:
            raise ProvenanceError(f"{path} is for another machine or profile ('{made['machine']}'); {_AGAIN}.")
        if made["convolver"] != __version__:
            raise ProvenanceError(f"{path} was made by Convolver {made['convolver']}, this is {__version__}; {_AGAIN}.")
        return cls(machine, programs)

    def document(self) -> dict[str, Any]:
        """Return everything as a JSON-able document."""
        programs = {name: self.programs[name].document() for name in sorted(self.programs)}
        return {"machine": self.machine.name, "machine_id": self.machine.id, "convolver": __version__, "programs": programs}

    def save(self, path: Path) -> None:
        """Write the file; raises :class:`FormatError` when that fails."""
        text = json.dumps(self.document(), indent=1, ensure_ascii=False) + "\n"
        save_text(path, text)

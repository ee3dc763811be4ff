"""What can be known to fail is said before a program runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from convolver.errors import UsageError


def find_program(name: str) -> Path:
    """Return the file that a command names; raises :class:`UsageError` when there is none that can be executed."""
    if os.sep in name:
        path = Path(name)
        if not path.exists():
            raise UsageError(f"There is no program {name}; check the path behind '--'.")
        if path.is_dir() or not os.access(path, os.X_OK):
            raise UsageError(f"{name} cannot be executed; is it a program, and is it allowed (chmod +x)?")
        return path
    found = shutil.which(name)
    if found is None:
        raise UsageError(f"There is no program '{name}' on the path; give its file name behind '--'.")
    return Path(found)


def check_command(argv: Sequence[str]) -> list[str]:
    """Return the command as the tracer should run it."""
    if not argv:
        raise UsageError("There is nothing to trace; give a command behind '--'.")
    program = find_program(argv[0])
    # A relative path keeps its "./": without it, it would be looked up on the path.
    return [argv[0] if os.sep in argv[0] else str(program), *argv[1:]]

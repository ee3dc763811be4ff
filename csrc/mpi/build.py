"""Puts the interposer's sources into the package. Called by setup.py; it is compiled where it is used, with the site's mpicc."""

from __future__ import annotations

import shutil
from pathlib import Path

SOURCE = Path(__file__).resolve().parent


def copy_interposer(target: Path) -> str:
    """Copy the sources into ``target/mpi`` and return what was done."""
    folder = target / "mpi"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(SOURCE.glob("*.[ch]")):
        shutil.copy2(path, folder / path.name)
    return f"MPI interposer: sources in {folder}"

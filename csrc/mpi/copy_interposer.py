"""Puts the sources of the interposer and the ping-pong into the package; they are compiled with the site's mpicc where used."""

from __future__ import annotations

import shutil
from pathlib import Path

SOURCE = Path(__file__).resolve().parent


def copy_interposer(target: Path) -> str:
    """Copy the sources into ``target/mpi`` and return what was done."""
    folder = target / "mpi"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(SOURCE.parent / "include" / "cv_mpi_events.h", folder)
    for path in [*sorted(SOURCE.glob("*.[ch]")), *sorted(SOURCE.glob("*/*.[ch]"))]:
        to = folder / path.relative_to(SOURCE)
        to.parent.mkdir(exist_ok=True)
        shutil.copy2(path, to)
    return f"MPI interposer: sources in {folder}"

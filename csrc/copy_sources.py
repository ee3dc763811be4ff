"""Copies what is compiled with the user's own compiler, or the site's mpicc, into the package, where it is used."""

from __future__ import annotations

import shutil
from pathlib import Path

SOURCE = Path(__file__).resolve().parent


def copy_sources(target: Path) -> str:
    """Put the sources of CALL's runtime and of the MPI interposer, and the header of marks, into folders of ``target``.

    Returns what was done.
    """
    for name in ("call", "mpi"):
        shutil.rmtree(target / name, ignore_errors=True)
        shutil.copytree(SOURCE / name, target / name)
    shutil.copy2(SOURCE / "include" / "cv_mpi_events.h", target / "mpi")
    (target / "include").mkdir(exist_ok=True)
    shutil.copy2(SOURCE / "include" / "convolver_markers.h", target / "include")
    return f"CALL, MPI interposer and markers: sources in {target}"

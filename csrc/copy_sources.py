"""Copies what is compiled with the user's own compiler, or the site's mpicc, where it is used into the package."""

from __future__ import annotations

import shutil
from pathlib import Path

SOURCE = Path(__file__).resolve().parent


def copy_sources(target: Path) -> str:
    """Put the sources of CALL's runtime and of the MPI interposer into folders of ``target``; return what was done."""
    for name in ("call", "mpi"):
        shutil.rmtree(target / name, ignore_errors=True)
        shutil.copytree(SOURCE / name, target / name)
    shutil.copy2(SOURCE / "include" / "cv_mpi_events.h", target / "mpi")
    return f"CALL and MPI interposer: sources in {target}"

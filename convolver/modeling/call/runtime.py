"""Builds CALL's runtime library with the user's own compiler, which decides the MPI that it works with."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from convolver.errors import ToolError, ToolNotFoundError

_PACKAGED = Path(__file__).parents[2] / "_programs" / "call"
_CHECKOUT = Path(__file__).parents[3] / "csrc" / "call"


def sources() -> Path:
    """Return the folder of the runtime's sources; raises :class:`ToolNotFoundError` when the package lacks them."""
    for folder in (_CHECKOUT, _PACKAGED):
        if (folder / "convolver_call.h").exists():
            return folder
    raise ToolNotFoundError("The sources of the CALL runtime are missing; build or install Convolver again.")


def build_runtime(folder: str | Path, *, compiler: str = "cc", mpi: bool = False, fortran: str | None = None) -> Path:
    """Compile ``libconvolver_call.a`` into ``folder`` beside the header (and the Fortran module) and return its path.

    ``mpi`` adds the MPI and network drivers, for which ``compiler`` must be an MPI wrapper (mpicc, smpicc).
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    flags = ["-O2", "-std=gnu11", *(["-DCONVOLVER_CALL_MPI"] if mpi else [])]
    names = ["call", "drivers", *(["driver_mpi"] if mpi else [])]
    for name in names:
        _run([compiler, *flags, "-c", str(sources() / f"{name}.c"), "-o", str(target / f"{name}.o")])
    objects = [str(target / f"{name}.o") for name in names]
    if fortran:
        module = target / "convolver_call_module.o"
        _run([fortran, "-O2", f"-J{target}", "-c", str(sources() / "convolver_call.f90"), "-o", str(module)])
        objects.append(str(module))
    library = target / "libconvolver_call.a"
    library.unlink(missing_ok=True)
    _run(["ar", "rcs", str(library), *objects])
    for name in objects:
        Path(name).unlink()
    shutil.copyfile(sources() / "convolver_call.h", target / "convolver_call.h")
    return library


def _run(command: list[str]) -> None:
    if not shutil.which(command[0]):
        raise ToolNotFoundError(f"The compiler '{command[0]}' is not installed; name another one.")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "rror" in line), done.stderr.strip()[-200:])
        raise ToolError(f"{command[0]} could not compile the CALL runtime: {first.strip()}.")

"""The MPI libraries that are installed, each with a halo exchange compiled for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from convolver.mpi.capture import library_of


def _tools(family):
    for launcher, mpicc in ((f"mpirun.{family}", f"mpicc.{family}"), ("mpirun", "mpicc")):
        if shutil.which(launcher) and shutil.which(mpicc) and library_of(launcher) == family:
            return launcher, mpicc
    return None


@pytest.fixture(scope="module", params=["openmpi", pytest.param("mpich", marks=pytest.mark.slow)])
def library(request, tmp_path_factory):
    tools = _tools(request.param)
    if tools is None:
        pytest.skip(f"needs {request.param} with mpirun and mpicc")
    launcher, mpicc = tools
    program = tmp_path_factory.mktemp(request.param) / "halo"
    subprocess.run([mpicc, "-O2", "-w", Path(__file__).parents[3] / "examples" / "halo.c", "-o", program], check=True)
    words = [launcher, *(["--oversubscribe"] if request.param == "openmpi" else [])]
    return words, mpicc, program


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    # Open MPI refuses to run as root unless asked twice; busy waiting on two cores would take minutes.
    for name, value in {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_btl_base_warn_component_unused": "0",
    }.items():
        monkeypatch.setenv(name, value)

"""What the MPI campaign runs: the installed libraries, their programs, and repeated recordings."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpl_input import hpl_text

from convolver.mpi.capture import library_of, record
from convolver.mpi.recorded_ranks import RankRecording, as_events, read_ranks

HERE = Path(__file__).parent
QUIET = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
BOUND = ["--use-hwthread-cpus", "--oversubscribe", "--bind-to", "hwthread:overload-allowed", "--map-by", "hwthread"]


@dataclass(frozen=True)
class Library:
    """An MPI library: its launcher's words and its compiler."""

    name: str
    launcher: list[str]
    mpicc: str

    def command(self, ranks: int, program: list[str]) -> list[str]:
        """Return the command that starts a program."""
        return [*self.launcher, "-np", str(ranks), *program]


def libraries(*, bound: bool = True) -> Iterator[Library]:
    """Yield Open MPI and MPICH where they are installed, with ranks bound in turn (kernels spread them unevenly)."""
    free = {"openmpi": ["--oversubscribe", "--bind-to", "none"], "mpich": []}
    for name, extra in ({"openmpi": BOUND, "mpich": ["-bind-to", "hwthread"]} if bound else free).items():
        for launcher, mpicc in ((f"mpirun.{name}", f"mpicc.{name}"), ("mpirun", "mpicc")):
            if shutil.which(launcher) and shutil.which(mpicc) and library_of(launcher) == name:
                yield Library(name, [launcher, *extra], mpicc)
                break


def halo(library: Library, folder: Path) -> Path:
    """Compile the halo exchange."""
    binary = folder / f"halo2d.{library.name}"
    subprocess.run([library.mpicc, "-O2", str(HERE / "programs/halo2d.c"), "-o", str(binary)], check=True)
    return binary


def hpl_input(folder: Path, ranks: int, n: int = 1000) -> None:
    """Write the input of hpcc (and of its HPL alone)."""
    (folder / "hpccinf.txt").write_text(hpl_text(n, q=ranks, depth=0))
    (folder / "hpccoutf.txt").unlink(missing_ok=True)


def repeated(
    command: list[str], folder: Path, runs: int, *, mpicc: str | None = None, cwd: Path | None = None
) -> tuple[float, Path]:
    """Record a command several times; return the median run time (less the recorder's own) and that run's folder."""
    found = []
    for run in range(runs):
        target = folder / f"run{run}.mpi"
        record(command, target, mpicc=mpicc, cwd=cwd)
        found.append((run_seconds(read_ranks(target)), target))
    found.sort(key=lambda one: one[0])
    return statistics.median_low(seconds for seconds, _ in found), found[(len(found) - 1) // 2][1]


def run_seconds(ranks: list[RankRecording]) -> float:
    """Return the time between MPI_Init and MPI_Finalize less the recorder's own."""
    notes = as_events("run", ranks)[0].notes
    return float(notes["measured_seconds"]) - float(notes["recorder_seconds"])


def load() -> str:
    """Return the load of the host in words."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"

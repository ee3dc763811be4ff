"""Print how much slower HPL (Debian's hpcc, 4 ranks) runs under the tracer: processor time of all ranks over that of native runs.

``python tests/bench/tracer_hpl.py [--size 400] [--repeats 3] [--modes counts,hybrid,full]``. Each rank writes its stream to
/dev/null. hpcc runs its other kernels, too; all are in the time, and so is the start of Valgrind in every rank.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from hpl_input import hpl_text
from tracer_slowdown import TOOL_MODES

from convolver.tracing import valgrind

ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Haswell",  # Valgrind runs no AVX-512
}


def seconds(words: list[str], folder: Path) -> float:
    """Run hpcc on 4 ranks, each after ``words``; return their processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["mpirun", "--oversubscribe", "-np", "4", "sh", "-c", 'exec "$@" 3>/dev/null', "sh", *words, "hpcc"]
    environment = {**valgrind.tool_environment(), **ENVIRONMENT}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
    (folder / "hpccoutf.txt").unlink(missing_ok=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def slowdowns(modes: list[str], repeats: int, size: int, folder: Path) -> dict[str, float]:
    """Median of (processor time of the ranks under the tool) / (native of the same round), for each mode of the tool."""
    if not shutil.which("hpcc") or not shutil.which("mpirun"):
        raise SystemExit("no hpcc or no mpirun; install them with `apt install hpcc`")
    ratios: dict[str, list[float]] = {mode: [] for mode in modes}
    (folder / "hpccinf.txt").write_text(hpl_text(size, p=2, q=2))
    for _ in range(repeats):
        native = seconds([], folder)
        for mode in modes:
            counters = f"--counters={folder}/%p.counters"
            tool = valgrind.tool_command(["--wire-fd=3", counters, f"--log-file={os.devnull}", *TOOL_MODES[mode]])
            ratios[mode].append(seconds(tool, folder) / native)
            for path in folder.glob("*.counters"):
                path.unlink()
    return {mode: statistics.median(ratios[mode]) for mode in modes}


def main() -> None:
    """Measure and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--modes", default="counts,hybrid,full")
    options = parser.parse_args()
    modes = options.modes.split(",")
    with tempfile.TemporaryDirectory() as name:
        ratios = slowdowns(modes, options.repeats, options.size, Path(name))
    print("hpl, 4 ranks, medians: " + ", ".join(f"{mode} {ratios[mode]:.1f}" for mode in modes))


if __name__ == "__main__":
    main()

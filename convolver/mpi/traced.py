"""Runs MPI programs under the tracer: for what each rank executes in each burst, and for exact counts between MPI calls.

Bursts: the same run a second time, with the tracer between launcher and program. Counts: SimGrid SMPI runs all ranks in one
process, one after the other, and takes the processor time of what they compute: a preloaded clock of executed instructions makes
that time the count. Real ranks are each traced, and the interposer asks for the instructions where it would read the thread's
clock. Either way the trace of a busy machine is that of an idle one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from convolver.child_processes import end_with_parent, exit_status
from convolver.errors import ToolNotFoundError, TracerError, UsageError
from convolver.locations import program
from convolver.mpi.capture import MpiRecording, compile_with, record
from convolver.mpi.recorded_ranks import as_events, read_ranks
from convolver.tracing.reader import Trace
from convolver.tracing.valgrind import tool_command, tool_environment, tool_folder

FOLDER = "traced"
"""Where in a recording's folder the traced run lies."""

BURST_EXECUTIONS = 1_000_000
"""Bursts are counted together until this many executions of code segments: a millisecond or two of a native run."""

_VALUES = {"-np": 1, "-n": 1, "-c": 1, "-x": 1, "-H": 1, "-ppn": 1, "-f": 1, "-wdir": 1, "-env": 2, "-genv": 2}
_VALUES |= {"--mca": 2, "-mca": 2, "--map-by": 1, "--bind-to": 1, "--rank-by": 1, "--host": 1, "--hostfile": 1, "--ppn": 1}
_VALUES |= {"-host": 1, "-hostfile": 1, "--wdir": 1, "-bind-to": 1, "-map-by": 1, "--tag-output": 0, "--ntasks": 1, "-N": 1}


def program_at(argv: Sequence[str]) -> int:
    """Return where in a launcher's command the program stands: the first executable that is no option and no option's value.

    Raises :class:`UsageError` where there is none.
    """
    at = 1
    while at < len(argv):
        word = argv[at]
        if word == "--" and at + 1 < len(argv):
            return at + 1
        if word.startswith("-"):
            at += 1 + _VALUES.get(word, 0)
        elif shutil.which(word) is not None:
            return at
        else:
            at += 1
    raise UsageError(f"No program is seen in '{' '.join(argv)}'; give its path, as in: mpirun -np 4 ./app.")


def yielding() -> dict[str, str]:
    """Return the settings by which a rank that waits does not keep others from running: traced, ranks mostly wait."""
    name = "OMPI_MCA_mpi_yield_when_idle"
    return {} if name in os.environ else {name: "1"}


def record_blocks(
    argv: Sequence[str],
    folder: str | Path,
    *,
    mpicc: str | None = None,
    options: Sequence[str] = (),
    executions: int = BURST_EXECUTIONS,
) -> MpiRecording:
    """Run an MPI command under the tracer and the interposer into ``folder/traced``: a trace and the bursts' counts a rank.

    ``options`` go to ``convolver trace``; ``executions`` is how finely bursts are distinguished (1: each on its own). Raises what
    :func:`convolver.mpi.capture.record` raises, and :class:`TracerError` when a rank left no trace.
    """
    target = Path(folder).resolve() / FOLDER
    target.mkdir(parents=True, exist_ok=True)
    for old in [*target.glob("rank-*.cvb"), *target.glob("rank-*.cvt"), *target.glob("rank-*.sig.parquet")]:
        old.unlink()
    at = program_at(argv)
    tracer = [sys.executable, "-m", "convolver", "trace", "-o", str(target / "rank-%r.cvt"), *options, "--"]
    settings = {"CONVOLVER_MPI_BURSTS": str(executions), **yielding()}
    done = record([*argv[:at], *tracer, *argv[at:]], target, mpicc=mpicc, settings=settings)
    ranks = len(done.files)
    traces = len(list(target.glob("rank-*.cvt"))), len(list(target.glob("rank-*.cvb")))
    left = [why for path in sorted(target.glob("rank-*.cvt")) for why in Trace.load(path).header.get("went_native", ())]
    if left:
        raise TracerError(f"The ranks ran on natively because of {left[0]}; record them with --engine valgrind.")
    if traces != (ranks, ranks):
        raise TracerError(
            f"Of {ranks} ranks {traces[0]} left a trace and {traces[1]} counts of their bursts; see what they said."
        )
    return done


def count(argv: Sequence[str], output: str | Path, *, mpicc: str | None = None) -> int:
    """Run an MPI command under the tracer, write its trace with counted work as ``output`` and return the exit status.

    ``smpirun`` gives a time-independent trace (.txt), another launcher, whose ranks are real, an events artifact (.parquet);
    :func:`convolver.mpi.sources.load_operations` reads both. One unit of work is one instruction; in events that is a
    nanosecond. Raises :class:`UsageError` for a name with another ending, :class:`ToolNotFoundError` without SimGrid, Valgrind, a
    compiler or mpicc, and :class:`TracerError` when the run left no trace or its ranks were not counted.
    """
    if not argv:
        raise UsageError("No command is given; write for example: convolver mpi count -o T.parquet -- mpirun -np 4 ./app.")
    simulated = Path(argv[0]).name == "smpirun"
    wanted = ".txt" if simulated else ".parquet"
    if Path(output).suffix != wanted:
        raise UsageError(f"The counts of {Path(argv[0]).name} are written as *{wanted}; name {output} like that.")
    return _simulated(argv, Path(output).resolve()) if simulated else _real(argv, Path(output), mpicc)


def _simulated(argv: Sequence[str], target: Path) -> int:
    if shutil.which(argv[0]) is None:
        raise ToolNotFoundError("smpirun is not installed; install SimGrid (Debian: libsimgrid-dev).")
    settings = {"tracing/filename": str(target), "smpi/host-speed": "1Gf", "smpi/cpu-threshold": "0"}
    words = ["-trace-ti", *(f"--cfg={name}:{value}" for name, value in settings.items())]
    wrapper = ["-wrapper", " ".join(tool_command(["--total=yes"]))]
    clock = _clock()
    before = os.environ.get("LD_PRELOAD")
    environment = tool_environment({**os.environ, "LD_PRELOAD": f"{clock}:{before}" if before else str(clock)})
    command = [argv[0], *words, *wrapper, *argv[1:]]
    status = exit_status(subprocess.run(command, env=environment, check=False, preexec_fn=end_with_parent()).returncode)
    if not target.is_file() or not target.read_text().strip():
        raise TracerError(f"The run left no trace (exit status {status}); see what smpirun said.")
    return status


def _real(argv: Sequence[str], target: Path, mpicc: str | None) -> int:
    at = program_at(argv)
    settings = {"VALGRIND_LIB": str(tool_folder()), "CONVOLVER_MPI_CPU_CLOCK": "instructions", **yielding()}
    with tempfile.TemporaryDirectory() as folder:
        done = record([*argv[:at], *tool_command(["--total=yes"]), *argv[at:]], folder, mpicc=mpicc, settings=settings)
        ranks = read_ranks(folder)
        if not all(rank.header["counted"] for rank in ranks):
            raise TracerError(f"The instructions of {argv[at]} were not counted; put '--' before the program in the command.")
        events, _ = as_events(target.name, ranks)
        events.save(target)
    return done.exit_status


def _clock() -> Path:
    """Return the clock of instructions, compiled at first use."""
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        raise ToolNotFoundError(f"No C compiler ({compiler}) is installed; install one (Debian: gcc).")
    sources = program("mpi", "build the package again.")
    return compile_with(compiler, [sources / "counted" / "clock.c"], ("-O2", "-shared", "-fPIC"), "libconvolver-clock-{}.so")

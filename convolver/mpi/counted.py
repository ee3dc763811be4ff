"""Runs SimGrid SMPI so that its time-independent trace holds exact counts: the instructions between MPI calls, not their time.

SMPI runs all ranks in one process, one after the other, and takes the processor time of what they compute. Under the tracer, with
a clock of executed instructions preloaded, that time is the count: the same on a busy machine as on an idle one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from convolver.errors import ToolNotFoundError, TracerError, UsageError
from convolver.locations import program
from convolver.mpi.capture import compile_with
from convolver.tracing.valgrind import tool_command, tool_environment


def count(argv: Sequence[str], output: str | Path) -> int:
    """Run an ``smpirun`` command under the tracer, write its time-independent trace as ``output`` and return the exit status.

    One unit of work in the trace is one instruction; :func:`convolver.modeling.p3s.trace.read_ti` reads it. Raises
    :class:`UsageError` for another launcher, :class:`ToolNotFoundError` without SimGrid, Valgrind or a C compiler, and
    :class:`TracerError` when the run left no trace.
    """
    if not argv or Path(argv[0]).name != "smpirun":
        raise UsageError("Only runs of SimGrid SMPI can be counted like this; write: convolver mpi count -o T.txt -- smpirun ...")
    if shutil.which(argv[0]) is None:
        raise ToolNotFoundError("smpirun is not installed; install SimGrid (Debian: libsimgrid-dev).")
    target = Path(output).resolve()
    settings = {"tracing/filename": str(target), "smpi/host-speed": "1Gf", "smpi/cpu-threshold": "0"}
    words = ["-trace-ti", *(f"--cfg={name}:{value}" for name, value in settings.items())]
    wrapper = ["-wrapper", " ".join(tool_command(["--total=yes"]))]
    clock = _clock()
    before = os.environ.get("LD_PRELOAD")
    environment = tool_environment({**os.environ, "LD_PRELOAD": f"{clock}:{before}" if before else str(clock)})
    status = subprocess.run([argv[0], *words, *wrapper, *argv[1:]], env=environment, check=False).returncode
    if not target.is_file() or not target.read_text().strip():
        raise TracerError(f"The run left no trace (exit status {status}); see what smpirun said.")
    return status


def _clock() -> Path:
    """Return the clock of instructions, compiled at first use."""
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        raise ToolNotFoundError(f"No C compiler ({compiler}) is installed; install one (Debian: gcc).")
    sources = program("mpi", "build the package again.")
    return compile_with(compiler, [sources / "counted" / "clock.c"], ("-O2", "-shared", "-fPIC"), "libconvolver-clock-{}.so")

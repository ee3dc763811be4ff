"""Records what each rank executes in each burst: the same run a second time, with the tracer between launcher and program."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from convolver.errors import TracerError, UsageError
from convolver.mpi.capture import MpiRecording, record
from convolver.tracing.reader import Trace

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

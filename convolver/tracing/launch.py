"""Where a traced process stands among others: its rank under an MPI launcher, and file names that say so."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

RANK_VARIABLES = (
    "OMPI_COMM_WORLD_RANK",  # Open MPI
    "PMI_RANK",  # MPICH, Intel MPI
    "PMIX_RANK",
    "MV2_COMM_WORLD_RANK",
    "SLURM_PROCID",
)


def rank(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return this process's rank as its launcher tells it, or None outside a launcher."""
    for name in RANK_VARIABLES:
        if environment.get(name, "").isdigit():
            return int(environment[name])
    return None


def descriptors(environment: Mapping[str, str] = os.environ) -> tuple[int, ...]:
    """Return the open file descriptors that a launcher handed to this rank (MPICH's PMI_FD) and the program needs."""
    number = environment.get("PMI_FD", "")
    if not number.isdigit():
        return ()
    try:
        os.fstat(int(number))
    except OSError:
        return ()
    return (int(number),)


def expand_name(pattern: str | Path, environment: Mapping[str, str] = os.environ, process: int | None = None) -> Path:
    """Return a file name with ``%r`` replaced by the rank (0 outside a launcher), ``%p`` by the process id, ``%%`` by ``%``."""
    values = {"r": str(rank(environment) or 0), "p": str(process or os.getpid()), "%": "%"}
    parts = str(pattern).split("%")
    result, at = parts[0], 1
    while at < len(parts):
        part = parts[at]
        if not part and at + 1 < len(parts):
            result += "%" + parts[at + 1]
            at += 2
            continue
        result += values[part[0]] + part[1:] if part[:1] in ("r", "p") else "%" + part
        at += 1
    return Path(result)


def default_name(command: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return ``COMMAND.cvt``, under an MPI launcher ``COMMAND.RANK.cvt``."""
    name = Path(command).name
    number = rank(environment)
    return Path(f"{name}.cvt" if number is None else f"{name}.{number}.cvt")

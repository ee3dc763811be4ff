"""Makes a campaign's programs ready: inputs, compiled sources, and which of them cannot be run here."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from convolver.errors import ConvolverError, ToolError
from convolver.validating.campaign import Campaign, Job, Program, fill


def prepare(campaign: Campaign, here: Path, folder: Path) -> tuple[list[Job], dict[str, str]]:
    """Run the campaign's preparations in ``folder``; returns what can run, and why the rest was left out, by program.

    Raises :class:`ToolError` when a preparation fails: all that follows would measure something else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for words in campaign.prepare:
        command = [fill(word, {"{here}": str(here), "{python}": sys.executable}) for word in words]
        _run(command, folder, f"The preparation '{shlex.join(words)}'")
    left_out = {}
    for program in campaign.program:
        reason = _build(program, here, folder) if program.source else None
        if reason:
            left_out[program.name] = reason
    jobs = []
    for job in campaign.jobs(here, folder):
        Path(job.folder).mkdir(parents=True, exist_ok=True)
        if job.program not in left_out and (reason := _missing(job)):
            left_out[job.program] = reason
        if job.program not in left_out:
            jobs.append(job)
    return jobs, left_out


def _run(command: Sequence[str], folder: Path, what: str) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ToolError(f"{what} cannot be started: {error.strerror}.") from error
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise ToolError(f"{what} failed with status {done.returncode}; it said: {said}")


def _build(program: Program, here: Path, folder: Path) -> str | None:
    """Compile a program where its source is newer; returns why it could not be."""
    source, target = here / program.source, folder / program.name
    if not source.is_file():
        return f"its source {source} does not exist"
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return None
    try:
        _run(["cc", "-g", *program.flags, "-o", str(target), str(source), "-lm"], folder, f"The compilation of {source.name}")
    except ConvolverError as error:
        return str(error)
    return None


def _missing(job: Job) -> str | None:
    name = job.command[0]
    found = (Path(job.folder) / name).exists() if "/" in name else shutil.which(name)
    if found:
        cpus = len(os.sched_getaffinity(0))
        return f"it has {job.threads} threads, and this machine {cpus} CPUs" if job.threads > cpus else None
    return f"'{name}' is not installed" + (f" (apt-get install {job.package})" if job.package else "")

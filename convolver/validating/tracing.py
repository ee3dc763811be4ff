"""Traces of a campaign's programs, each made once and kept."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from convolver.child_processes import end_with_parent
from convolver.errors import TracerError
from convolver.outputs import save_bytes
from convolver.tracing.native_engine import engine_program
from convolver.tracing.valgrind import TOOL, tool_folder
from convolver.validating.campaign import Campaign, Job, Mode


class Traced(NamedTuple):
    """Where a trace lies, and the processor seconds that the traced run and its recording took."""

    path: Path
    processor_seconds: float


def _options(campaign: Campaign, mode: Mode) -> list[str]:
    engine = [] if campaign.engine == "auto" else ["--engine", campaign.engine]
    if mode == "full":
        return ["--full", *engine]
    return ["--interval", campaign.interval, "--sample", campaign.sample, "--sets", str(campaign.sets), *engine]


@cache
def _tracer_id(engine: str) -> str:
    """Return a hash of what records: another one may record other things."""
    program = engine_program() if engine == "native" else tool_folder() / TOOL
    return hashlib.sha256(program.read_bytes()).hexdigest()[:16]


def trace_job(job: Job, campaign: Campaign, mode: Mode, folder: Path) -> Traced:
    """Return the trace of a job, made now unless an earlier campaign left the same by the same tracer.

    Raises :class:`TracerError`.
    """
    folder.mkdir(exist_ok=True)
    path, note = folder / f"{job.name}.{mode}.cvt", folder / f"{job.name}.{mode}.json"
    options = _options(campaign, mode)
    wanted = {"job": job.key, "options": options, "tracer": _tracer_id(campaign.engine)}
    if path.exists() and note.exists():
        known = msgspec.json.decode(note.read_bytes())
        if {key: known.get(key) for key in wanted} == wanted:
            return Traced(path, known["processor_seconds"])
    note.unlink(missing_ok=True)
    seconds = _trace(job, options, path)
    save_bytes(note, msgspec.json.encode({**wanted, "processor_seconds": seconds}))
    return Traced(path, seconds)


def _trace(job: Job, options: list[str], path: Path) -> float:
    """Run the tracer in a process of its own, in the job's folder and environment; returns its processor seconds."""
    command = [sys.executable, "-m", "convolver", "trace", *options, "--force", "-o", str(path.resolve()), "--", *job.command]
    environment = {**os.environ, **job.environment}
    with subprocess.Popen(
        command,
        cwd=job.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        preexec_fn=end_with_parent(),
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read().strip().splitlines()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != job.status:
        raise TracerError(f"Tracing {job.name} ended with status {process.returncode}; it said: {(said or ['nothing'])[-1]}")
    return usage.ru_utime + usage.ru_stime

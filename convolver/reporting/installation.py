"""What Convolver needs of this machine: which parts are there, which are missing, and the command that gets each."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from convolver.errors import ConvolverError

DEBIAN = "apt install {}"
REBUILD = "pip install --force-reinstall --no-deps convolver   (in a checkout: make setup)"
CONTAINER_ONLY = "run on Linux on x86-64, for example in a container"


@dataclass(frozen=True)
class Check:
    """One part: ``needed`` when the chain probe, trace, simulate, predict cannot run without it.

    ``detail`` is a version, a path or why it is not usable; ``get`` the command that gets it, empty where it is there.
    """

    part: str
    what_for: str
    needed: bool
    found: bool
    detail: str
    get: str = ""

    def document(self) -> dict[str, Any]:
        """Return the check as a JSON-able object."""
        return asdict(self)


def _version_of(command: str, *arguments: str) -> str:
    """Return the first line that a program says of itself; empty where it does not run."""
    try:
        done = subprocess.run([command, *arguments], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0].strip() if lines and done.returncode == 0 else ""


def _program(part: str, what_for: str, packages: str, *, names: tuple[str, ...] = ()) -> Check:
    path = next((found for name in names or (part,) if (found := shutil.which(name))), None)
    if path is None:
        return Check(part, what_for, False, False, "not on the path", DEBIAN.format(packages))
    return Check(part, what_for, False, True, _version_of(path, "--version") or path)


def _module(part: str, what_for: str, extra: str) -> Check:
    if importlib.util.find_spec(part) is None:
        return Check(part, what_for, False, False, "not installed", f"pip install 'convolver[{extra}]'")
    try:
        version = importlib.metadata.version(part)
    except importlib.metadata.PackageNotFoundError:
        version = "version unknown"
    return Check(part, what_for, False, True, version)


def _tried(part: str, what_for: str, get: str, attempt: Callable[[], str]) -> Check:
    """Return a needed part's check from an attempt to use it; what it raises says why it is not usable."""
    try:
        return Check(part, what_for, True, True, attempt())
    except (ConvolverError, ImportError, OSError) as error:
        return Check(part, what_for, True, False, str(error).splitlines()[0], get)


def _system() -> Check:
    name = f"{platform.system()} on {platform.machine()}, Python {platform.python_version()}"
    good = sys.platform.startswith("linux") and platform.machine() in ("x86_64", "AMD64")
    return Check("system", "everything", True, good, name, "" if good else CONTAINER_ONLY)


def _core() -> str:
    from convolver._native import _core

    return str(Path(str(_core.__file__)).name)


def _probe() -> str:
    from convolver.probing.runner import list_kernels

    kernels, compiler = list_kernels()
    usable = sum(kernel.supported for kernel in kernels.values())
    return f"{usable} of {len(kernels)} kernels run here, {compiler}"


def _tracer() -> str:
    from convolver.tracing.valgrind import tool_command, tool_environment

    command = [*tool_command([]), "--help"]
    done = subprocess.run(command, env=tool_environment(), capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise OSError(f"the tool does not start under this Valgrind: {reason}")
    return _version_of(command[0], "--version")


def _engine() -> str:
    from convolver.tracing.native_engine import engine_program, refusal

    why = refusal()
    if why is not None:
        raise OSError(why)
    return engine_program().name


def _tracers() -> list[Check]:
    """Either engine suffices."""
    rebuilt = f"{DEBIAN.format('gcc valgrind')}; {REBUILD}"
    allowed = f"{DEBIAN.format('gcc')}; {REBUILD}; in a container: docker run --cap-add=SYS_PTRACE"
    found = [
        _tried("tracer", "convolver trace --engine valgrind", rebuilt, _tracer),
        _tried("native engine", "convolver trace --engine native", allowed, _engine),
    ]
    needed = not any(check.found for check in found)
    return [replace(check, needed=needed) for check in found]


def _machine() -> Check:
    from convolver.machine.catalog import HOST, find_machine

    part, what_for, get = "host profile", "--base host; predict makes it where it is missing", "convolver probe --quick"
    try:
        profile = find_machine(HOST)
    except ConvolverError as error:
        return Check(part, what_for, False, False, str(error), get)
    return Check(part, what_for, False, True, f"{profile.name}, {len(profile.maps)} curves")


def _quiet() -> Check:
    """Say whether others use this machine now: the usual reason for noisy measurements."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = os.getloadavg()[0]
    quiet = load < max(0.5, 0.25 * cores)
    detail = f"{cores} CPUs, load {load:.2f}" + ("" if quiet else ": measurements taken now will be noisy")
    return Check(
        "quiet machine",
        "trustworthy measurements",
        False,
        quiet,
        detail,
        "" if quiet else "uptime   (wait until the load is low)",
    )


def checks() -> list[Check]:
    """Return all checks, the needed parts first."""
    return [
        _system(),
        _tried("C core", "simulate, replay, reading traces", REBUILD, _core),
        _tried("probe", "convolver probe", f"{DEBIAN.format('gcc')}; {REBUILD}", _probe),
        *_tracers(),
        _program("gcc", "building your programs with -g", "gcc", names=("gcc", "cc")),
        _module("matplotlib", "convolver plot", "plot"),
        _module("distributed", "many machines on many nodes", "dask"),
        _program("mpicc", "recording MPI programs", "libopenmpi-dev openmpi-bin"),
        _program("mpirun", "recording MPI programs", "openmpi-bin"),
        _program("callgrind_annotate", "reading `convolver export callgrind`", "valgrind"),
        _machine(),
        _quiet(),
    ]


def ready(found: list[Check]) -> bool:
    """Return whether the chain probe, trace, simulate, predict can run."""
    return all(check.found for check in found if check.needed)

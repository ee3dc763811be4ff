"""Builds the probe binary. Called by setup.py; needs nothing but the standard library and a C compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
NAME = "convolver-probe"
STATIC = "convolver-probe-static"
"""The same without libraries, to be copied to other machines (``convolver probe --bundle``); not built without a static libc."""

# Vectorizing or merging what a kernel does one by one would measure something else.
FLAGS = ["-std=gnu11", "-O2", "-fno-tree-vectorize", "-fno-tree-slp-vectorize", "-fno-lto", "-Wall", "-Wextra", "-pthread"]
_BUILT = "probe built with"


def _compiler() -> list[str] | None:
    chosen = shlex.split(os.environ.get("CC", ""))
    for command in [chosen, ["cc"], ["gcc"], ["clang"]]:
        if command and shutil.which(command[0]):
            return command
    return None


def sources() -> list[Path]:
    """Return the files that make the probe binary."""
    folders = (".", "kernels", "recorded", "core", "system")
    return sorted(path for folder in folders for path in (SOURCES / folder).glob("*.c"))


def build_probe(target: Path) -> str:
    """Compile the probe binary into the folder ``target`` and return one sentence about it; never raises.

    A machine without a compiler gets everything but ``convolver probe``.
    """
    compiler = _compiler()
    if compiler is None:
        return "probe not built: no C compiler found (install gcc)."
    said = _build(compiler, target, NAME, [])
    _build(compiler, target, STATIC, ["-static"])
    return said


def _build(compiler: list[str], target: Path, name: str, more: list[str]) -> str:
    """Build the probe with GCC's runtime of OpenMP where the compiler finds it as an archive, else without."""
    said = _compile(compiler, target, name, ["-DCV_OPENMP", *more], ["-l:libgomp.a"])
    return said if said.startswith(_BUILT) else _compile(compiler, target, name, more, [])


def _compile(compiler: list[str], target: Path, name: str, options: list[str], libraries: list[str]) -> str:
    files = [str(path.relative_to(SOURCES)) for path in sources()]
    try:
        target = Path(target).resolve()
        target.mkdir(parents=True, exist_ok=True)
        unfinished = target / f".{name}.{os.getpid()}"
        command = [*compiler, *FLAGS, *options, "-o", str(unfinished), *files, *libraries, "-lm"]
        done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            unfinished.unlink(missing_ok=True)
            return f"probe not built: {(done.stderr.strip().splitlines() or ['the compiler failed'])[0]}"
        unfinished.replace(target / name)
    except (OSError, subprocess.SubprocessError) as error:
        return f"probe not built: {error}"
    return f"{_BUILT} {compiler[0]}."

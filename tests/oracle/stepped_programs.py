"""Executions of each address of a program: by single steps, and by the native engine, up to the same system call."""

from __future__ import annotations

import collections
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from convolver.tracing.native_engine import engine_program

HERE = Path(__file__).resolve().parent
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0"}
"""Both have the same one: its length moves the stack, and string functions branch on that."""
LAST_CALL = "--last-call="
FIRST_CPU = min(os.sched_getaffinity(0))
SECONDS = 2.0
"""A program that is stepped through ends natively in so many."""


def build_stepper(folder: Path) -> Path:
    """Compile the program that steps; return its path."""
    subprocess.run(["gcc", "-O2", "-o", folder / "single_step", HERE / "single_step.c"], check=True)
    return folder / "single_step"


def _run(folder: Path, command: Sequence[str | Path], cpu: int) -> bytes:
    """Run a command where two runs are as alike as can be, on one CPU: programs ask how many they may use."""
    run = ["taskset", "-c", str(cpu), "setarch", "-R", *command]
    return subprocess.run(
        run, env=ENVIRONMENT, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    ).stdout


def stepped(stepper: Path, folder: Path, command: Sequence[str], limit: int, cpu: int = FIRST_CPU) -> tuple[int, dict[int, int]]:
    """Step through the command; return the number of the system call it was left at (0: its end), executions by address."""
    _run(folder, [stepper, folder / "steps", str(limit), *command], cpu)
    return kept_steps(folder)


def kept_steps(folder: Path) -> tuple[int, dict[int, int]]:
    """Return what was stepped last in the folder."""
    call, *lines = (folder / "steps").read_text().splitlines()
    return int(call), {int(a, 16): int(n) for a, n in (line.split() for line in lines)}


def counted(folder: Path, command: Sequence[str], *options: str, cpu: int = FIRST_CPU) -> tuple[dict[int, int], bytes]:
    """Run the command under the engine; return executions by address, and what it wrote."""
    table = folder / "counted"
    engine = [engine_program(), f"--dump={table}", f"--log-file={folder / 'log'}", *options, "--", *command]
    output = _run(folder, engine, cpu)
    counts: collections.Counter[int] = collections.Counter()
    for line in table.read_text().splitlines():
        first, runs, _, *lengths = line.split()
        address = int(first, 16)
        for length in lengths:
            counts[address] += int(runs)
            address += int(length)
    return {a: n for a, n in counts.items() if n}, output


def differences(truth: dict[int, int], found: dict[int, int]) -> list[tuple[int, int, int]]:
    """Return addresses with different counts: address, the true one, the one that was found."""
    return [(a, truth.get(a, 0), found.get(a, 0)) for a in sorted(truth.keys() | found.keys()) if truth.get(a) != found.get(a)]


def installed_programs() -> Iterator[list[str]]:
    """Yield commands: each 64-bit program of /usr/bin that says its version in two seconds."""
    for path in sorted(Path("/usr/bin").iterdir()):
        head = path.read_bytes()[:18] if path.is_file() and os.access(path, os.X_OK) else b""
        if head[:5] != b"\x7fELF\x02" or path.stat().st_mode & 0o6000 or path.is_symlink():
            continue
        command = [str(path), "--version"]
        try:
            with tempfile.TemporaryDirectory() as folder, open(os.devnull, "r+b") as null:
                run = subprocess.run(command, env=ENVIRONMENT, cwd=folder, stdin=null, stdout=null, stderr=null, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            continue
        if run.returncode == 0:
            yield command

"""The processes of a traced command: what the kernel knows of them, and the names of their files."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from convolver.tracing.launch import expand_name, rank
from convolver.tracing.session import Outcome


@dataclass(frozen=True)
class Process:
    """One traced program of a process: its number, its place among those of that number, its parent, rank and command."""

    pid: int
    program: int
    parent: int
    rank: int | None
    command: list[str]
    environment: Mapping[str, str]
    started: float
    """Seconds from the machine's start to that of the process, or until a program that replaced another one was found."""
    forked: bool | None = None
    """Whether it begins in the middle of its parent's program; None: that is not known."""
    tracer: int | None = None
    """Process that writes its stream; None: itself."""

    @classmethod
    def of(cls, pid: int, program: int) -> Process:
        """Read what the kernel knows of a process that waits for its reader."""
        words = _words(pid, "cmdline")[1:]
        while words and words[0].startswith("-"):  # the tracer's own options
            words = words[1:]
        entries = (entry.partition("=") for entry in _words(pid, "environ"))
        environment = {name: value for name, _, value in entries}
        parent, started = _parent_and_start(pid)
        if program > 0:
            started = time.clock_gettime(time.CLOCK_BOOTTIME)
        return cls(pid, program, parent, rank(environment), words or ["?"], environment, started)

    @classmethod
    def of_engine(cls, pid: int, program: int, stream: Path) -> Process:
        """Read what the native engine knows of a process, which may have ended (``write_about`` in engine_family.c)."""
        head, _, words = stream.with_name(f"{stream.name}.about").read_bytes().partition(b"\n")
        parent, started, tracer, forked, size = head.split()
        command = [os.fsdecode(word) for word in words[: int(size)].split(b"\0")[:-1]]
        entries = (os.fsdecode(entry).partition("=") for entry in words[int(size) :].split(b"\0")[:-1])
        environment = {name: value for name, _, value in entries}
        known = int(parent), rank(environment), command or ["?"], environment, float(started)
        return cls(pid, program, *known, forked == b"1", int(tracer))

    @property
    def order(self) -> tuple[float, int, int]:
        """Sorts programs by their start, whenever they were found: process numbers begin anew after the largest."""
        return self.started, self.pid, self.program


def _parent_and_start(pid: int) -> tuple[int, float]:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0, 0.0
    fields = status.rpartition(")")[2].split()  # the third field of proc(5) and those after it
    return int(fields[1]), int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _words(pid: int, name: str) -> list[str]:
    try:
        data = Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return []
    return [os.fsdecode(word) for word in data.split(b"\0")[:-1]]


class FileNames:
    """Names the files: two never get the same, nor that of a file which is there unless ``force`` says so."""

    def __init__(self, pattern: str | None, force: bool) -> None:
        self._pattern, self._force = pattern, force
        self._taken: set[Path] = set()
        self._lock = threading.Lock()

    def take(self, process: Process) -> Path:
        """Return the name of a process's trace."""
        if self._pattern is not None:
            wanted = expand_name(self._pattern, process.environment, process.pid)
        else:
            number = process.pid if process.rank is None else process.rank
            wanted = Path(f"{Path(process.command[0]).name}.{number}.cvt")
        stem, count, name = wanted.name.removesuffix(".cvt"), 1, wanted
        with self._lock:
            while name in self._taken or (name.exists() and not self._force):
                count += 1
                name = wanted.with_name(f"{stem}-{count}.cvt")
            self._taken.add(name)
        return name


@dataclass(frozen=True)
class ChildTrace:
    """The file of one program, and how it ended."""

    path: Path
    process: Process
    outcome: Outcome

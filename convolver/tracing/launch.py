"""What a program that is run here gets from its surroundings: environment, input, its rank under an MPI launcher; and file names
that say the rank."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

STDIN = 0
RANK_VARIABLES = (
    "OMPI_COMM_WORLD_RANK",  # Open MPI
    "PMI_RANK",  # MPICH, Intel MPI
    "PMIX_RANK",
    "MV2_COMM_WORLD_RANK",
    "SLURM_PROCID",
)


_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
"""What Python sets LC_CTYPE to where no locale is set (PEP 538)."""


def inherited_environment() -> dict[str, str]:
    """Return the environment for programs that are run here: this process's own, without the LC_CTYPE that Python adds."""
    environment = dict(os.environ)
    if environment.get("LC_CTYPE") in _COERCED:
        try:
            given = Path("/proc/self/environ").read_bytes().split(b"\0")
        except OSError:
            return environment
        if not any(entry.startswith(b"LC_CTYPE=") for entry in given):
            del environment["LC_CTYPE"]
    return environment


THREAD_COUNTS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    *("RAYON_NUM_THREADS", "TBB_NUM_THREADS", "GOMAXPROCS"),
)
"""Variables that say how many threads a program makes."""


_RUNTIMES = (b"libgomp.so", b"libomp.so", b"libiomp5.so", b"OMP_WAIT_POLICY")
"""What is in an object file that is linked with a runtime of OpenMP, as a library or whole."""
_PASSIVE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}


def threads_asked(count: int, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what asks traced programs for so many threads, which wait without spinning; nothing that the user has set."""
    unsaid = dict.fromkeys((name for name in THREAD_COUNTS if name not in environment), str(count))
    return unsaid | _passive(environment)


def passive_waiting(program: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what keeps a traced OpenMP program's threads from spinning, which is counted as waiting but takes time to trace.

    Nothing where the user has set one of these, or neither the program nor a library of its own has such a runtime.
    """
    from convolver.tracing.elf import MALFORMED, own_libraries  # only here: what reads object files takes long to load

    passive = _passive(environment)
    try:
        path = Path(program)
        return passive if passive and any(map(_has_runtime, [path, *own_libraries(path)])) else {}
    except MALFORMED:
        return {}


def _passive(environment: Mapping[str, str]) -> dict[str, str]:
    return {} if any(name in environment for name in _PASSIVE) else dict(_PASSIVE)


def _has_runtime(path: Path) -> bool:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
        return any(content.find(name) >= 0 for name in _RUNTIMES)


class _PipedInput:
    """What came through a pipe, kept for the programs after the first: copied while that one runs, so that nobody waits for the
    end of a pipe that the program does not read to its end."""

    _known: _PipedInput | None = None

    def __init__(self) -> None:
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process

    @classmethod
    @contextlib.contextmanager
    def of_this_process(cls) -> Iterator[int]:
        """Give a descriptor to read the input from, from its beginning."""
        if cls._known is not None:
            again = os.open(f"/proc/self/fd/{cls._known._kept.fileno()}", os.O_RDONLY)
            try:
                yield again
            finally:
                os.close(again)
            return
        cls._known = kept = cls()
        source, ended = os.dup(STDIN), os.pipe()
        read, write = os.pipe()
        os.set_blocking(write, False)
        copier = threading.Thread(target=kept._copy, args=(source, write, ended[0]), daemon=True)
        copier.start()
        try:
            yield read
        finally:
            os.close(read)
            os.close(ended[1])
            copier.join()
            os.close(ended[0])

    def _copy(self, source: int, write: int, ended: int) -> None:
        """Copy until the input ends or the program does, also where a process that it left behind reads nothing."""
        try:
            while _ready(source, select.POLLIN, ended) and (data := os.read(source, 1 << 16)):
                self._kept.write(data)
                self._kept.flush()
                left = memoryview(data)
                while left and _ready(write, select.POLLOUT, ended):
                    left = left[os.write(write, left) :]
        except BrokenPipeError:
            pass  # the program reads no more
        finally:
            os.close(write)
            os.close(source)


def _ready(descriptor: int, event: int, ended: int) -> bool:
    """Wait until a descriptor can be read or written; return False where what ``ended`` stands for comes first."""
    poll = select.poll()
    poll.register(descriptor, event)
    poll.register(ended, select.POLLIN)
    return ended not in dict(poll.poll())


@contextlib.contextmanager
def input_again() -> Iterator[int]:
    """Give a descriptor of this process's input, the same however often this is called: what is left of a file; of a pipe what
    the first program that was given it could read until the context ended. There is nothing to read from a terminal.
    """
    path = f"/proc/self/fd/{STDIN}"
    try:
        kind = os.fstat(STDIN).st_mode
        if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
            with _PipedInput.of_this_process() as descriptor:
                yield descriptor
            return
        is_file = stat.S_ISREG(kind)
        descriptor = os.open(path if is_file else os.devnull, os.O_RDONLY)
        if is_file:
            os.lseek(descriptor, os.lseek(STDIN, 0, os.SEEK_CUR), os.SEEK_SET)
    except OSError:
        descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def input_offset() -> int | None:
    """Return how far this process's input was read; None where that is no file."""
    try:
        return os.lseek(STDIN, 0, os.SEEK_CUR)
    except OSError:
        return None


@contextlib.contextmanager
def closed_off() -> Iterator[None]:
    """Give a traced program nowhere to print and the input of its native runs: stdout is for what is predicted."""
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    kept = {number: os.dup(number) for number in (0, 1)}
    try:
        with input_again() as stdin:
            os.dup2(stdin, 0)
            os.dup2(null, 1)
            yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(null)


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

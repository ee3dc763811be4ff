"""Records the MPI events of an unmodified program: builds the interposer with the site's mpicc and runs the command under it."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from convolver.child_processes import end_with_parent, exit_status, how_it_ended
from convolver.errors import FormatError, ToolError, ToolNotFoundError, TracerError, UsageError
from convolver.locations import cache_folder, program

FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter")
LIBRARIES = {"openmpi": re.compile(r"open ?mpi|openrte|prrte", re.I), "mpich": re.compile(r"hydra|mpich|intel\(r\) mpi", re.I)}
"""Families of MPI libraries and how their programs call themselves; their binary interfaces differ."""

LAUNCHERS = ("mpirun", "mpiexec", "orterun", "prterun")


@dataclass(frozen=True)
class MpiRecording:
    """A finished recording: its folder, the command's exit status, as a shell has it, and the files, one a rank."""

    folder: Path
    exit_status: int
    files: tuple[Path, ...]


def _output(command: Sequence[str | Path]) -> str:
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def library_of(tool: str | Path) -> str | None:
    """Return the family of a launcher or compiler wrapper ("openmpi", "mpich"), None where it says nothing known."""
    words = ("-show",) if "mpicc" in Path(tool).name else ("--version",)
    text = _output([tool, *words])
    return next((name for name, pattern in LIBRARIES.items() if pattern.search(text)), None)


def find_mpicc(launcher: str, mpicc: str | None = None) -> str:
    """Return the compiler wrapper of the MPI library that ``launcher`` starts.

    Tries ``mpicc`` (the option or ``CONVOLVER_MPICC``), the wrapper beside the launcher, ``mpicc.FAMILY`` and ``mpicc``. Raises
    :class:`ToolNotFoundError` when none fits.
    """
    given = mpicc or os.environ.get("CONVOLVER_MPICC")
    if given:
        if shutil.which(given) is None:
            raise ToolNotFoundError(f"{given} is not installed; give the mpicc of your MPI library with --mpicc.")
        return given
    family = library_of(launcher) if Path(launcher).name.split(".")[0] in LAUNCHERS else None
    path = shutil.which(launcher)
    beside = [str(Path(path).parent / "mpicc")] if path else []
    for candidate in [*([f"mpicc.{family}"] if family else []), *beside, "mpicc", *(f"mpicc.{name}" for name in LIBRARIES)]:
        if shutil.which(candidate) and (family is None or library_of(candidate) == family):
            return candidate
    wanted = f" of {family}" if family else ""
    raise ToolNotFoundError(
        f"No mpicc{wanted} is installed, and the MPI interposer is compiled with it: install your MPI library's development "
        "files (Debian: libopenmpi-dev or libmpich-dev) or give its mpicc with --mpicc."
    )


def build_interposer(mpicc: str) -> Path:
    """Return the interposer built with ``mpicc``, from the cache where it was built before.

    Raises :class:`ToolError` with the compiler's first complaint when it does not build.
    """
    sources = sorted(program("mpi", "build the package again.").glob("*.[ch]"))
    return compile_with(mpicc, sources, (*FLAGS, "-shared", "-fPIC"), "libconvolver-mpi-{}.so", ("-ldl",))


def compile_with(mpicc: str, sources: Sequence[Path], flags: Sequence[str], name: str, libraries: Sequence[str] = ()) -> Path:
    """Compile sources with an MPI wrapper into the cache folder (``name`` has a place for a digest) and return the result.

    Raises :class:`ToolError` with the compiler's first complaint, :class:`FormatError` where nothing can be kept.
    """
    digest = hashlib.sha256("\0".join([mpicc, *flags, *libraries, _output([mpicc, "-show"])]).encode())
    for path in sources:
        digest.update(path.read_bytes())
    target = cache_folder() / name.format(digest.hexdigest()[:16])
    if target.exists():
        return target
    if not os.access(target.parent, os.W_OK):
        raise FormatError(f"Nothing can be kept in the folder {target.parent}; name another with CONVOLVER_CACHE.")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / target.name
        command = [mpicc, *flags, *(str(p) for p in sources if p.suffix == ".c"), "-o", str(built), *libraries]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            complaint = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
            raise ToolError(f"Convolver's MPI code does not build with {mpicc}: {complaint}; give another wrapper with --mpicc.")
        built.replace(target)
    return target


def _launch(argv: Sequence[str], settings: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the command that hands ``settings`` to every rank, and the environment of the launcher itself."""
    name = Path(argv[0]).name.split(".")[0]
    family = library_of(argv[0]) if name in LAUNCHERS else None
    if family == "openmpi":
        words = [word for key, value in settings.items() for word in ("-x", f"{key}={value}")]
        return [argv[0], *words, *argv[1:]], dict(os.environ)
    if family == "mpich":
        words = [word for key, value in settings.items() for word in ("-genv", key, value)]
        return [argv[0], *words, *argv[1:]], dict(os.environ)
    # Other launchers (srun, aprun) and single processes inherit the environment.
    return list(argv), {**os.environ, **settings}


def _writable(folder: Path) -> None:
    """Make a folder for a recording where there is none; raises :class:`UsageError` where nothing can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise UsageError(f"Nothing can be recorded in {folder} ({error.strerror}); choose another folder with -o.") from error


def record(
    argv: Sequence[str],
    folder: str | Path,
    *,
    mpicc: str | None = None,
    cpu_clock: bool = True,
    cwd: str | Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> MpiRecording:
    """Run an MPI command and record its events into ``folder``, one file a rank (docs/formats/mpi_recording.md).

    The recording is complete up to the last finished MPI call also when the program aborts or is killed. Without ``cpu_clock``
    the thread's CPU time is not read (saves a system call a call).
    ``settings`` are environment variables of the ranks. Raises :class:`ToolNotFoundError` without a fitting mpicc,
    :class:`UsageError` where nothing can be written into the folder, :class:`TracerError` when the command cannot be started or
    no rank recorded anything.
    """
    if not argv:
        raise UsageError("No command is given; write for example: convolver mpi trace -o OUT -- mpirun -np 4 ./app.")
    if shutil.which(argv[0]) is None:
        raise TracerError(f"{argv[0]} is not an executable; check the command after --.")
    folder = Path(folder).resolve()
    library = build_interposer(find_mpicc(argv[0], mpicc))
    _writable(folder)
    for old in (*folder.glob("rank-*.cvm"), *folder.glob("rank-*.cvm.new")):
        old.unlink()
    handed = {
        "LD_PRELOAD": ":".join(filter(None, [str(library), os.environ.get("LD_PRELOAD")])),
        "CONVOLVER_MPI_OUT": str(folder),
        "CONVOLVER_MPI_CPU_CLOCK": str(int(cpu_clock)),
        **(settings or {}),
    }
    command, environment = _launch(argv, handed)
    done = subprocess.run(command, env=environment, cwd=cwd, check=False, preexec_fn=end_with_parent())
    status = exit_status(done.returncode)
    for unfinished in folder.glob("rank-*.cvm.new"):
        unfinished.unlink()
    files = tuple(sorted(folder.glob("rank-*.cvm")))
    if not files:
        why = "is the program linked dynamically with the MPI library of this launcher?"
        if status:
            why = f"see what it said above; if the program did start, {why}"
        raise TracerError(f"{argv[0]} {how_it_ended(done.returncode)}, but no rank recorded an MPI event: {why}")
    return MpiRecording(folder, status, files)

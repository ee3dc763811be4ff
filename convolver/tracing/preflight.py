"""What can be known to fail is said before a program runs."""

from __future__ import annotations

import os
import shutil
import stat
import struct
from collections.abc import Sequence
from pathlib import Path

from convolver.errors import TracerError, UsageError
from convolver.tracing.avx512 import find_avx512

DEEPEST_SCRIPT = 4
"""Interpreters that are scripts themselves, one in another, at most (as in the kernel)."""
_MACHINES = {3: "32-bit x86", 40: "32-bit ARM", 183: "64-bit ARM (aarch64)", 243: "RISC-V", 21: "64-bit PowerPC", 22: "s390"}
_X86_64 = 62


def find_program(name: str) -> str:
    """Return the file that a command names, ``./`` included; raises :class:`UsageError` when none can be executed."""
    if os.sep in name:
        path = Path(name)
        if not path.exists():
            raise UsageError(f"There is no program {name}; check the path after '--'.")
        if path.is_dir():
            raise UsageError(f"{name} is a folder, which cannot be executed; name a program in it.")
        if not os.access(path, os.X_OK):
            raise UsageError(f"{name} cannot be executed; is it a program, and is it allowed (chmod +x)?")
        return name
    found = shutil.which(name)
    if found is None:
        advice = "give its file name after '--'"
        if Path(name).is_file():
            advice = f"for the file here write ./{name}, or the interpreter of a script in front, as in 'python3 {name}'"
        raise UsageError(f"There is no program '{name}' on the path; {advice}.")
    return found


def _script(head: bytes, path: Path) -> list[str]:
    """Return the interpreter of a script with its argument; ``env`` is followed to the program that it would become."""
    line = os.fsdecode(head[2:].split(b"\n", 1)[0]).strip()
    words = line.split(None, 1)
    if not words:
        raise UsageError(f"{path} is a script without an interpreter; name one in its first line.")
    if Path(words[0]).name == "env" and len(words) > 1:
        rest = words[1].split()
        rest = rest[1:] if rest[0] == "-S" else rest
        if rest and not rest[0].startswith("-") and "=" not in rest[0]:
            return rest
    return words


def command_words(argv: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the words of a command as text; raises :class:`UsageError` where there are none, or what cannot be a word."""
    if not argv:
        raise UsageError("There is nothing to trace; give a command after '--'.")
    if isinstance(argv, str):
        raise UsageError(f"A command is a list of words, not one text: {argv.split()}.")
    words = [os.fspath(word) if isinstance(word, os.PathLike) else word for word in argv]
    for word in words:
        if not isinstance(word, str) or "\0" in word:
            raise UsageError(f"{word!r} cannot be a word of a command; words are text without a zero byte, such as '20'.")
    return words


def resolve_command(argv: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the command with its file, or for a script its interpreter's file in front.

    Raises :class:`UsageError` for a command or an interpreter that is missing or cannot be executed, and as
    :func:`command_words` does.
    """
    argv = command_words(argv)
    command = [find_program(argv[0]), *argv[1:]]
    for _ in range(DEEPEST_SCRIPT):
        head = _head(Path(command[0]))
        if not head.startswith(b"#!"):
            return command
        script = command[0]
        words = _script(head, Path(script))
        try:
            interpreter = find_program(words[0])
        except UsageError as error:
            raise UsageError(f"{script} is a script for {words[0]}, which is not there or not executable.") from error
        command = [interpreter, *words[1:], script, *command[1:]]
    raise UsageError(f"{argv[0]} is a script whose interpreter is a script, and so on; trace the program itself.")


def _head(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(256)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; the tracer needs to.") from error


def check_elf(path: Path, head: bytes) -> None:
    """Check that a file is a program that the tracer can run; raises :class:`TracerError` with what it is instead."""
    if head[:4] != b"\x7fELF":
        raise TracerError(f"{path} is neither a program for Linux nor a script that names its interpreter; nothing to trace.")
    if len(head) < 20:
        raise TracerError(f"{path} ends inside its header; build it again.")
    machine = struct.unpack_from("<H", head, 18)[0] if head[5] == 1 else struct.unpack_from(">H", head, 18)[0]
    if machine != _X86_64:
        name = _MACHINES.get(machine, f"another architecture (ELF machine {machine})")
        raise TracerError(f"{path} is a program for {name}; the tracer runs 64-bit x86 programs only.")
    if head[4] != 2:
        raise TracerError(f"{path} is a 32-bit program (x32); the tracer runs 64-bit programs only.")


def check_command(argv: Sequence[str], *, scan: bool = True) -> list[str]:
    """Return the command as the tracer should run it.

    With ``scan``, the program's own code is searched for AVX-512 instructions, which Valgrind cannot run. Raises
    :class:`UsageError` or :class:`TracerError` for what cannot be traced.
    """
    command = resolve_command(argv)
    path = Path(command[0])
    check_elf(path, _head(path))
    _check_rights(path)
    if scan:
        refuse_avx512(path)
    return command


def _check_rights(path: Path) -> None:
    if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise TracerError(f"{path} is a setuid or setgid program, which nobody may trace; trace a copy without that bit.")
    folder = os.environ.get("TMPDIR")
    if folder and not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        raise TracerError(
            f"TMPDIR names {folder}, where nothing can be written; the tracer needs it: make the folder or unset it."
        )


def refuse_avx512(path: Path) -> None:
    """Raise :class:`TracerError` where a program has AVX-512 code that could run, with the function that has it."""
    found = find_avx512(path)
    if found is not None:
        raise TracerError(
            f"{found.path} uses AVX-512 in {found.function or 'a function without a name'}, which the tracer cannot run; "
            "build it for x86-64-v3, or pass --no-scan if that code is never reached."
        )


def check_child(process: int, program: str) -> None:
    """Check a program that a traced process is about to become, like the command itself; ``program`` as it was given to exec.

    What is no program of its own (a script, a file that is gone) passes: its interpreter is checked, or exec says what is wrong.
    """
    path = Path(f"/proc/{process}/cwd") / program
    try:
        with open(path, "rb") as file:
            is_program = file.read(4) == b"\x7fELF"
        path = path.resolve()
    except OSError:
        return
    if is_program:
        refuse_avx512(path)

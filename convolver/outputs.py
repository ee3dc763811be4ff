"""The one place that writes files which users name: whole or not at all, or kept and appended to, never through planted links."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from convolver.destination import Destination
from convolver.errors import FormatError
from convolver.foreign_text import SHOW


def write_atomically(path: str | Path, write: Callable[[Path], Any], *, executable: bool = False) -> None:
    """Call ``write`` with a temporary path and move what it wrote to ``path``, so that no half file is ever seen.

    Links are followed, devices and FIFOs written through, and the mode and owner of a file that is replaced are kept
    (:class:`convolver.destination.Destination`); ``executable`` lets whoever may read the file run it. Raises
    :class:`FormatError` when the file cannot be written, for example on a full disk.
    """
    temporary: Path | None = None
    try:
        target = Destination.find(path)
        temporary = target.temporary()
        write(temporary)
        target.take(temporary, executable=executable)
    except OSError as error:
        raise FormatError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def save_bytes(path: str | Path, content: bytes, *, executable: bool = False) -> None:
    """Write a file; raises what :func:`write_atomically` does."""
    write_atomically(path, lambda temporary: temporary.write_bytes(content), executable=executable)


def save_text(path: str | Path, text: str | Iterable[str]) -> None:
    """Write a text, or its pieces as they come, in UTF-8 with what UTF-8 does not have shown escaped; raises what
    :func:`write_atomically` does."""

    def write(temporary: Path) -> None:
        with open(temporary, "w", encoding="utf-8", errors=SHOW, newline="") as file:
            file.writelines([text] if isinstance(text, str) else text)

    write_atomically(path, write)


def open_kept(path: str | Path) -> io.FileIO:
    """Open a file that outlives a run, to read it from its begin and append to it; an empty one is made where there is none.

    Raises :class:`FormatError` for a link, or what another user or a hard link put there, and where it cannot be opened.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = io.FileIO(os.open(path, flags, 0o666), "a+")
    except OSError as error:
        what = "it is a link" if os.path.islink(path) else error.strerror
        raise FormatError(f"{path} cannot be written: {what}.") from error
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink > 1:
        file.close()
        raise FormatError(f"{path} cannot be written: it is no file of this user's own; remove it or choose another name.")
    file.seek(0)
    return file


def append_line(path: str | Path, line: bytes) -> None:
    """Append a line to a file that is kept (:func:`open_kept`); raises :class:`FormatError`, also on a full disk."""
    with open_kept(path) as file:
        end = file.seek(0, os.SEEK_END)
        cut = end and os.pread(file.fileno(), 1, end - 1) != b"\n"  # a crash left half a line
        rest = memoryview((b"\n" if cut else b"") + line + b"\n")
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError as error:
            file.truncate(end)
            raise FormatError(f"{path} cannot be written: {error.strerror}.") from error

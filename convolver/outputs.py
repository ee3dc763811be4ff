"""The one place that writes files which users name: whole or not at all, or kept and appended to, never through planted links.

A file goes through links, never over a device, with the mode and the owner of the file that it replaces.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from convolver.errors import FormatError
from convolver.foreign_text import SHOW


class Destination(NamedTuple):
    """``path`` without links, and what lies there now (None: nothing)."""

    path: Path
    now: os.stat_result | None

    @classmethod
    def find(cls, path: str | Path) -> Destination:
        """Follow the links of a path; raises :class:`FormatError` for what no output can be written to."""
        real = Path(os.path.realpath(path))
        try:
            now = real.stat()
        except FileNotFoundError:
            return cls(real, None)
        except OSError as error:
            raise FormatError(f"{path} cannot be written: {error.strerror}.") from error
        if not (stat.S_ISREG(now.st_mode) or stat.S_ISFIFO(now.st_mode) or stat.S_ISCHR(now.st_mode)):
            kind = "folder" if stat.S_ISDIR(now.st_mode) else "block device" if stat.S_ISBLK(now.st_mode) else "socket"
            raise FormatError(f"{path} cannot be written: it is a {kind}; give the name of a file.")
        return cls(real, now)

    @property
    def is_stream(self) -> bool:
        """True for a device or a FIFO: bytes go through it, nothing takes its place."""
        return self.now is not None and not stat.S_ISREG(self.now.st_mode)

    def temporary(self) -> Path:
        """Make an empty file, readable by its owner alone, that :meth:`take` can move to this place."""
        handle, name = tempfile.mkstemp(prefix=".convolver-", dir=None if self.is_stream else self.path.parent)
        os.close(handle)
        return Path(name)

    def take(self, made: Path, *, executable: bool = False) -> None:
        """Move a finished file here: with the mode and, as far as the system allows, the owner of what it replaces.

        ``executable``: whoever may read it may also run it.
        """
        if self.is_stream:
            # Neither created nor truncated: what lies there stays what it is.
            with open(made, "rb") as source, open(os.open(self.path, os.O_WRONLY | os.O_NOFOLLOW), "wb") as target:
                shutil.copyfileobj(source, target)
            return
        self._equip(made, executable)
        made.replace(self.path)

    def _equip(self, made: Path, executable: bool) -> None:
        mode = 0o666 & ~_umask()
        if self.now is not None:
            mode, own = stat.S_IMODE(self.now.st_mode) & 0o777, made.stat()
            if (own.st_uid, own.st_gid) != (self.now.st_uid, self.now.st_gid):
                with contextlib.suppress(PermissionError):  # another's file in a shared folder becomes ours, with its mode
                    os.chown(made, self.now.st_uid, self.now.st_gid)
        made.chmod(mode | (mode & 0o444) >> 2 if executable else mode)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_atomically(path: str | Path, write: Callable[[Path], Any], *, executable: bool = False) -> None:
    """Call ``write`` with a temporary path and move what it wrote to ``path``, so that no half file is ever seen.

    Links are followed, devices and FIFOs written through, and the mode and owner of a file that is replaced are kept
    (:class:`convolver.outputs.Destination`); ``executable`` lets whoever may read the file run it. Raises
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

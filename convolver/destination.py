"""Where an output goes: through links, never over a device, with the mode and the owner of the file that it replaces."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

from convolver.errors import FormatError


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

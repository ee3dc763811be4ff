"""The folder that a traced run shares with its tracer: in shared memory where there is room, gone when nobody uses it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "convolver-run-"
_YOUNG_SECONDS = 60.0
"""A folder may lie unlocked for a moment after it was made."""


def _place() -> Path:
    """Return shared memory where it has room, so that counting waits for no disk, otherwise the folder for temporary files."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage("/dev/shm").free > 256 << 20 and os.access("/dev/shm", os.W_OK):
            return Path("/dev/shm")
    return Path(tempfile.gettempdir())


def _lock(folder: Path) -> int:
    """Lock a folder for as long as the descriptor is open; raises OSError where another process has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def sweep(place: Path) -> None:
    """Remove the folders of this user's processes that were killed: nobody has them locked."""
    for folder in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if status.st_uid != os.geteuid() or time.time() - status.st_mtime < _YOUNG_SECONDS:
                continue
            descriptor = _lock(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)


class RunFolder:
    """A folder of this process, locked until :meth:`close` or the process's death."""

    def __init__(self) -> None:
        """Make the folder, and remove those that dead processes left."""
        place = _place()
        sweep(place)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        self._descriptor = _lock(self.path)

    def close(self) -> None:
        """Remove the folder and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._descriptor)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()

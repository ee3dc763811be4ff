"""Where Convolver finds its own compiled programs and the user's files (XDG folders)."""

from __future__ import annotations

import os
from pathlib import Path

from convolver.errors import FormatError, ToolNotFoundError

_PROGRAMS = Path(__file__).parent / "_programs"
BUNDLED_MACHINES = Path(__file__).parent / "machine" / "data"


def program(name: str, hint: str) -> Path:
    """Return the path of a compiled helper program below ``_programs``.

    Raises :class:`ToolNotFoundError` with ``hint`` (what to install) when it was not built.
    """
    path = _PROGRAMS / name
    if not path.exists():
        raise ToolNotFoundError(f"Convolver's {name} is not built on this machine: {hint}")
    return path


def _own(kind: str) -> Path:
    """Return the user's folder of a kind; of one without a home folder, one that is never there and cannot be made."""
    import platformdirs

    try:
        folder = str(getattr(platformdirs, f"user_{kind}_dir")("convolver"))
    except RuntimeError:  # older releases return one with a tilde
        folder = "~"
    return Path(folder if os.path.isabs(folder) else os.path.join(os.devnull, "convolver"))


def data_folder() -> Path:
    """Return the folder of the user's machines, core tables and key."""
    return _own("data")


def files_in(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder that match, in order; none where this user may not look, as in another's home folder."""
    try:
        return sorted(folder.glob(pattern))
    except PermissionError:
        return []


def machine_folders() -> list[Path]:
    """Return the folders in which machines are looked up by name: the current one, the user's, the bundled ones."""
    override = os.environ.get("CONVOLVER_MACHINES")
    own = Path(override) if override else data_folder() / "machines"
    return [Path.cwd(), own, BUNDLED_MACHINES, BUNDLED_MACHINES / "cloud"]


def core_folder() -> Path:
    """Return the user's folder of core tables."""
    override = os.environ.get("CONVOLVER_CORES")
    return Path(override) if override else data_folder() / "cores"


def cache_folder() -> Path:
    """Return the folder for results that can be made again (created on first use); raises :class:`FormatError` where it cannot be
    made."""
    override = os.environ.get("CONVOLVER_CACHE")
    folder = Path(override) if override else _own("cache")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FormatError(f"The folder {folder} cannot be made ({error.strerror}); name another with CONVOLVER_CACHE.") from error
    return folder

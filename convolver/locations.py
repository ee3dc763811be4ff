"""Where Convolver finds its own compiled programs and the user's files (XDG folders)."""

from __future__ import annotations

import os
from pathlib import Path

from convolver.errors import ToolNotFoundError

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


def machine_folders() -> list[Path]:
    """Return the folders in which machines are looked up by name: the current one, the user's, the bundled ones."""
    import platformdirs

    override = os.environ.get("CONVOLVER_MACHINES")
    own = Path(override) if override else Path(platformdirs.user_data_dir("convolver")) / "machines"
    return [Path.cwd(), own, BUNDLED_MACHINES, BUNDLED_MACHINES / "cloud"]


def core_folder() -> Path:
    """Return the user's folder of core tables."""
    import platformdirs

    override = os.environ.get("CONVOLVER_CORES")
    return Path(override) if override else Path(platformdirs.user_data_dir("convolver")) / "cores"


def cache_folder() -> Path:
    """Return the folder for results that can be made again (created on first use)."""
    import platformdirs

    folder = Path(os.environ.get("CONVOLVER_CACHE") or platformdirs.user_cache_dir("convolver"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder

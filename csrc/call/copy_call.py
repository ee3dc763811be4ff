"""Copies the sources of CALL's runtime into the package: they are compiled with the user's own compiler at first use."""

from __future__ import annotations

import shutil
from pathlib import Path

SOURCE = Path(__file__).resolve().parent


def copy_call(target: Path) -> str:
    """Copy headers and sources into ``target/call``; return what was done."""
    folder = target / "call"
    folder.mkdir(parents=True, exist_ok=True)
    for path in SOURCE.iterdir():
        if path.suffix in (".c", ".h", ".f90"):
            shutil.copyfile(path, folder / path.name)
    return f"call: sources in {folder}"

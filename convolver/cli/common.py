"""What every verb shares: JSON on stdout, words on stderr, no silent overwriting."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

from convolver.errors import UsageError


def print_json(document: Any) -> None:
    """Print a document as JSON on stdout."""
    typer.echo(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False))


def say(message: str) -> None:
    """Print one line for the human on stderr."""
    print(message, file=sys.stderr)


def new_file(path: Path, force: bool) -> Path:
    """Return ``path`` when it may be written; raises :class:`UsageError` when it exists and ``force`` is off."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists already; choose another name with -o or allow overwriting with --force.")
    if not path.parent.is_dir():
        raise UsageError(f"The folder {path.parent} does not exist; create it first.")
    return path


def wrote(path: Path) -> None:
    """Say which file was written."""
    say(f"Wrote {path}")

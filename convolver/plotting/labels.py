"""Words in pictures: how a block, a command and a machine are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from convolver.machine.states import SEPARATOR

LONGEST = 30


def shorten(text: str, longest: int = LONGEST) -> str:
    """Return the text, cut in its middle where it is too long."""
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"


def place(row: Mapping[str, Any]) -> str:
    """Return ``file:line`` of a block, else its module and, where that is known, its offset there."""
    if row.get("file"):
        return f"{Path(row['file']).name}:{row['line']}"
    module = Path(row.get("module") or "").name or "?"
    return module if row.get("offset") is None else f"{module}+{row['offset']:#x}"


def block_label(row: Mapping[str, Any]) -> str:
    """Return function and place of a block, short enough for a picture."""
    return f"{shorten(row['function'] or '?', 22)}  {shorten(place(row), 22)}"


def command_label(command: Sequence[str] | None) -> str:
    """Return a traced command with the folder of its program left out."""
    words = [str(word) for word in command or []]
    return shorten(" ".join([Path(words[0]).name, *words[1:]]), 40) if words else "the program"


def machine_label(name: str, projected: bool) -> str:
    """Return the name of a machine, marked where it was not measured; a name with a state says what was changed."""
    return f"{name} (projected)" if projected and SEPARATOR not in name else name

"""Whether a trace was made here, by this user: only then may a report read the source files that its program names.

The seal is a keyed hash (HMAC-SHA-256, RFC 2104) over the folder of the command and the source files' names; the key is the
user's own and never leaves this machine.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from convolver.locations import data_folder

_KEY_BYTES = 32


def _key_file() -> Path:
    return data_folder() / "origin.key"


def _key(make: bool) -> bytes | None:
    """Return the user's key; None where there is none (or none can be made)."""
    file = _key_file()
    if make:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
                made.write(os.urandom(_KEY_BYTES))
    try:
        key = file.read_bytes()
    except OSError:
        return None
    return key if len(key) == _KEY_BYTES else None


def _seal(key: bytes, folder: str, files: Iterable[str]) -> str:
    text = "\0".join([folder, *sorted(set(files))])
    return hmac.new(key, text.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


def sealed(folder: str, files: Iterable[str]) -> dict[str, str] | None:
    """Return the ``origin`` of a signature: the folder of its command, sealed; None where no key can be kept."""
    key = _key(make=True)
    return None if key is None else {"folder": folder, "seal": _seal(key, folder, files)}


def own_folder(origin: Mapping[str, Any] | None, files: Iterable[str]) -> str | None:
    """Return the folder of the command of a trace that was made here by this user; None for any other trace."""
    key = _key(make=False)
    if key is None or not origin:
        return None
    folder, seal = str(origin.get("folder")), str(origin.get("seal"))
    return folder if hmac.compare_digest(seal.encode("utf-8", "replace"), _seal(key, folder, files).encode()) else None

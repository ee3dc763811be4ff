"""Text and JSON from outside: bytes that are not UTF-8 survive as lone surrogates in memory and are shown escaped.

A name of a file or an argument may hold any bytes. Python keeps those that are not UTF-8 as U+DC80 to U+DCFF (PEP 383); our JSON
keeps them as ``\\udc80`` to ``\\udcff``, and every stream and table shows them as ``\\x80`` to ``\\xff``.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from convolver.errors import FormatError

SHOW = "convolver-show"
"""Name of the error handler that writes what cannot be encoded as an escape."""

_BYTES = re.compile("[\udc80-\udcff]")
_DRAWN = {"█": "#", "─": "-", "●": "o", "…": "~"}
"""What our own charts and tables are drawn with, as encodings of one column a character have it."""


def _shown(character: str) -> str:
    if _BYTES.match(character):
        return f"\\x{ord(character) - 0xDC00:02x}"
    return _DRAWN.get(character) or character.encode("ascii", "backslashreplace").decode("ascii")


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_shown, error.object[error.start : error.end])), error.end


codecs.register_error(SHOW, _escape)


def visible(text: str) -> str:
    """Return text that every encoder takes: a byte that is not UTF-8 becomes ``\\xe9``."""
    return text.encode("utf-8", SHOW).decode("utf-8")


def polars_source(path: str | Path) -> str | Path | BytesIO:
    """Return what polars can read a file from: its path, or its content where the name is not UTF-8, which polars refuses."""
    return path if visible(str(path)) == str(path) else BytesIO(Path(path).read_bytes())


def json_text(document: Any, *, indent: int | None = None, **options: Any) -> str:
    """Return JSON; bytes that are not UTF-8 are escapes. Raises :class:`ValueError` for what JSON cannot hold."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, **options)
    if indent is not None:  # the same layout as json.dumps, which leaves its fast encoder to indent
        text = msgspec.json.format(text.encode("utf-8", "surrogatepass"), indent=indent).decode("utf-8", "surrogatepass")
    return text if text.isascii() else _BYTES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


@contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Return a context that raises :class:`FormatError` with the reason where the file cannot be read."""
    try:
        yield
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}.") from error


def named_file(name: str, named_by: Path) -> Path:
    """Return the file that ``named_by`` names, from its own folder on; raises :class:`FormatError` where it is none."""
    path = named_by.parent / name
    if not path.is_file():  # also where the name holds a zero byte
        raise FormatError(f"{named_by} names {name[:80]}, which is no file.")
    return path


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number that JSON knows")


def _finite(word: str) -> float:
    number = float(word)
    return number if math.isfinite(number) else _refuse(word)


def decode_json(data: bytes, where: str) -> Any:
    """Return the value of strict JSON.

    Raises :class:`FormatError` for other text, for NaN, infinities and numbers out of range, and for too much nesting.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if not isinstance(error, RecursionError) and b"\\udc" in data:
            return _with_bytes(data, where)
        raise FormatError(f"{where} is not valid JSON: {error}.") from error


def _with_bytes(data: bytes, where: str) -> Any:
    """Decode JSON with escapes of bytes that are not UTF-8, which msgspec refuses."""
    try:
        document = json.loads(data, parse_constant=_refuse, parse_float=_finite)
        json_text(document).encode()  # no other lone surrogates
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} is not valid JSON: {error}.") from error
    return document


def decode_toml(data: bytes | str, where: str) -> dict[str, Any]:
    """Return the table of a TOML document; raises :class:`FormatError` as :func:`decode_json` does."""
    try:
        return tomllib.loads(data.decode() if isinstance(data, bytes) else data, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} is not valid TOML: {error}.") from error

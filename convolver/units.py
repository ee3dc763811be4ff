"""Parsing and printing of quantities in SI and binary units."""

from __future__ import annotations

import re
from collections.abc import Sequence

from convolver.errors import UsageError

_BINARY = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_BYTES = re.compile(r"^\s*(\d{1,18}(?:\.\d+)?)\s*([kmgt]?)(i?b?)\s*$", re.IGNORECASE)
_COUNTS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_COUNT = re.compile(r"^\s*(\d{1,18}(?:\.\d+)?(?:e\d{1,2})?)\s*([kmg]?)\s*$", re.IGNORECASE)
_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_TIME = re.compile(r"^\s*(\d{1,18}(?:\.\d+)?(?:e-?\d{1,2})?)\s*([mun]?s|)\s*$", re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """Return the number of bytes in ``"48 KiB"``, ``"2M"`` or ``"64"`` (binary prefixes).

    Raises :class:`UsageError` when the text is not a size.
    """
    match = _BYTES.match(text)
    if match is None:
        raise UsageError(f"'{text}' is not a size; write for example 48KiB or 2MiB.")
    return int(float(match[1]) * _BINARY[match[2].lower()])


def parse_count(text: str) -> int:
    """Return the count in ``"1000000"``, ``"10k"`` or ``"1e6"`` (decimal prefixes).

    Raises :class:`UsageError` when the text is not a count.
    """
    match = _COUNT.match(text)
    if match is None:
        raise UsageError(f"'{text}' is not a count; write for example 10000, 10k or 1e6.")
    return int(float(match[1]) * _COUNTS[match[2].lower()])


def parse_seconds(text: str) -> float:
    """Return the seconds in ``"20 ms"``, ``"1.5s"`` or ``"0.02"``.

    Raises :class:`UsageError` when the text is not a time.
    """
    match = _TIME.match(text)
    if match is None:
        raise UsageError(f"'{text}' is not a time; write for example 20ms or 1.5s.")
    return float(match[1]) * _SECONDS[match[2].lower()]


def format_bytes(size_bytes: float) -> str:
    """Return ``48 KiB`` for 49152: three significant digits, binary prefixes."""
    for prefix in ("", "Ki", "Mi", "Gi"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.4g} {prefix}B" if abs(size_bytes) >= 999.5 else f"{size_bytes:.3g} {prefix}B"
        size_bytes /= 1024
    return f"{size_bytes:.3g} TiB"


def format_count(count: float) -> str:
    """Return ``1.23 M`` for 1234567: three significant digits, decimal prefixes."""
    for prefix in ("", "k", "M", "G"):
        if abs(count) < 999.5:
            return f"{count:.3g}" if not prefix else f"{count:.3g} {prefix}"
        count /= 1000
    return f"{count:.3g} T"


def format_share(share: float, decimals: int = 0) -> str:
    """Return a share like '43 %'."""
    return f"{100 * share:.{decimals}f} %"


def listed(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def counted(number: int, noun: str) -> str:
    """Return ``1 node`` or ``2 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_seconds(seconds: float) -> str:
    """Return ``1.23 ms`` for 0.00123: three significant digits, SI prefixes."""
    magnitude = abs(seconds)
    for limit, scale, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if magnitude < 0.9995 * limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"

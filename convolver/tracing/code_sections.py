"""The code of a shared object, read without pyelftools, whose import takes longer than a library's code to read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_IDENT = b"\x7fELF\x02\x01"
"""An object of 64 bits, the lowest byte first."""
_HEADER = np.dtype(
    {"names": ["table", "entry", "count"], "formats": ["<u8", "<u2", "<u2"], "offsets": [40, 58, 60], "itemsize": 64}
)
_SECTION = np.dtype(
    {"names": ["type", "flags", "at", "size"], "formats": ["<u4", "<u8", "<u8", "<u8"], "offsets": [4, 8, 24, 32], "itemsize": 64}
)
_DYNAMIC, _WITHOUT_BYTES = 6, 8
"""Types of sections."""
_EXECUTABLE = 4


def shared_code(path: Path) -> list[NDArray[np.uint8]]:
    """Return the bytes of each section with code of a 64-bit object that is linked dynamically; none for anything else, and for
    a damaged one. Raises :class:`OSError` where the file cannot be read."""
    content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    if content[: len(_IDENT)].tobytes() != _IDENT or len(content) < _HEADER.itemsize:
        return []
    table, entry, count = (int(one) for one in content[: _HEADER.itemsize].view(_HEADER)[0])
    if entry != _SECTION.itemsize or table + entry * count > len(content):
        return []
    sections = content[table : table + entry * count].view(_SECTION)
    if not (sections["type"] == _DYNAMIC).any():
        return []
    code = sections[(sections["flags"] & _EXECUTABLE != 0) & (sections["type"] != _WITHOUT_BYTES)]
    return [content[at : at + size] for at, size in zip(code["at"].tolist(), code["size"].tolist(), strict=True)]


def candidates(code: NDArray[np.uint8], clustered: bool) -> NDArray[np.int64]:
    """Return where bytes look like an EVEX prefix (Intel SDM volume 2, section 2.7), false alarms included.

    62, then P0 with bit 3 clear and a map that exists, P1 with bit 2 set, P2 that does not zero without a mask.
    """
    if len(code) < 6:
        return np.zeros(0, dtype=np.int64)
    places = np.flatnonzero(code[:-5] == 0x62)
    first, second, third = (code[places + k] for k in (1, 2, 3))
    maps = first & 7
    valid = ((first & 8) == 0) & np.isin(maps, (1, 2, 3, 5, 6)) & ((second & 4) != 0)
    valid &= ~(((third & 0x80) != 0) & ((third & 7) == 0))
    valid &= ~(((third & 0x60) == 0x60) & ((third & 0x10) == 0))
    places = places[valid]
    if clustered and len(places):
        near = np.diff(places) <= 64
        keep = np.zeros(len(places), dtype=bool)
        keep[1:] |= near
        keep[:-1] |= near
        places = places[keep]
    return places

"""What x86-64 instructions do with control, decoded for many instructions at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LONGEST = 15
"""Bytes of the longest instruction."""
_PREFIXES = np.isin(np.arange(256), list(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3"))
_SHORT = np.isin(np.arange(256), [*range(0x70, 0x80), *range(0xE0, 0xE4)])
_TRANSFERS = _SHORT | np.isin(np.arange(256), list(b"\xe8\xe9\xeb\xc2\xc3\xca\xcb\xcc\xcd\xcf\xf1\xf4"))
_TRANSFERS_0F = np.isin(np.arange(256), [*range(0x80, 0x90), *b"\x05\x07\x0b\x34\x35"])
_ENDS = np.isin(np.arange(256), list(b"\xc2\xc3\xca\xcb\xcf\xf4"))


class Codes(NamedTuple):
    """Instructions, one a row: bytes, zeros after them (shape (n, 15)), and the number of bytes, 0 where they are not known."""

    rows: NDArray[np.uint8]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, codes: Iterable[bytes]) -> Codes:
        """Return instructions given as byte strings of at most 15 bytes."""
        all_codes = list(codes)
        rows = np.frombuffer(b"".join(code.ljust(LONGEST, b"\0") for code in all_codes), dtype=np.uint8)
        return cls(rows.reshape(len(all_codes), LONGEST), np.array([len(code) for code in all_codes], dtype=np.int64))


class CodeBranches(NamedTuple):
    """Where instructions jump, from the address after each, where ``known``, and whether they can go on there."""

    distance: NDArray[np.int64]
    known: NDArray[np.bool_]
    goes_on: NDArray[np.bool_]


def opcodes(codes: Codes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the rows without legacy prefixes, with room after them, and how many bytes are left in each."""
    count = len(codes.lengths)
    padded = np.concatenate([codes.rows, np.zeros((count, 8), dtype=np.uint8)], axis=1)
    at, each = np.zeros(count, dtype=np.int64), np.arange(count)
    for _ in range(LONGEST):
        prefix = _PREFIXES[padded[each, at]] & (at < codes.lengths)
        if not prefix.any():
            break
        at += prefix
    at += (padded[each, at] >> 4 == 4) & (at < codes.lengths)
    places = np.minimum(at[:, None] + np.arange(6), padded.shape[1] - 1)
    return np.take_along_axis(padded, places, axis=1), codes.lengths - at


def transfers(codes: Codes) -> NDArray[np.bool_]:
    """Return where an instruction can continue elsewhere than after itself; unknown code can."""
    body, left = opcodes(codes)
    first, second = body[:, 0], body[:, 1]
    found = _TRANSFERS[first]
    found = np.where(first == 0x0F, (left < 2) | _TRANSFERS_0F[second], found)
    found = np.where(first == 0xFF, (left < 2) | np.isin(second >> 3 & 7, (2, 3, 4, 5)), found)
    return np.asarray(found | (left < 1))


def _signed(body: NDArray[np.uint8], begin: int, size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return little-endian numbers of at most four bytes."""
    value = sum(body[:, begin + byte].astype(np.int64) << 8 * byte for byte in range(4))
    shift = 64 - 8 * np.clip(size, 1, 4)
    return np.asarray(np.where(size > 0, np.left_shift(value, shift) >> shift, 0))


def branches(codes: Codes) -> CodeBranches:
    """Return where instructions jump. Unknown code goes on."""
    body, left = opcodes(codes)
    first, second = body[:, 0], body[:, 1]
    there = left > 0
    short, jump = _SHORT[first] & there, np.isin(first, (0xEB, 0xE9)) & there
    near = (first == 0x0F) & (left > 1) & (second >> 4 == 8)
    distance = np.where(near, _signed(body, 2, left - 2), _signed(body, 1, np.where(short, np.minimum(left - 1, 1), left - 1)))
    indirect = (first == 0xFF) & (left > 1) & np.isin(second >> 3 & 7, (4, 5))
    known = short | jump | near
    return CodeBranches(np.where(known, distance, 0), known, ~(there & (_ENDS[first] | jump | indirect)))

"""Slow, obvious model of the trace decoder: a wire stream to a list of references."""

from __future__ import annotations

import struct
from typing import NamedTuple

from convolver._native.trace_decoder import SETS

NOT_EXECUTED = 1 << 62
M64 = (1 << 64) - 1


class Reference(NamedTuple):
    """One reference with what surrounds it."""

    sets: bool
    thread: int
    window: int
    site: int
    address: int
    size: int
    write: bool


def references(stream: bytes) -> list[Reference]:
    """Return every reference of a valid stream in the order of the stream."""
    words = [w for (w,) in struct.iter_unpack("<Q", stream)]
    segments, sites, found = [], [], []
    at, thread, window = 2, 0, 0
    while at < len(words):
        head = words[at]
        at += 1
        if head >> 62 == 2:
            first, mine, count = segments[head & 0xFFFFFFFF]
            addresses, at = words[at : at + count], at + count
            for number, (displacement, size, base, flags) in enumerate(mine):
                word = addresses[base] if base >= 0 else 0
                if flags & 2 and base >= 0 and word == NOT_EXECUTED:
                    continue
                address = (word + displacement) & M64
                found.append(Reference(False, thread, window, first + number, address, size, bool(flags & 1)))
        elif head >> 63 == 0:
            site = head & (1 << 22) - 1
            found.append(Reference(True, thread, window, site, head >> 22 << 6, 1, bool(sites[site] & 1)))
        else:
            kind, argument = head >> 56 & 63, head & (1 << 56) - 1
            if kind >= 32:
                length = head & 0xFFFFFFFF
                payload, at = struct.pack(f"<{length}Q", *words[at : at + length]), at + length
                if kind == 33:
                    _, _, _, _, _, first, count, n_sites, n_instructions, _ = struct.unpack_from("<QQIIIIHHHH", payload)
                    rows = list(struct.iter_unpack("<qIHHhB5x", payload[40 + 8 * n_instructions :][: 24 * n_sites]))
                    segments.append((first, [(row[0], row[2], row[4], row[5]) for row in rows], count))
                    sites += [row[5] for row in rows]
            elif kind == 4:
                address, at = words[at], at + 1
                found.append(Reference(True, thread, window, argument, address & ~63, 1, bool(sites[argument] & 1)))
            elif kind == 1:
                thread = argument & 0xFFFFFFFF
            elif kind == 2:
                window += 1
    return found


def listed(batches) -> list[Reference]:
    """Return what the decoder collected in the form of the slow model."""
    return [
        Reference(batch.kind == SETS, batch.thread, batch.window, *(x.item() for x in row))
        for batch in batches
        for row in zip(batch.sites, batch.addresses, batch.sizes, batch.writes, strict=True)
    ]


def by_kind(found: list[Reference]) -> tuple[list[Reference], list[Reference]]:
    """Return those of the windows and those of the set sample, which the decoder keeps apart."""
    return [one for one in found if not one.sets], [one for one in found if one.sets]

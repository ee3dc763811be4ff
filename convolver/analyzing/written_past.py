"""Stores that write past the caches (movnt): copies of large arrays leave out the fetch of lines that they overwrite.

Their lines go to memory through write-combining buffers, whatever the caches hold (Intel, "Software Developer's Manual",
volume 1, 10.4.6.2), so a line that is written past takes one transfer where another is fetched and later written back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver.analyzing.falls import Array
from convolver.tracing.branch_code import Codes, opcodes
from convolver.tracing.definitions import STORE, guard_executions
from convolver.tracing.reader import Trace

_VEX = {0xC5: 2, 0xC4: 3, 0x62: 4}
"""Bytes of the prefixes that stand for 0f, by the first of them."""
_PAST = (0x2B, 0xE7, 0xC3)
"""Opcodes after 0f: movntps and movntpd, movntdq and movntq, movnti; the last has no form with vector registers."""


class WrittenPast(NamedTuple):
    """Bytes that each block of a signature writes past the caches, per reference, and their share of the bytes that it stores."""

    bytes_each: Array
    share: Array


def writes_past(codes: Codes) -> NDArray[np.bool_]:
    """Return which instructions, all of them stores, write past the caches."""
    body, _ = opcodes(codes)
    first = body[:, 0]
    found = (first == 0x0F) & np.isin(body[:, 1], _PAST)
    for prefix, length in _VEX.items():
        found |= (first == prefix) & np.isin(body[:, length], _PAST[:2])
    return np.asarray(found)


def written_past(trace: Any) -> WrittenPast | None:
    """Return what a trace's blocks write past the caches; None where none does, or the trace is none that was stored."""
    if not isinstance(trace, Trace):
        return None
    definitions = trace.definitions
    stores = np.flatnonzero(definitions.sites["flags"] & STORE)
    instructions, number = np.unique(definitions.instruction_of_site[stores], return_inverse=True)
    sites = stores[writes_past(definitions.codes_of(instructions))[number.ravel()]]
    if not len(sites):
        return None
    table = trace.signature.table
    times = guard_executions(definitions, trace.known_counters)[sites].astype(float)
    past = np.bincount(trace.blocks.site_blocks[sites], times * definitions.sites["size_bytes"][sites], table.height)
    each, stored = (table[name].to_numpy().astype(float) for name in ("memops", "store_bytes"))
    return WrittenPast(past / np.maximum(each, 1.0), np.minimum(past / np.maximum(stored, 1.0), 1.0))

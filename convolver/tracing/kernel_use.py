"""What a traced program had of the kernel: pages that a native run faults in, system calls, bytes moved."""

from __future__ import annotations

import struct
from typing import Any

from convolver.tracing.system_call_names import system_call_name

PAGES = (
    *("anonymous", "populated", "file", "windows", "shared"),
    *("huge_pages", "huge_regions", "advised_pages", "advised_regions", "heap_pages", "heap_regions"),
)
"""Fields of ``struct cv_wire_pages``."""

TARGETS = ("", "file", "pipe", "socket", "null", "other")
"""What a call that moves bytes has as its first argument, by ``enum cv_wire_target``."""

OF_THE_VDSO = frozenset(("clock_gettime", "gettimeofday", "time", "getcpu"))
"""System calls under Valgrind alone: a native run reads the time without the kernel, in the vdso."""

_HEAD = struct.Struct(f"<II{len(PAGES)}QQQQ")
_CALL = struct.Struct("<IIQQ")
_PAGES_KNOWN = 1


def system_document(payload: bytes) -> dict[str, Any] | None:
    """Return the tracer's record (``struct cv_wire_system`` and its calls) as a JSON-able document; None where there was none.

    ``pages`` counts pages of ``page_bytes`` (None where the kernel did not tell), ``calls`` has one entry for each system call
    and what it moved bytes to or from: ``call``, ``target``, ``calls``, ``bytes``. Calls that a native run answers in the vdso
    are left out.
    """
    if not payload:
        return None
    page_bytes, flags, *numbers = _HEAD.unpack_from(payload)
    forks, threads, count = numbers[len(PAGES) :]
    calls = [_CALL.unpack_from(payload, _HEAD.size + index * _CALL.size) for index in range(count)]
    return {
        "page_bytes": page_bytes,
        "pages": dict(zip(PAGES, numbers, strict=False)) if flags & _PAGES_KNOWN else None,
        "forks": forks,
        "threads": threads,
        "calls": [
            {"call": name, "target": TARGETS[target] if target < len(TARGETS) else "other", "calls": calls, "bytes": moved}
            for name, target, calls, moved in ((system_call_name(number), *rest) for number, *rest in calls)
            if name not in OF_THE_VDSO
        ],
    }


def faults(pages: dict[str, int]) -> int:
    """Return how many page faults a native run with pages of 4 KiB has: its ``ru_minflt``, but for what is left out."""
    return pages["anonymous"] + pages["shared"] + pages["windows"]

"""What a traced program had of the kernel: pages that a native run faults in, system calls, bytes moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from convolver._native.enums import enum_names
from convolver._native.trace_decoder import PAGES_KNOWN, SYSTEM, SYSTEM_CALL
from convolver.tracing.system_call_names import system_call_name

TARGETS = ("", *enum_names("cv_wire_target", "CV_WIRE_TO_")[1:-1])
"""What a call that moves bytes has as its first argument, by ``enum cv_wire_target``."""

OF_THE_VDSO = frozenset(("clock_gettime", "gettimeofday", "time", "getcpu"))
"""System calls under Valgrind alone: a native run reads the time without the kernel, in the vdso."""


def system_document(payload: bytes) -> dict[str, Any] | None:
    """Return the tracer's record (``struct cv_wire_system`` and its calls) as a JSON-able document; None where there was none.

    ``pages`` counts pages of ``page_bytes`` (None where the kernel did not tell), ``calls`` has one entry for each system call
    and what it moved bytes to or from: ``call``, ``target``, ``calls``, ``bytes``. Calls that a native run answers in the vdso
    are left out.
    """
    if not payload:
        return None
    head = np.frombuffer(payload, SYSTEM, 1)[0]
    pages = head["pages"]
    calls = np.frombuffer(payload, SYSTEM_CALL, int(head["calls"]), SYSTEM.itemsize).tolist()
    return {
        "page_bytes": int(head["page_bytes"]),
        "pages": {name: int(pages[name]) for name in pages.dtype.names} if head["flags"] & PAGES_KNOWN else None,
        "forks": int(head["forks"]),
        "threads": int(head["threads"]),
        "calls": [
            {"call": name, "target": TARGETS[target] if target < len(TARGETS) else "other", "calls": calls, "bytes": moved}
            for name, target, calls, moved in ((system_call_name(number), *rest) for number, *rest in calls)
            if name not in OF_THE_VDSO
        ],
    }


def faults(pages: dict[str, int]) -> int:
    """Return how many page faults a native run with pages of 4 KiB has: its ``ru_minflt``, but for what is left out."""
    return pages["anonymous"] + pages["shared"] + pages["windows"]

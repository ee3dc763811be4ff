"""Huge pages that the host holds ready, before a run under a condition that asks for them.

A hypervisor takes memory that its guest has left free for seconds back and gives it again, 2 MiB at a time, at the first touch: a
page that was not used lately costs 3 to 8 times as much as one just given back. How long memory lay idle before a run is no
property of the condition, and a probe finds memory that it just used; so as much as the program takes is touched and given back
right before the run.
"""

from __future__ import annotations

import mmap

HUGE_PAGE = 2 << 20


def warm_huge_pages(size_bytes: int) -> int:
    """Touch and give back so many bytes of huge pages; returns the pages touched, 0 where this system has none."""
    advice, flags = getattr(mmap, "MADV_HUGEPAGE", None), getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
    pages = -(-size_bytes // HUGE_PAGE)
    if advice is None or pages < 1:
        return 0
    # One page more, since the mapping need not be aligned.
    with mmap.mmap(-1, (pages + 1) * HUGE_PAGE, flags=flags) as memory:
        try:
            memory.madvise(advice)
        except OSError:
            return 0
        for page in range(pages + 1):
            memory[page * HUGE_PAGE] = 1
    return pages + 1

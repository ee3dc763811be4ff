"""A core as one of its two threads sees it while the other does the same.

Nothing is fitted: what the threads take turns in (issue, retirement, fetch, ports) is there every second cycle, what they
divide (buffers, translations, decoded code, the core's own caches) by half. So a thread that waits for results loses nothing, and
one that fills a port or the width takes twice as long.
"""

from __future__ import annotations

import msgspec

from convolver.machine.profile import MachineProfile
from convolver.machine.project import Changes, project

CORE_THREADS = "core_threads"
"""Field of a profile's CPU: how many threads share the core (default: 1)."""


def beside_sibling(machine: MachineProfile) -> MachineProfile:
    """Return the machine as a thread sees it whose core runs another thread with as much work.

    Raises :class:`UsageError` or :class:`HierarchyError` where half a cache is none.
    """
    own = machine.hierarchy[:-1] or machine.hierarchy
    ways = {level.level: level.ways // 2 for level in own if not level.ways % 2}  # lines of both are in every set
    changes = Changes(sizes={level.level: level.size_bytes // 2 for level in own}, ways=ways)
    shared = project(machine, f"{machine.name}+sibling", changes)
    said = (*shared.changes, "one of 2 threads of its core")
    return msgspec.structs.replace(shared, cpu={**shared.cpu, CORE_THREADS: 2}, changes=said)

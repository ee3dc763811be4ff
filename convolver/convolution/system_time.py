"""System time: what a program had of the kernel, times what a machine's kernel takes for it.

Page faults, system calls and moved bytes are counted by the tracer (:mod:`convolver.tracing.kernel_use`), each cost is measured
by the probe (:mod:`convolver.machine.kernel_costs`). The sum knows nothing of files on a disk, of waiting, and of what one call
costs more than another of its class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from convolver.machine.profile import MachineProfile

FEW_PAGES, MANY_PAGES = 256, 8192
"""Pages in the mappings of ``page.few`` and ``page.many``: what is reused soon is still in a cache."""
FEW_HUGE, MANY_HUGE = 8, 64
"""The same of ``page.huge`` and ``page.huge_many``."""

SPREAD = 1.5
"""The model's own error, a 90 % interval: between 1 / SPREAD and SPREAD times what is said (docs/theory.md)."""

PARTS = ("page_seconds", "call_seconds", "start_seconds")

_KINDS = {
    "call.mapping": ("mmap", "munmap", "mprotect", "mremap", "brk", "madvise"),
    "call.open": ("open", "openat", "openat2", "creat", "pipe", "pipe2", "socket", "dup", "memfd_create"),
    "call.stat": (
        *("stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink", "readlinkat"),
        *("getdents", "getdents64", "getcwd", "unlink", "unlinkat", "rename", "mkdir", "chdir", "statfs"),
    ),
}
_COST_OF = {call: kind for kind, calls in _KINDS.items() for call in calls}

_FREE = frozenset(("close", "clone", "clone3", "fork", "vfork", "exit", "exit_group", "execve", "execveat"))
"""Calls whose cost is in that of others: of opening, of threads and processes."""

_READS = frozenset(("read", "pread64", "readv", "preadv", "recvfrom", "recvmsg"))


@dataclass(frozen=True)
class SystemTime:
    """Predicted seconds in the kernel, the ends of their interval, and :data:`PARTS`: pages, calls (bytes included), the start of
    the process and its threads."""

    seconds: float
    low: float
    high: float
    parts: Mapping[str, float]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> SystemTime:
        """Return what :meth:`document` wrote."""
        low, high = document["interval_seconds"]
        return cls(document["seconds"], low, high, {name: document[name] for name in PARTS})

    def document(self) -> dict[str, Any]:
        """Return it as a JSON-able document."""
        return {"seconds": self.seconds, "interval_seconds": [self.low, self.high], **self.parts}


def lacking(system: Mapping[str, Any] | None, machine: MachineProfile) -> str | None:
    """Return why there is no system time, as a phrase with the next step; None where there is one."""
    if system is None:
        return "system time is not predicted: the trace does not say what the program had of the kernel; trace again"
    if not {"page.few", "call.least"} <= {cost.name for cost in machine.kernel}:
        return "system time is not predicted: the profile has no costs of the kernel; `convolver probe` measures them"
    return None


def _between(count: int, few: tuple[int, float], many: tuple[int, float]) -> float:
    """Return the cost of one of so many pages, from the costs with few and with many of them: linear in the logarithms."""
    (least, low), (most, high) = few, many
    reach = math.log(max(count, 1) / least) / math.log(most / least)
    return float(low * (high / low) ** min(max(reach, 0.0), 1.0))


def _page_seconds(pages: Mapping[str, int], costs: Mapping[str, float], huge: tuple[int, int]) -> float:
    """Return the time of all faults; ``huge``: anonymous pages that huge ones replace, and how many these are."""
    replaced, regions = huge if "page.huge" in costs else (0, 0)
    few, huge_few = costs["page.few"], costs.get("page.huge", 0.0)
    single = max(pages["anonymous"] - replaced - pages["populated"], 0)
    each = _between(single, (FEW_PAGES, few), (MANY_PAGES, costs.get("page.many", few)))
    each_huge = _between(regions, (FEW_HUGE, huge_few), (MANY_HUGE, costs.get("page.huge_many", huge_few))) if huge_few else 0.0
    return (
        single * each
        + pages["populated"] * costs.get("page.populated", few)
        + pages["shared"] * costs.get("page.shared", each)
        + pages["windows"] * costs.get("page.window", few)
        + regions * each_huge
    )


def _call_seconds(entry: Mapping[str, Any], costs: Mapping[str, float]) -> float:
    """Return the time of all calls of one kind to one target."""
    name, target, least = entry["call"], entry["target"], costs["call.least"]
    if name in _FREE:
        return 0.0
    if not target:
        return float(entry["calls"] * costs.get(_COST_OF.get(name, "call.least"), least))
    way = "read" if name in _READS else "write"
    kind = {"file": f"{way}_file", "pipe": "pipe", "socket": "pipe", "null": f"{way}_null"}.get(target, f"{way}_file")
    return float(entry["calls"] * costs.get(f"call.{kind}", least) + entry["bytes"] * costs.get(f"byte.{kind}", 0.0))


def allocated_huge(pages: Mapping[str, int]) -> tuple[int, int]:
    """Return how many pages huge ones replace where the program's allocator asks for them, and how many these are; wherever one
    fits for a trace that does not tell whose pages they are."""
    kind = "heap" if "heap_pages" in pages else "huge"
    return pages[f"{kind}_pages"], pages[f"{kind}_regions"]


def _huge(pages: Mapping[str, int], machine: MachineProfile) -> tuple[int, int]:
    """Return how many pages huge ones replace on the machine, and how many these are."""
    asked = machine.provenance.get("pages", "default")
    policy = machine.cpu.get("transparent_huge_pages", "")
    if asked == "4k" or (asked == "default" and policy == "never"):
        return 0, 0
    if policy == "always":
        return pages["huge_pages"], pages["huge_regions"]
    return allocated_huge(pages) if asked in ("thp", "2m") else (pages["advised_pages"], pages["advised_regions"])


def _parts(system: Mapping[str, Any], machine: MachineProfile, costs: Mapping[str, float]) -> dict[str, float]:
    pages = system["pages"]
    return {
        "page_seconds": 0.0 if pages is None else _page_seconds(pages, costs, _huge(pages, machine)),
        "call_seconds": sum(_call_seconds(entry, costs) for entry in system["calls"]),
        "start_seconds": costs.get("start.process", 0.0) + system["threads"] * costs.get("start.thread", 0.0),
    }


def system_time(system: Mapping[str, Any] | None, machine: MachineProfile) -> SystemTime | None:
    """Return the predicted system time of a program on a machine; None where :func:`lacking` says why.

    ``system`` is what a signature says (docs/formats/signature.md, system). The interval joins what the samples of the costs
    leave with :data:`SPREAD`.
    """
    if system is None or lacking(system, machine) is not None:
        return None

    def parts(value: str) -> dict[str, float]:
        return _parts(system, machine, {cost.name: getattr(cost, value) for cost in machine.kernel})

    known = parts("seconds")
    low, high = sum(parts("low").values()) / SPREAD, sum(parts("high").values()) * SPREAD
    return SystemTime(sum(known.values()), low, high, known)


def system_document(system: Mapping[str, Any] | None, machine: MachineProfile) -> dict[str, Any]:
    """Return the predicted system time as a JSON-able document, or a ``note`` that says why there is none."""
    known = system_time(system, machine)
    return {"note": lacking(system, machine)} if known is None else known.document()


def with_system(seconds: float, interval: Sequence[float], system: SystemTime | None) -> tuple[float, float, float]:
    """Return user and system time together and the ends of their interval; their errors are independent."""
    low, high = interval
    if system is None:
        return seconds, low, high
    whole = seconds + system.seconds
    below, above = (
        math.hypot(seconds - low, system.seconds - system.low),
        math.hypot(high - seconds, system.high - system.seconds),
    )
    return whole, max(whole - below, 0.0), whole + above


def ratio_with_system(ratio: float, target_seconds: float, systems: Sequence[SystemTime | None]) -> float:
    """Return base time / target time with system time, where both machines' is known, from the ``ratio`` of user time."""
    base, target = systems
    if base is None or target is None:
        return ratio
    return (ratio * target_seconds + base.seconds) / (target_seconds + target.seconds)

"""What the operating system says about this machine: caches, CPU, NUMA nodes, page policy, hypervisor."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convolver.errors import MachineError
from convolver.machine.hierarchy import MAX_WAYS, Level, check_levels
from convolver.machine.processor_sets import RECORDED
from convolver.units import parse_bytes

ROOT = Path("/")
_CPUS = "sys/devices/system/cpu"
_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _integer(path: Path) -> int:
    text = _text(path)
    return int(text) if text.isdigit() else 0


def _level(folder: Path) -> Level | None:
    if _text(folder / "type") not in ("Data", "Unified") or not _text(folder / "size"):
        return None
    line = _integer(folder / "coherency_line_size") or 64
    size = parse_bytes(_text(folder / "size"))
    # Zero ways means that the kernel does not know or that the cache is fully associative; some virtual machines claim hundreds.
    ways = _integer(folder / "ways_of_associativity") or 16
    ways = min(ways, MAX_WAYS, max(size // line, 1))
    return Level(
        level=f"L{_integer(folder / 'level')}", size_bytes=size // (ways * line) * ways * line, ways=ways, line_bytes=line
    )


def read_hierarchy(cpu: int = 0, root: Path = ROOT / _CPUS) -> tuple[Level, ...]:
    """Return the data and unified caches that one core sees, nearest first, as the kernel reports them.

    Raises :class:`MachineError` when the kernel reports none (some containers), :class:`HierarchyError` for an impossible report.
    """
    folders = sorted((root / f"cpu{cpu}" / "cache").glob("index*"))
    levels = sorted((level for folder in folders if (level := _level(folder))), key=lambda level: level.level)
    if not levels:
        raise MachineError(f"The kernel reports no caches for CPU {cpu}; write the hierarchy into the machine file by hand.")
    return check_levels(levels)


def sibling_cpus(cpu: int, root: Path = ROOT / _CPUS) -> set[int]:
    """Return the other threads of a CPU's core, as the kernel reports them (``0,2`` or ``0-1``)."""
    return _cpus_in(_text(root / f"cpu{cpu}" / "topology" / "thread_siblings_list")) - {cpu}


def last_level_cpus(cpu: int, root: Path = ROOT / _CPUS) -> int:
    """Return how many CPUs share the last level of this one, as the kernel reports it; 0 where it does not."""
    folders = (root / f"cpu{cpu}" / "cache").glob("index*")
    last = max(folders, key=lambda folder: _integer(folder / "level"), default=None)
    return len(_cpus_in(_text(last / "shared_cpu_list"))) if last is not None else 0


def _cpus_in(text: str) -> set[int]:
    """Return the CPUs in a list of the kernel (``0,2`` or ``0-1``)."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found.update(range(int(first), int(last or first) + 1))
    return found


def _cpuinfo(cpu: int, root: Path) -> dict[str, str]:
    for section in _text(root / "proc/cpuinfo").split("\n\n"):
        fields = dict(line.split(":", 1) for line in section.splitlines() if ":" in line)
        fields = {key.strip(): value.strip() for key, value in fields.items()}
        if fields.get("processor") == str(cpu):
            return fields
    return {}


def _policy(text: str) -> str:
    """Return the word in brackets of ``always [madvise] never``."""
    return text.partition("[")[2].partition("]")[0]


def describe_cpu(cpu: int = 0, root: Path = ROOT, said: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what identifies the CPU and its surroundings: model, microcode, clock, cores, SMT, NUMA, pages, hypervisor.

    Of another machine: ``root`` holds copies of its files, ``said`` what it says of itself (architecture, cpus, page_bytes,
    memory_bytes, kernel).
    """
    info = _cpuinfo(cpu, root)
    known = said if said is not None else _own()
    flags = set(info.get("flags", info.get("Features", "")).split())
    clock = info.get("cpu MHz", "")
    siblings = _text(root / _CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list")
    return {
        "model": info.get("model name", known["architecture"]),
        "architecture": known["architecture"],
        "vendor": info.get("vendor_id", ""),
        "family": info.get("cpu family", ""),
        "model_number": info.get("model", ""),
        "stepping": info.get("stepping", ""),
        "microcode": info.get("microcode", ""),
        "reported_hertz": float(clock) * 1e6 if clock else 0.0,
        "cpus": known["cpus"],
        "smt_siblings": siblings,
        "last_level_cpus": last_level_cpus(cpu, root / _CPUS),
        "numa_nodes": len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or 1,
        "page_bytes": known["page_bytes"],
        "transparent_huge_pages": _policy(_text(root / _PAGES)),
        "memory_bytes": known["memory_bytes"],
        "hypervisor": _hypervisor(flags, root),
        "instruction_sets": sorted(flags & RECORDED),
        "kernel": known["kernel"],
    }


def _own() -> dict[str, Any]:
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    return {
        "architecture": platform.machine(),
        "cpus": os.cpu_count() or 1,
        "page_bytes": page_bytes,
        "memory_bytes": page_bytes * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
    }


def _hypervisor(flags: set[str], root: Path) -> str:
    if "hypervisor" not in flags:
        return ""
    return _text(root / "sys/hypervisor/type") or _text(root / "sys/class/dmi/id/sys_vendor") or "unknown"

"""What is measured: kernels, working sets, threads, rounds, and how much effort a point is worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from convolver.errors import UsageError
from convolver.machine.hierarchy import Level
from convolver.schema import document_id

SMALLEST_BYTES = 4096
QUICK_LARGEST_BYTES = 256 << 20
FULL_LARGEST_BYTES = 512 << 20

_STEPS = {1: (4,), 2: (4, 6), 4: (4, 5, 6, 7)}


def _names(text: str) -> list[str]:
    return text.split()


_QUICK = _names(
    "chase chase_4 chase_sequential load load_v16 load_v32 stride_2 stride_8 stride_16 stream_hot "
    "random_load gather store store_v16 store_v32 copy update random_update"
)
_FULL = _names(
    "chase chase_2 chase_4 chase_8 chase_restarted chase_sequential load load_v16 load_v32 load_v64 stride_2 stride_4 stride_8 "
    "stride_16 stride_32 streams_8 stream_hot random_load random_hot_3 random_hot_15 gather store store_v16 store_v32 store_v64 "
    "store_stride_8 copy copy_v32 triad update random_store random_update"
)
_QUICK_REGISTERS = _names(
    "cycle branch instruction add add_v16 add_v32 multiply multiply_v16 multiply_v32 fma fma_v16 fma_v32 divide divide_v16 "
    "divide_v32 add_latency multiply_latency fma_latency"
)
_FULL_REGISTERS = [*_QUICK_REGISTERS, "add_v64", "multiply_v64", "fma_v64", "divide_v64"]
_THREADED = _names("load load_v32 store copy random_load chase chase_4")
LOADED = _names("chase chase_4 random_load load store")
"""Kernels that are also measured while the other CPUs copy memory."""
_HUGE = ("chase",)
_HUGE_SMALLEST_BYTES = 4 << 20
"""What is also measured on huge pages, and from where on: below it the translations of small pages are near, too."""
_DENSE_BYTES = 64 << 20
"""Beyond this, memory only gets larger: one point an octave, as the calibration takes; the full plan has two for the chase."""


class Item(NamedTuple):
    """One point to measure; a kernel on registers has a working set of 0."""

    kernel: str
    working_set_bytes: int
    threads: int = 1


SECOND_BUSY = (Item("instruction", 0, 2),)
"""Instructions while a second CPU is busy: much slower where both are one core's threads, whatever the topology claims."""


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """When a point is good enough: see ``probes/measure.h``."""

    sample_seconds: float = 0.0006
    limit_seconds: float = 0.12
    warmup_seconds: float = 0.08
    precision: float = 0.02
    least: int = 9
    most: int = 31


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides what a probe measures, apart from the CPU.

    ``rounds`` repeats the whole list, so that a disturbance that lasts for seconds hits each point only once. Points whose two
    best rounds still differ by more than ``settled`` are then measured in further rounds, the least settled first, as far as
    ``budget_seconds`` since the start and ``most_rounds`` allow. Where more than a fifth has not settled even then, the machine
    was disturbed, and ``patience_seconds`` more are spent on it, in any number of rounds. ``pages`` is default (as any program
    gets them here), 4k, thp (asked for) or 2m (demanded). Other threads run the kernel ``beside`` where it is given, a single one
    on CPU ``other``.
    Working sets up to ``near_bytes`` lie in caches that run at the core's clock.
    ``loaded`` are the thread counts for which curves beside streams are measured, too; ``surroundings`` adds CPUs that share
    the core, and residency; ``core`` the core's own figures and the kernel's. ``huge``: points that are measured on huge pages,
    too, where the others are not.
    """

    name: str
    items: tuple[Item, ...]
    rounds: int = 2
    most_rounds: int = 2
    settled: float = 0.03
    budget_seconds: float = 0.0
    patience_seconds: float = 0.0
    pages: str = "default"
    effort: Effort = Effort()
    beside: str = ""
    other: int = -1
    loaded: tuple[int, ...] = ()
    surroundings: bool = False
    core: bool = False
    near_bytes: int = 0
    huge: tuple[Item, ...] = ()

    @property
    def id(self) -> str:
        """Hash of the plan: an interrupted probe resumes only under the same one."""
        return document_id({"plan": msgspec.to_builtins(self)})

    @property
    def largest_bytes(self) -> int:
        """The largest working set."""
        return max(item.working_set_bytes for item in self.items)

    def restricted(self, supported: Iterable[str]) -> Plan:
        """Return the plan without the kernels that this CPU cannot run; raises :class:`UsageError` when none is left."""
        names = set(supported)
        items = tuple(item for item in self.items if item.kernel in names)
        if not items:
            raise UsageError(f"This machine can run no kernel of the plan '{self.name}'.")
        return msgspec.structs.replace(self, items=items)

    def on_huge_pages(self) -> Plan:
        """Return the plan of the points on huge pages: as many rounds, and nothing beyond."""
        return Plan(
            name=f"{self.name}, huge pages",
            items=self.huge,
            rounds=self.rounds,
            most_rounds=self.rounds,
            pages="2m",
            effort=self.effort,
            near_bytes=self.near_bytes,
        )


def working_sets(largest_bytes: int, per_octave: int, smallest_bytes: int = SMALLEST_BYTES) -> list[int]:
    """Return 1, 2 or 4 sizes an octave up to ``largest_bytes``.

    All have at most three significant binary digits: the random kernels permute blocks whose size is the lowest set bit.
    """
    if per_octave not in _STEPS:
        raise UsageError(f"{per_octave} points an octave are not possible; choose 1, 2 or 4.")
    sizes = []
    octave = smallest_bytes
    while octave <= largest_bytes:
        sizes += [size for step in _STEPS[per_octave] if (size := octave * step // 4) <= largest_bytes]
        octave *= 2
    return sizes


def largest_working_set(levels: Sequence[Level], available_bytes: int, cap_bytes: int) -> int:
    """Return a power of two well beyond the last level, but at most ``cap_bytes`` and a quarter of the available memory."""
    wanted = max(8 * levels[-1].size_bytes if levels else 0, 64 << 20)
    limit = max(min(wanted, cap_bytes, available_bytes // 4), SMALLEST_BYTES)
    return 1 << (limit.bit_length() - 1)


def _ordered(sets_of: dict[str, list[int]], threads: Sequence[int] = (1,)) -> tuple[Item, ...]:
    """Order by working set, then as listed: kernels that share the content of the memory come one after the other."""
    sizes = sorted({size for sizes in sets_of.values() for size in sizes})
    kernels = {size: [kernel for kernel, sizes in sets_of.items() if size in set(sizes)] for size in sizes}
    return tuple(Item(kernel, size, count) for count in threads for size in sizes for kernel in kernels[size])


def _huge(largest_bytes: int, pages: str) -> tuple[Item, ...]:
    """Return the points on huge pages, one an octave; none where all are, or must not be."""
    if pages != "default":
        return ()
    return _ordered({name: working_sets(largest_bytes, 1, _HUGE_SMALLEST_BYTES) for name in _HUGE})


def quick_plan(largest_bytes: int = QUICK_LARGEST_BYTES, *, pages: str = "default", cpus: int = 1) -> Plan:
    """Return the plan for about ten seconds: one point an octave, two for the chase, from which capacities are detected.

    With ``cpus`` beyond 1, instructions are also timed while another CPU is busy: do the two share a core?
    """
    sparse = working_sets(largest_bytes, 1)
    memory = dict.fromkeys(_QUICK, sparse[1:])
    memory["chase"] = sorted({*sparse, *working_sets(min(largest_bytes, _DENSE_BYTES), 2)})
    items = _ordered(memory) + tuple(Item(name, 0) for name in _QUICK_REGISTERS) + SECOND_BUSY[: cpus > 1]
    # Many short rounds rather than a few long ones: on shared machines disturbances last for seconds.
    effort = Effort(sample_seconds=0.0003, limit_seconds=0.012, warmup_seconds=0.015, least=7, most=11)
    return Plan(
        name="quick",
        items=items,
        rounds=2,
        most_rounds=9,
        budget_seconds=6.5,
        patience_seconds=8.0,
        pages=pages,
        effort=effort,
        core=True,
        huge=_huge(largest_bytes, pages),
    )


def full_plan(
    largest_bytes: int = FULL_LARGEST_BYTES, *, pages: str = "default", threads: Sequence[int] = (1,), cpus: int = 1
) -> Plan:
    """Return the plan for about ninety seconds: all kernels, two points an octave (four for the chase) up to 64 MiB, half as
    many after, two rounds and more.

    ``threads`` beyond 1 adds the curves of a busy node, at one point an octave: all CPUs with the same kernel, and some kernels
    beside CPUs that copy memory.
    """
    dense = min(largest_bytes, _DENSE_BYTES)
    memory = {name: sorted({*working_sets(largest_bytes, 1), *working_sets(dense, 2)}) for name in _FULL}
    memory["chase"] = sorted({*working_sets(largest_bytes, 2), *working_sets(dense, 4)})
    items = _ordered(memory) + tuple(Item(name, 0) for name in _FULL_REGISTERS) + SECOND_BUSY[: cpus > 1]
    busy = [count for count in threads if count > 1]
    items += _ordered({name: working_sets(largest_bytes // 4, 1) for name in _THREADED}, busy)
    return Plan(
        name="full",
        items=items,
        rounds=2,
        most_rounds=12,
        settled=0.015,
        budget_seconds=62.0,
        patience_seconds=18.0,
        pages=pages,
        loaded=tuple(busy),
        surroundings=True,
        core=True,
        huge=_huge(largest_bytes, pages),
        effort=Effort(sample_seconds=0.0004, limit_seconds=0.02, warmup_seconds=0.04, most=21),
    )

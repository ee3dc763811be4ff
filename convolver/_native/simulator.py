"""Typed wrapper of csrc/include/cv_sim.h: N cache hierarchies fed in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.layouts import pointer
from convolver._native.status import check
from convolver.errors import SimulationError

GROUPS: int = lib.CV_SIM_GROUPS
"""Groups that :meth:`Simulator.group_sets` and :meth:`Simulator.group_bursts` distinguish."""


class Geometry(NamedTuple):
    """One cache level as the C core sees it."""

    sets: int
    ways: int
    line_bytes: int
    policy: int = 0  # place in convolver.machine.hierarchy.POLICIES
    own: bool = False  # each thread has one for itself
    parts: int = 1  # else: thread t has number t // adjacent % parts
    adjacent: int = 1
    frames: bool = False  # pages lie in frames at random: a power of two sets, another policy than LRU


class OwnerLimitError(SimulationError):
    """An owner is larger than was allowed; the simulator cannot be used further."""


class Counts(NamedTuple):
    """Counts of one level, each an array with one element per owner. Hits are accesses - misses."""

    accesses: NDArray[np.uint64]
    misses: NDArray[np.uint64]
    write_backs: NDArray[np.uint64]


def make_refs(
    addresses: NDArray[np.uint64],
    sizes: NDArray[np.uint16] | None,
    writes: NDArray[np.bool_] | None,
    owners: NDArray[np.uint32] | None,
) -> Any:
    """A ``cv_refs`` over arrays that the caller keeps alive."""
    refs = ffi.new("cv_refs *")
    refs.address = pointer(addresses, "const uint64_t *")
    refs.owner = pointer(owners, "const uint32_t *")
    refs.size = pointer(sizes, "const uint16_t *")
    refs.write = pointer(writes, "const uint8_t *")
    refs.count = len(addresses)
    return refs


class NativeSimulator:
    """What the simulators in C have in common; ``functions`` is the beginning of the names of theirs."""

    functions: ClassVar[str]
    handle: Any
    groups = 1
    _limited = False

    def _call(self, name: str, *arguments: Any) -> Any:
        return getattr(lib, f"{self.functions}_{name}")(self.handle, *arguments)

    def group_bursts(self) -> None:
        """Keep counts by number of the burst, modulo :data:`GROUPS`; before the first feed."""
        check(self._call("group_bursts"), "Grouping by burst")
        self.groups = GROUPS

    def burst(self, number: int) -> None:
        """Count what is fed from now on for this burst; a decoder says it itself."""
        self._call("burst", number)

    def limit_owners(self, owners: int) -> None:
        """Let ``feed`` raise :class:`OwnerLimitError` for an owner of this number or above."""
        check(self._call("limit_owners", owners), f"Limiting the owners to {owners}")
        self._limited = True

    def _fed(self, status: int) -> None:
        if self._limited and status == lib.CV_ERROR_LIMIT:
            raise OwnerLimitError(
                "Simulating references: an owner, or the number of different address regions, exceeds the limit."
            )
        check(status, "Simulating references")

    @property
    def references(self) -> int:
        """References fed so far."""
        return int(self._call("references"))

    @property
    def owners(self) -> int:
        """One more than the largest owner fed so far."""
        return int(self._call("owners"))


class Simulator(NativeSimulator):
    """A group of hierarchies; ``handle`` is the ``cv_sim *`` that C code feeds directly."""

    functions = "cv_sim"

    def __init__(self, hierarchies: Sequence[Sequence[Geometry]]) -> None:
        levels = ffi.new("cv_sim_level[]", [tuple(level) for hierarchy in hierarchies for level in hierarchy])
        n_levels = ffi.new("uint32_t[]", [len(hierarchy) for hierarchy in hierarchies])
        made = ffi.new("cv_sim **")
        check(lib.cv_sim_new(levels, n_levels, len(hierarchies), made), "Making a cache simulator")
        self.handle: Any = ffi.gc(made[0], lib.cv_sim_free)

    def select(self, mask: int, value: int) -> None:
        """Simulate only the lines whose number has ``value`` in the bits of ``mask``; before the first feed."""
        check(lib.cv_sim_select(self.handle, mask, value), f"Selecting the lines with {value} in the bits {mask:#x}")

    def group_sets(self, first_bit: int) -> None:
        """Keep counts by three bits of the address, from ``first_bit`` on; before the first feed."""
        check(lib.cv_sim_group(self.handle, first_bit), f"Grouping by address bit {first_bit}")
        self.groups = GROUPS

    def feed(
        self,
        addresses: NDArray[np.uint64],
        sizes: NDArray[np.uint16] | None = None,
        writes: NDArray[np.bool_] | None = None,
        owners: NDArray[np.uint32] | None = None,
    ) -> None:
        """Simulate a batch of references: contiguous arrays of exactly these types and of one length (not checked here)."""
        self._fed(lib.cv_sim_feed(self.handle, make_refs(addresses, sizes, writes, owners)))

    def thread(self, number: int) -> None:
        """Simulate what is fed from now on in this thread's own levels; a decoder says it itself."""
        check(lib.cv_sim_thread(self.handle, number), f"Simulating thread {number}")

    @property
    def simd(self) -> str:
        """Instruction set in use: portable, avx2 or avx512. The environment variable CONVOLVER_SIMD asks for less."""
        return str(ffi.string(lib.cv_sim_simd(self.handle)).decode())

    def counts(self, hierarchy: int, level: int) -> Counts:
        """Return the counts of one level of one hierarchy."""
        return Counts(*(array.sum(axis=1, dtype=np.uint64) for array in self.grouped_counts(hierarchy, level)))

    def grouped_counts(self, hierarchy: int, level: int) -> Counts:
        """Return the same by group: arrays of shape (owners, groups)."""
        counts = Counts(*(np.zeros((self.owners, self.groups), dtype=np.uint64) for _ in range(3)))
        pointers = [pointer(array, "uint64_t *") for array in counts]
        check(lib.cv_sim_counts(self.handle, hierarchy, level, *pointers), "Reading the simulator's counters")
        return counts

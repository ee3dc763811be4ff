"""Typed wrapper of csrc/include/cv_core.h: cycles of executed paths on an out-of-order core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi, lib
from convolver._native.layouts import copied, layout, pointer
from convolver._native.path_builder import PathWindow
from convolver._native.status import check

CAUSES: int = lib.CV_CORE_CAUSES
WIDTH_CAUSE: int = lib.CV_CAUSE_WIDTH
DEPENDENT_CAUSE: int = lib.CV_CAUSE_DEPENDENT
SECOND_LEVEL: int = lib.CV_CAUSE_LEVELS
FIRST_PORT: int = lib.CV_CAUSE_PORTS
OP = layout("cv_core_op")


def __getattr__(name: str) -> int:
    """Return a number of ``cv_core.h`` by its name without ``CV_CORE_``: flags of operations, the room of their lists."""
    globals()[name] = number = int(getattr(lib, f"CV_CORE_{name}"))
    return number


class PortClass(NamedTuple):
    """How instructions of one kind execute; ``ports`` and ``also``, those of a second micro-operation, are bit masks.

    ``busy``: cycles until a port takes the next one, half a cycle more with ``half``. ``closed``: the class that stands for it
    while vectors of 64 bytes close ports; 0: itself.
    """

    ports: int
    latency: int
    chained_latency: int
    busy: int
    group: int = 0
    half: int = 0
    also: int = 0
    closed: int = 0


class Code(NamedTuple):
    """The code of a program: operations (:data:`OP`) segment by segment, and the sites of its references.

    Segment ``s`` has the operations ``first_op[s]`` to ``first_op[s + 1]`` and lies from ``address[s]`` to ``next_address[s]``.
    """

    first_op: NDArray[np.uint32]
    address: NDArray[np.uint64]
    next_address: NDArray[np.uint64]
    op: NDArray[Any]
    site_op: NDArray[np.uint16]
    site_bytes: NDArray[np.uint16]
    site_store: NDArray[np.bool_]


def _typed(array: Any, dtype: Any) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype=dtype)


class Core:
    """The model of one core over the code of one program."""

    def __init__(self, params: Mapping[str, int], classes: Sequence[PortClass], code: Code) -> None:
        made = ffi.new("cv_core **")
        table = ffi.new("cv_core_class[]", [tuple(one) for one in classes])
        kinds = (np.uint32, np.uint64, np.uint64, OP, np.uint16, np.uint16, np.uint8)
        names = ("uint32_t", "uint64_t", "uint64_t", "cv_core_op", "uint16_t", "uint16_t", "uint8_t")
        arrays = [_typed(array, kind) for array, kind in zip(code, kinds, strict=True)]
        pointers = [pointer(array, f"const {name} *") for array, name in zip(arrays, names, strict=True)]
        sizes = (len(arrays[1]), len(arrays[3]), len(arrays[4]))
        native = ffi.new("cv_core_code *", (*sizes, *pointers))
        check(
            lib.cv_core_new(ffi.new("cv_core_params *", dict(params)), table, len(classes), native, made), "Making a core model"
        )
        self.handle: Any = ffi.gc(made[0], lib.cv_core_free)
        self._ops = sizes[1]
        self._owners = 0

    def levels(
        self, owners: NDArray[np.uint32], rates: NDArray[np.float32], latencies: NDArray[np.uint16], walks: NDArray[np.uint16]
    ) -> None:
        """Say which share of each owner's references brings a line out of order from each farther level, and its cycles.

        ``owners``: one a site; ``rates`` and ``latencies``: arrays (owners, levels); ``walks``: cycles until the page of such a
        line is translated, one an owner.
        """
        owners, rates = _typed(owners, np.uint32), _typed(rates, np.float32)
        latencies, walks = _typed(latencies, np.uint16), _typed(walks, np.uint16)
        pointers = [pointer(owners, "uint32_t *"), pointer(rates, "float *")]
        pointers += [pointer(cycles, "uint16_t *") for cycles in (latencies, walks)]
        given = ffi.new("cv_core_far_shares *", (rates.shape[1], rates.shape[0], *pointers))
        check(lib.cv_core_levels(self.handle, given), "Giving a core model its levels")

    def walk(
        self, window: PathWindow, flags: NDArray[np.uint8] | None = None, latencies: NDArray[np.uint16] | None = None
    ) -> None:
        """Walk a piece of a path; ``flags``: ``CV_VISIT_...`` of each visit, ``latencies`` one a reference (0: near)."""
        path, _kept = window.native()
        optional = [None if array is None else _typed(array, kind) for array, kind in ((flags, np.uint8), (latencies, np.uint16))]
        names = ("uint8_t *", "uint16_t *")
        pointers = [pointer(a, name) for a, name in zip(optional, names, strict=True)]
        check(lib.cv_core_walk(self.handle, path, *pointers), "Walking a path through a core model")

    def turn(self, segments: NDArray[np.int64], warm: int, turns: int) -> None:
        """Walk each of these segments alone, so many times in a row after ``warm`` that are not counted, without references."""
        numbers = _typed(segments, np.uint32)
        status = lib.cv_core_turn(self.handle, pointer(numbers, "uint32_t *"), len(numbers), warm, turns)
        check(status, "Walking segments through a core model")

    def _counts(self, counts: Any) -> NDArray[np.uint64]:
        return copied(counts, self._ops, np.dtype(np.uint64))

    def blame(self, owners: NDArray[np.uint32], count: int) -> None:
        """Count from now on what the operations of each owner are to blame for; ``owners``: one an operation, below ``count``."""
        owners = _typed(owners, np.uint32)
        check(lib.cv_core_blame(self.handle, pointer(owners, "uint32_t *"), count), "Counting causes in a core model")
        self._owners = count

    @property
    def causes(self) -> NDArray[np.uint64]:
        """Cycles of each owner by cause (enum ``cv_core_cause``, levels, ports), shape (owners, :data:`CAUSES`)."""
        buffer = ffi.buffer(lib.cv_core_causes(self.handle), 8 * self._owners * CAUSES)
        return np.frombuffer(buffer, dtype=np.uint64).reshape(self._owners, CAUSES).copy()

    @property
    def cycles(self) -> NDArray[np.uint64]:
        """Cycles of each operation, added up over all walks; see ``cv_core_cycles``."""
        return self._counts(lib.cv_core_cycles(self.handle))

    @property
    def executions(self) -> NDArray[np.uint64]:
        """How often each operation was walked, without warm-up."""
        return self._counts(lib.cv_core_executions(self.handle))

    @property
    def instructions(self) -> int:
        """Operations walked, warm-up included."""
        return int(lib.cv_core_instructions(self.handle))

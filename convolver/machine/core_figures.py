"""Figures of a core that its probes measured, by name: see docs/formats/machine.md, "The core"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median

import msgspec

FORESEEN = 64
"""``front.loop`` of a core that foresees the ends of its loops, as far as the probe looks: no buffer takes them over."""


_WIDEST = re.compile(r"\w+_64(?<!divide_64)")
_AVX512 = re.compile(rf"{_WIDEST.pattern}|v_integer_(mask|between_masks)|gather_\w+")


def is_widest(kind: str) -> bool:
    """Tell whether a kind is one of vectors of 64 bytes."""
    return bool(_WIDEST.fullmatch(kind))


def of_vectors(kind: str) -> bool:
    """Tell whether a kind works on vectors, of numbers or of anything else."""
    return kind.startswith(("fp_", "v_"))


def of_avx512(kind: str) -> bool:
    """Tell whether the probe asks for a kind only where the CPU has AVX-512."""
    return bool(_AVX512.fullmatch(kind))


class CoreFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure, in cycles or, for ``window.*``, in instructions, and the interval that its samples leave.

    Names: ``latency.KIND`` and ``throughput.KIND`` (cycles of one instruction in a chain and among independent ones),
    ``forward.*``, ``branch.*``, ``window.*``; ``witness.taken``, by which the others were judged.
    """

    name: str
    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, name: str, value: float) -> CoreFigure:
        """Return a figure that is known for sure."""
        return cls(name=name, value=float(value), low=float(value), high=float(value))

    @classmethod
    def of_samples(cls, name: str, cycles: Sequence[float]) -> CoreFigure | None:
        """Return the first quartile of sorted samples: disturbances only add time. The interval reaches from the least sample to
        the median. None where there is no sample."""
        if not cycles:
            return None
        value, low, high = (round(found, 3) for found in (cycles[len(cycles) // 4], cycles[0], median(cycles)))
        return cls(name=name, value=value, low=low, high=high)


class MixedKind(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kind of instructions: ``cycles`` of one of many, ``slots`` of the issue width (0: not known).

    ``ports``: those of each of its micro-operations, by numbers that only say which kinds share them (empty: not known).
    ``closes``: those that narrower vectors cannot use beside it.
    """

    name: str
    cycles: float
    slots: int = 0
    ports: tuple[tuple[int, ...], ...] = ()
    closes: tuple[int, ...] = ()

"""Which sample each level of a machine is simulated from.

Bursts begin with the caches in a state that is not theirs, and the larger a cache the longer that shows; a set sample has every
reference to some sets and is exact for those. So the larger levels are taken from the set sample. The first has few sets: one
variable can fill a sampled one. It is taken from the set sample where that has its share of the references of every block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from convolver._native.sinks import Decoded, Sinks
from convolver.machine.hierarchy import DEPENDENT_POLICIES
from convolver.progress import SILENT, Progress
from convolver.simulation.group import LINE_BYTES
from convolver.simulation.targets import Target

ALL, BURSTS, VISITS = "all", "bursts", "visits"
"""Samples of references in order: every one, bursts, or the first visits of each block."""


@runtime_checkable
class Fed(Protocol):
    """Whatever streams references."""

    def feed(self, sinks: Sinks, progress: Progress = SILENT) -> Decoded:
        """Stream all references into simulators and readers of paths, and return what was learned on the way."""


class RecordedTrace(Fed, Protocol):
    """A stream of references with a description; :class:`convolver.tracing.reader.Trace` is one.

    A program that runs and the kernels of the probe are others: their ids, signatures and blocks are known after :meth:`feed`.
    """

    @property
    def id(self) -> str:
        """Id of the recorded trace; empty as long as it is not known."""

    @property
    def header(self) -> Mapping[str, Any]:
        """Its description; ``sampling`` says what was recorded."""


class Sampled(NamedTuple):
    """What a trace holds.

    ``windows`` names the sample of the references in order (None: there are none), ``classes`` is K where all references to 1/K
    of the sets were recorded beside them (0: none), in the share ``set_share`` of the run.
    """

    windows: str | None
    classes: int
    set_share: float = 1.0

    @property
    def sets(self) -> str:
        """Name of the set sample."""
        return f"sets 1/{self.classes}"


def sampled(plan: Mapping[str, Any] | None) -> Sampled:
    """Return what a trace with this sampling plan holds (fields mode, sample, sets; None: everything)."""
    if not plan or plan.get("mode", "full") == "full":
        return Sampled(VISITS if plan and plan.get("block_limit") else ALL, 0)
    if plan["mode"] != "sample":
        return Sampled(None, 0)
    bursts = int(plan.get("sample") or 0) > 0 and int(plan.get("interval") or 0) > 0
    classes = int(plan.get("sets") or 0)
    return Sampled(BURSTS if bursts else None, classes if classes > 1 else 0, float(plan.get("set_share", 1.0)))


EXACT_CLASSES = 64
"""Samples of more classes of sets, which long runs leave, lack repeated lines (``CV_WIRE_REPEATED_CLASSES``): they stand for all
levels but the first, and levels with other numbers of sets are rounded."""


def fits_sets(machine: Target, classes: int) -> bool:
    """True when 1/K of the sets of every level of the machine are the sets that a sample of 1/K holds, or nearly those."""
    return (
        classes > 1
        and machine.system.plain
        and all(
            level.line_bytes == LINE_BYTES
            and (level.sets % classes == 0 or (classes > EXACT_CLASSES and level.sets * level.ways >= classes))
            and level.policy not in DEPENDENT_POLICIES
            for level in machine.hierarchy
        )
    )

"""Exact LRU stack distances, and from them the misses of a fully associative cache of every size, in one pass.

The distance of an access is the number of different other lines touched since its line was touched before (Mattson, Gecsei,
Slutz and Traiger, Evaluation techniques for storage hierarchies, IBM Systems Journal 9(2), 1970).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.stack import Stack
from convolver.errors import SimulationError
from convolver.progress import SILENT, Progress
from convolver.simulation.arrays import check_references, in_parts
from convolver.simulation.level_samples import ALL, sampled

if TYPE_CHECKING:
    import polars as pl

    from convolver.tracing.reader import Trace

FEED = 1 << 18
"""References of one call into the C core, so that an interrupt is seen soon."""


class MissCurve:
    """Misses of fully associative LRU caches over their size.

    ``histogram``: accesses by distance in lines. ``cold``: first touches, which every cache misses; also the footprint in lines.
    """

    def __init__(self, histogram: NDArray[np.uint64], cold: int, line_bytes: int) -> None:
        self.histogram = histogram
        self.cold = cold
        self.line_bytes = line_bytes
        self._hits = np.concatenate([[0], np.cumsum(histogram, dtype=np.uint64)]).astype(np.uint64)

    @property
    def accesses(self) -> int:
        """Lines touched, each as often as a reference touched it."""
        return int(self._hits[-1]) + self.cold

    @property
    def footprint_bytes(self) -> int:
        """Bytes of all lines touched."""
        return self.cold * self.line_bytes

    def misses(self, capacity_bytes: int) -> int:
        """Return the misses of a cache of this capacity (rounded down to whole lines)."""
        lines = min(max(capacity_bytes, 0) // self.line_bytes, len(self.histogram))
        return self.accesses - int(self._hits[lines])

    def table(self, capacities_bytes: Iterable[int] | None = None) -> pl.DataFrame:
        """Return capacity_bytes, misses (u64) and miss_ratio; by default at four capacities a doubling, up to the footprint."""
        import polars as pl

        if capacities_bytes is None:
            steps = 2.0 ** np.arange(0, np.log2(max(self.cold, 1)) + 1.25, 0.25)
            capacities_bytes = sorted({int(step) * self.line_bytes for step in steps})
        capacities = list(capacities_bytes)
        misses = [self.misses(capacity) for capacity in capacities]
        ratios = [count / self.accesses if self.accesses else None for count in misses]
        columns: dict[str, Any] = {"capacity_bytes": capacities, "misses": misses, "miss_ratio": ratios}
        return pl.DataFrame(columns, schema={"capacity_bytes": pl.UInt64, "misses": pl.UInt64, "miss_ratio": pl.Float64})


def miss_curve_of_arrays(
    addresses: NDArray[np.uint64],
    *,
    sizes: NDArray[np.uint8] | NDArray[np.uint16] | None = None,
    line_bytes: int = 64,
    progress: Progress = SILENT,
) -> MissCurve:
    """Return the miss curve of references given as arrays (as in :func:`convolver.simulation.one_pass.simulate_arrays`).

    Raises :class:`SimulationError` for arrays of another type, length or layout and for a line size that is no power of two.
    """
    refs = check_references(addresses, sizes)
    stack = Stack(line_bytes)
    for part in in_parts(refs, FEED, "Measuring stack distances", progress):
        stack.feed(*part)
    return MissCurve(stack.histogram(), stack.cold, line_bytes)


def miss_curve(trace: Trace, *, line_bytes: int = 64) -> MissCurve:
    """Return the miss curve of a full trace; raises :class:`SimulationError` for a sampled one, which has no distances."""
    if sampled(trace.header.get("sampling")).windows != ALL:
        raise SimulationError("Stack distances need every reference; record the trace with --full.")
    stack = Stack(line_bytes)
    for batch in trace.batches():
        stack.feed(batch.addresses, batch.sizes)
    return MissCurve(stack.histogram(), stack.cold, line_bytes)

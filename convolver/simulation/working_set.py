"""The working-set curve: how many different lines a window of so many accesses touches, averaged over all such windows.

The average footprint (Xiang, Bao, Ding and Gao, Linear-time modeling of program working set in shared cache, PACT 2011), exact
for windows of every power of two, in one pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from convolver._native.footprint import Footprint
from convolver.errors import SimulationError
from convolver.progress import SILENT, Progress
from convolver.simulation.arrays import check_references, in_parts
from convolver.simulation.level_samples import ALL, sampled

if TYPE_CHECKING:
    import polars as pl

    from convolver.tracing.reader import Trace

FEED = 1 << 18
"""References of one call into the C core, so that an interrupt is seen soon."""


def _table(footprint: Footprint, line_bytes: int) -> pl.DataFrame:
    import polars as pl

    windows = footprint.result()
    lengths = 2 ** np.arange(len(windows.lines), dtype=np.uint64)
    counts = windows.accesses - lengths.astype(float) + 1
    lines = windows.lines / counts if len(lengths) else windows.lines
    return pl.DataFrame({"window_accesses": lengths, "lines": lines, "working_set_bytes": lines * line_bytes})


def working_set_of_arrays(
    addresses: NDArray[np.uint64],
    *,
    sizes: NDArray[np.uint8] | NDArray[np.uint16] | None = None,
    line_bytes: int = 64,
    progress: Progress = SILENT,
) -> pl.DataFrame:
    """Return window_accesses (1, 2, 4, ...), the average number of different lines in them, and working_set_bytes.

    Raises :class:`SimulationError` for arrays of another type, length or layout and for a line size that is no power of two.
    """
    refs = check_references(addresses, sizes)
    footprint = Footprint(line_bytes)
    for part in in_parts(refs, FEED, "Measuring working sets", progress):
        footprint.feed(*part)
    return _table(footprint, line_bytes)


def working_set(trace: Trace, *, line_bytes: int = 64) -> pl.DataFrame:
    """Return the working-set curve of a full trace; raises :class:`SimulationError` for a sampled one, which has gaps."""
    if sampled(trace.header.get("sampling")).windows != ALL:
        raise SimulationError("A working-set curve needs every reference; record the trace with --full.")
    footprint = Footprint(line_bytes)
    for batch in trace.batches():
        footprint.feed(batch.addresses, batch.sizes)
    return _table(footprint, line_bytes)

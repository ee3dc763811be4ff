"""Where the lines of a block that come out of order are found, for the walk that waits for them."""

from __future__ import annotations

import numpy as np

from convolver.analyzing.falls import DEPENDENT, RANDOM, Falls
from convolver.errors import PredictionError
from convolver.execution.core_time import FarLevels, core_table
from convolver.machine.profile import MachineProfile

MOST_CYCLES = 60_000
"""Latencies are kept in 16 bits."""


def far_levels(where: Falls, machine: MachineProfile) -> FarLevels:
    """Return the farther levels of a calibrated machine; a line whose page's translation is not near adds the walk's latency.
    On cores that follow steps of any length, nothing waits for lines in long strides; on those that follow late, the first lines
    of a stream take the second level's latency, since those from farther away are prefetched up to there.

    Raises :class:`PredictionError` for a profile without a calibration or a cycle.
    """
    calibration = machine.calibration
    if calibration is None:
        raise PredictionError(f"'{machine.name}' is not calibrated, so the latencies of its levels are not known.")
    cycle = machine.throughput("cycle").seconds
    by_pattern = where.lines(np.ones(len(where.sampled)))
    lines = np.where(where.sampled[:, None], np.minimum(by_pattern[:, :, RANDOM:].sum(axis=2), 1.0), 0.0)
    pages = where.page_misses
    walks = pages[:, RANDOM] + pages[:, DEPENDENT]
    walked = np.minimum(walks / np.maximum(lines.sum(axis=1), 1e-12), 1.0) * calibration.walk_latency
    core = core_table(machine)[0]
    if where.long_strides is not None and core.follows_long_strides:
        lines = np.maximum(lines - by_pattern[:, :, RANDOM] * where.long_strides, 0.0)
    if where.early is not None and core.follows_late:
        lines[:, 0] += (by_pattern[:, :, :RANDOM].sum(axis=2) * np.minimum(where.early, 1.0)).sum(axis=1)
    walk, far = (
        np.minimum(np.rint(seconds / cycle), MOST_CYCLES).astype(np.uint16)
        for seconds in (walked, np.broadcast_to(calibration.latency, lines.shape))
    )
    return FarLevels(lines.astype(np.float32), far, walk)

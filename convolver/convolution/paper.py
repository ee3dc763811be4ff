"""The paper's own memory rate: a block's data set location, read off the MAPS curves.

Carrington et al. 2003: "where the references fall in the memory hierarchy" is the location of the data set, and the rate is
that of the MAPS curve there, for unit-stride and for random references by their share. The location is the working set at
which the curve's own kernel has the hit rates that come nearest to the block's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from convolver.analyzing.falls import Array, Falls
from convolver.convolution.costs import kernel_lines
from convolver.machine.hierarchy import Level
from convolver.machine.maps import Curve
from convolver.machine.profile import MachineProfile


def kernel_hit_rates(curve: Curve, levels: Sequence[Level]) -> Array:
    """Return the cumulative hit rates of a curve's kernel at each of its points, shape (points, levels)."""
    lines = kernel_lines(curve, levels)
    served = np.array([lines(point.working_set_bytes) for point in curve.points])
    # Lines from level k miss in every level before it.
    return 1 - served[:, ::-1].cumsum(axis=1)[:, ::-1]


def nearest_points(hit_rates: Array, curve: Curve, levels: Sequence[Level]) -> Array:
    """Return seconds per reference at the point of the curve that is nearest to each row of hit rates; of equally near ones, such
    as those of a plateau, the median."""
    known = kernel_hit_rates(curve, levels)
    seconds = np.array([point.seconds_per_reference for point in curve.points])
    distance = ((hit_rates[:, None, :] - known[None, :, :]) ** 2).sum(axis=2)
    near = distance <= distance.min(axis=1, keepdims=True) + 1e-12
    return np.asarray(np.nanmedian(np.where(near, seconds, np.nan), axis=1))


def distinct_rows(rows: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the distinct rows, and the number of each row among them.

    ``numpy.unique`` along an axis does the same, but compares rows as bytes and takes five times as long.
    """
    order = np.lexsort(rows.T)
    ordered = rows[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    of_row = np.empty(len(rows), dtype=np.intp)
    of_row[order] = np.cumsum(new) - 1
    return ordered[new], of_row


def memory_seconds(memops: Array, random_share: Array, where: Falls, machine: MachineProfile) -> Array:
    """Return the memory time of each block by Equation 1 with the paper's rates."""
    curves = (machine.curve("unit", "load"), machine.curve("random", "load"))
    rates, of_block = distinct_rows(where.hit_rates)  # many blocks have those of a few
    unit, random = (nearest_points(rates, curve, machine.hierarchy)[of_block] for curve in curves)
    return memops * ((1 - random_share) * unit + random_share * random)

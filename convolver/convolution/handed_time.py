"""What lines that threads hand over to each other take, beside what the caches of a core alone say of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from convolver.analyzing.falls import DEPENDENT, Array
from convolver.convolution.memory import mean_width, patterns
from convolver.convolution.rates import combine
from convolver.heavy import pl
from convolver.machine.profile import MachineProfile
from convolver.signature.features import line_capacities
from convolver.simulation.group import LINE_BYTES
from convolver.simulation.handed_lines import HandedLines

COSTS = ("given", "taken", "handover")
"""Costs that the seconds of :func:`handed_seconds` follow: of lines loaded and stored to in a row, and of loads that wait for one
another."""
ONE_WAY = 0.5
"""Of a handover: the writer gets the line, then the reader does."""


def _shapes(table: pl.DataFrame) -> tuple[Array, Array]:
    """Return how many lines a reference of each block can touch, and the share of lines whose loads wait for one another."""
    shares = patterns(table)
    gathered = shares.dependent - shares.chased
    split = np.stack([shares.sequential, shares.strided, shares.random - gathered, shares.dependent], axis=1)
    possible = line_capacities(split, mean_width(table, "bytes", "memops"))
    whole = possible.sum(axis=1)
    return whole, possible[:, DEPENDENT] * shares.chased_lines / np.maximum(whole, 1e-300)


def handed_seconds(
    handed: HandedLines, table: pl.DataFrame, machine: MachineProfile, seconds: Array, costs: Mapping[str, float]
) -> Array:
    """Return what lines from other threads add to the ``seconds`` of each block of a signature's ``table``, by the cost that it
    follows, shape (:data:`COSTS`, blocks).

    A line that the core that had it still has comes from there, one that it does not from the last level; what the caches of the
    reader's core alone say of it is counted already. Both overlap with the rest of what the block does with a line.
    """
    known, kept = machine.calibration, machine.hierarchy[machine.system.private_levels - 1].size_bytes / LINE_BYTES
    last = known.sequential[-2] if known is not None and len(known.sequential) > 1 else 0.0
    loads, stores = handed.by_place(kept, len(seconds))
    lines, chased_share = _shapes(table)

    def row(counts: Array, line: float) -> Array:
        both, own, other = counts
        return np.asarray(both * line + own * last + other * max(line - last, 0.0))

    chased = row(loads * chased_share, ONE_WAY * costs["handover"])
    in_rows = np.stack([row(loads * (1 - chased_share), costs["given"]), row(stores, costs["taken"])])
    references = np.maximum(table["memops"].to_numpy().astype(float), 1.0)
    one_line = seconds / np.maximum(references * lines, 1.0)
    beside = np.minimum(np.maximum(loads.sum(axis=0), stores.sum(axis=0)) * one_line, seconds)
    whole = in_rows.sum(axis=0)
    added = combine(np.stack([beside + chased, whole]), known.exponent if known is not None else 1.0) - beside - chased
    return np.vstack([in_rows / np.maximum(whole, 1e-300) * added, chased])

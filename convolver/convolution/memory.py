"""Memory time of every block: lines split among patterns and costed on curves, or, as the paper has it, by data set location.

Carrington et al. 2003: "where the references fall in the memory hierarchy" is the location of the data set, and the rate is
that of the MAPS curve there, for unit-stride and for random references by their share. The location is the working set at
which the curve's own kernel has the hit rates that come nearest to the block's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver.analyzing.falls import Array, Falls
from convolver.convolution.costs import PatternCost, kernel_lines
from convolver.convolution.lookup import MachineCosts
from convolver.heavy import pl
from convolver.machine.hierarchy import Level
from convolver.machine.maps import Curve
from convolver.machine.profile import MachineProfile
from convolver.signature.features import line_capacities, pattern_shares


class MemoryTime(NamedTuple):
    """Per block: memory seconds and their error. ``by_level``: the seconds by level, shape (blocks, levels)."""

    seconds: Array
    errors: Array
    by_level: Array


class Location(NamedTuple):
    """Per block: the share of random references, and the shares of lines by level, which add up to 1."""

    random_share: Array
    lines: Array


class Patterns(NamedTuple):
    """Shares of each block's references by costed pattern, adding up to 1, and of the dependent ones among them.

    ``dependent`` is what the signature says; part of it is in ``random`` (gathers), part is ``chased``. ``chased_lines`` is the
    share of the lines said to be dependent that are chased.
    """

    sequential: Array
    strided: Array
    random: Array
    chased: Array
    dependent: Array
    chased_lines: Array

    @property
    def costed(self) -> Array:
        """The four costed patterns, shape (blocks, 4)."""
        return np.stack(self[:4], axis=1)


def patterns(table: pl.DataFrame) -> Patterns:
    """Return the pattern shares that are costed.

    Where executed paths were walked, the signature's dependent references are chased. In other signatures (column
    ``path_references`` missing or 0) they are all with addresses computed from loaded values: a gather (``x[index[i]]``: the
    values come from regular references, many are in flight at once) or a pointer chase (the values come from references that
    depend themselves). As many as there are regular references to feed them are taken as gathers then, which cost as random ones
    do; the rest are chased. A block without a sample counts as sequential here; its time comes from other blocks.
    """
    sequential, strided, random, dependent = (
        series.fill_null(0).to_numpy() for series in table.select(pattern_shares()).get_columns()
    )
    walked = table["path_references"].to_numpy() > 0 if "path_references" in table.columns else False
    gathered = np.where(walked, 0.0, np.minimum(dependent, sequential + strided))
    sequential = np.where(table["sampled_references"].to_numpy() > 0, sequential, 1.0)
    chased = dependent - gathered
    # Lines can be those of a chain that goes on in another block: there the block has no dependent reference of its own.
    rule = np.divide(chased, dependent, out=np.zeros_like(chased), where=dependent > 0)
    return Patterns(sequential, strided, random + gathered, chased, dependent, np.where(walked, 1.0, rule))


def nearest_width(widths: Sequence[int], wanted: Array) -> NDArray[np.intp]:
    """Return for each block the place of the width nearest to the wanted one."""
    return np.abs(np.log2(np.maximum(wanted, 1))[:, None] - np.log2(np.array(widths, dtype=float))).argmin(axis=1)


def _pick(costs: Mapping[int, PatternCost], wanted: Array, value: str) -> Array:
    """Return one field of the costs by width, for each block those of the nearest width."""
    widths = sorted(costs)
    return np.array([getattr(costs[width], value) for width in widths])[nearest_width(widths, wanted)]


def located(table: pl.DataFrame, where: Falls, line_bytes: int) -> Location:
    """Return where each block's data lie, and how it goes through them."""
    shares = patterns(table)
    return Location(shares.random + shares.chased, _line_shares(where, _possible(table, shares, line_bytes).sum(axis=1)))


def _possible(table: pl.DataFrame, shares: Patterns, line_bytes: int) -> Array:
    """Return how many lines a reference could bring by pattern, shape (blocks, 4)."""
    return np.asarray(line_capacities(shares.costed, mean_width(table, "bytes", "memops"), line_bytes))


def memory_time(table: pl.DataFrame, where: Falls, costs: MachineCosts, line_bytes: int, *, near: bool = True) -> MemoryTime:
    """Return the memory time of each block; see docs/theory.md for the rules. Not ``near``: without what the references take in
    the first level, which is part of a core time that is known from elsewhere."""
    memops = table["memops"].to_numpy().astype(float)
    load_width = mean_width(table, "load_bytes", "loads")
    store_width = mean_width(table, "store_bytes", "stores")
    shares = patterns(table)
    possible = _possible(table, shares, line_bytes)
    split = _split(where.brought, possible / np.maximum(possible.sum(axis=1, keepdims=True), 1e-12), shares)

    loads = table["loads"].to_numpy() / np.maximum(memops, 1)
    reference, reference_error = (
        _reference(costs, shares, loads, load_width, store_width, field) for field in ("reference_seconds", "reference_error")
    )
    line = _by_level(costs, split, load_width, "line_seconds")
    line_error = _by_level(costs, split, load_width, "line_errors")
    far = where.served[:, 1:]
    taken = where.written_back * np.array(costs.write_back)
    per_reference = np.hstack([near * reference[:, None], far * line + taken])
    sampling = np.sqrt(np.nansum((where.errors * line) ** 2, axis=1))  # of the levels whose errors are known
    error = reference_error + (far * line_error).sum(axis=1) + sampling

    names = table.select("module", "function")
    by_level, errors = carry_over(names, memops, where.sampled, memops[:, None] * per_reference, memops * error)
    return MemoryTime(by_level.sum(axis=1), errors, by_level)


def mean_width(table: pl.DataFrame, size: str, count: str) -> Array:
    """Return the mean bytes of a reference of each block, 8 where it has none."""
    counts = table[count].to_numpy()
    return np.where(counts > 0, table[size].to_numpy() / np.maximum(counts, 1), 8.0)


def _reference(costs: MachineCosts, shares: Patterns, loads: Array, load_width: Array, store_width: Array, field: str) -> Array:
    """Return the cost of a reference that hits the first level: loads by pattern, stores as unit-stride ones (nobody waits).

    Loads and stores run side by side as far as the machine's copy loop shows.
    """
    unit = _pick(costs.loads, load_width, field)
    others = [getattr(cost, field) for cost in (costs.strided, costs.random, costs.dependent)]
    load = shares.sequential * unit + shares.strided * others[0] + shares.random * others[1] + shares.chased * others[2]
    load, store = loads * load, (1 - loads) * _pick(costs.stores, store_width, field)
    return np.maximum(load, store) + costs.shared_ports * np.minimum(load, store)


def _split(brought: Array, rule: Array, shares: Patterns) -> Array:
    """Return by block and farther level which of the four costed patterns brings the lines; rows add up to 1.

    What the hit rates tell is used, its dependent lines divided into gathers and chased ones as the block's references are; where
    they tell nothing, the rule: in proportion to the lines that each pattern could bring.
    """
    dependent = brought[:, :, 3]
    chased = dependent * shares.chased_lines[:, None]
    known = np.stack([brought[:, :, 0], brought[:, :, 1], brought[:, :, 2] + dependent - chased, chased], axis=2)
    return np.where(brought.sum(axis=2, keepdims=True) > 0, known, rule[:, None, :])


def _by_level(costs: MachineCosts, split: Array, load_width: Array, field: str) -> Array:
    """Return the cost of one line by farther level, shape (blocks, levels), for each block's mix of patterns."""
    line = split[:, :, 0] * _pick(costs.loads, load_width, field)
    for index, cost in enumerate((costs.strided, costs.random, costs.dependent), 1):
        line = line + split[:, :, index] * np.array(getattr(cost, field))
    return line


def _line_shares(where: Falls, possible: Array) -> Array:
    """Return by level the share of the lines that a block's references could touch; what never missed is in the first level."""
    far = np.minimum(where.served[:, 1:] / np.maximum(possible[:, None], 1e-12), 1.0)
    far = far / np.maximum(far.sum(axis=1, keepdims=True), 1.0)
    return np.hstack([1 - far.sum(axis=1, keepdims=True), far])


def _groups(names: pl.DataFrame) -> list[NDArray[np.intp]]:
    """Return the number of each block's function, module and program: the row of the first block in it."""
    first, rows = pl.col("index").first(), names.with_row_index()
    of = rows.select(function=first.over("module", "function"), module=first.over("module"))
    return [*(of[name].to_numpy().astype(np.intp) for name in of.columns), np.zeros(names.height, dtype=np.intp)]


def carry_over(names: pl.DataFrame, memops: Array, sampled: NDArray[np.bool_], *values: Array) -> list[Array]:
    """Return each of ``values``, shape (blocks, ...), with blocks that were not sampled filled in: theirs are the mean of an
    access in the sampled blocks of the same function, else of the same module, else of the program."""
    lacking, known_rows = np.flatnonzero(~sampled), np.flatnonzero(sampled)
    found = [np.array(one, dtype=float, order="C") for one in values]  # so that columns are views of them
    columns = [one.reshape(len(memops), math.prod(one.shape[1:])) for one in found]
    costs = [np.full((len(lacking), one.shape[1]), np.nan) for one in columns]
    for group in _groups(names) if len(lacking) else []:
        of_known = group[known_rows]
        references = np.bincount(of_known, memops[known_rows], len(group))
        for cost, known in zip(costs, columns, strict=True):
            for number, column in enumerate(known.T):
                with np.errstate(divide="ignore", invalid="ignore"):
                    mean = np.bincount(of_known, column[known_rows], len(group)) / references
                cost[:, number] = np.where(np.isfinite(cost[:, number]), cost[:, number], mean[group[lacking]])
    for cost, known in zip(costs, columns, strict=True):
        known[lacking] = memops[lacking, None] * np.nan_to_num(cost)
    return found


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
    ordered, count = np.sort(np.where(near, seconds, np.nan), axis=1), near.sum(axis=1)
    rows = np.arange(len(near))  # numpy's median of those that are numbers loads its masked arrays first
    return np.asarray((ordered[rows, (count - 1) // 2] + ordered[rows, count // 2]) / 2)


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

"""The program's side of the rate model: what each block asks of a machine, from its signature and simulated hit rates."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from convolver.analyzing.falls import DEPENDENT, RANDOM, Array, Falls
from convolver.convolution.lookup import MachineCosts
from convolver.convolution.memory import Patterns, carry_over, mean_width, nearest_width, patterns
from convolver.convolution.rates import BlockWork
from convolver.heavy import pl
from convolver.signature.block_columns import ALONE, LINES
from convolver.signature.features import line_capacities, line_ratios


class NearSeconds(NamedTuple):
    """Seconds per block with all references in the first level: its load and store ports, floating-point units, instructions."""

    ports: Array
    floating_point: Array
    instructions: Array

    @property
    def seconds(self) -> Array:
        """The longest of the three: they work side by side."""
        return np.maximum(np.maximum(self.ports, self.floating_point), self.instructions)


def port_seconds(table: pl.DataFrame, costs: MachineCosts) -> Array:
    """Return what loads and stores take in the first level when none waits for another, by their widths; both run side by side
    as far as the machine's copy loop shows."""
    by_kind = []
    for count, size, known in (("loads", "load_bytes", costs.loads), ("stores", "store_bytes", costs.stores)):
        widths = sorted(known)
        cost = np.array([known[width].reference_seconds for width in widths])
        by_kind.append(table[count].to_numpy() * cost[nearest_width(widths, mean_width(table, size, count))])
    return np.maximum(*by_kind) + costs.shared_ports * np.minimum(*by_kind)


def _ratios(table: pl.DataFrame) -> dict[str, Array]:
    """Return the line ratios of a signature's blocks; a signature without them (made by hand) has no streams with gaps."""
    if not set(LINES) <= set(table.columns):
        nothing = np.zeros(table.height)
        return {"between": nothing, "coming": nothing, "alone": nothing}
    return line_ratios({name: table[name].to_numpy() for name in (*LINES, *ALONE) if name in table.columns})


def _known_or_rule(table: pl.DataFrame, where: Falls, shares: Patterns) -> Array:
    """Return which pattern brings the lines; where the hit rates do not tell, in proportion to those that each could bring."""
    gathered = shares.dependent - shares.chased
    split = np.stack([shares.sequential, shares.strided, shares.random - gathered, shares.dependent], axis=1)
    possible = line_capacities(split, mean_width(table, "bytes", "memops"))
    rule = possible / np.maximum(possible.sum(axis=1, keepdims=True), 1e-12)
    return np.where(where.brought.sum(axis=2, keepdims=True) > 0, where.brought, rule[:, None, :])


def program_work(table: pl.DataFrame, where: Falls, core: Array) -> BlockWork:
    """Return the work of every block.

    What was not sampled is carried over from blocks that were, reference by reference: those of its function, else of its
    module, else of the program. Of the dependent references, those that no regular ones can feed wait for one another
    (docs/theory.md, patterns).
    """
    memops = table["memops"].to_numpy().astype(float)
    ratios, shares = _ratios(table), patterns(table)
    where = replace(where, brought=_known_or_rule(table, where, shares))
    loads = table["loads"].to_numpy().astype(float)
    pages = where.page_misses
    waiting = pages[:, DEPENDENT] * shares.chased_lines
    lines, written, coming, chased, walks, chased_walks = carry_over(
        table.select("module", "function"),
        memops,
        where.sampled,
        where.lines(memops),
        where.written_back * memops[:, None],
        ratios["coming"] * (1 - where.served[:, 0]) * loads,
        shares.chased * memops,
        (pages[:, RANDOM] + pages[:, DEPENDENT] - waiting) * memops,
        waiting * memops,
    )
    return BlockWork(
        core=core,
        lines=lines,
        written=written,
        between=ratios["between"],
        coming=coming,
        alone=ratios["alone"] * np.where(where.sampled, where.served[:, 0], 0.0),
        loads=loads,
        chased=np.minimum(chased, loads),
        chased_share=shares.chased_lines,
        chains=np.ones(table.height),
        walks=walks,
        chased_walks=chased_walks,
    )

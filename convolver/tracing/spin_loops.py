"""A program's own spin loops: they load the same words over and over and store nothing, until another thread stores there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convolver.heavy import pl
from convolver.tracing.definitions import STORE

if TYPE_CHECKING:
    from convolver.tracing.reader import Trace

LEAST = 64
"""Times that a loop goes round without a change."""
MOST_LOADS = 4
"""Loads of a loop that waits."""


@dataclass(frozen=True)
class SpinLoop:
    """A block that waits, where it is in the source, and the share of its executions that do."""

    block: int
    function: str
    file: str
    line: int
    share: float

    @property
    def label(self) -> str:
        """Where it is, as a phrase."""
        return f"{self.function} ({Path(self.file).name}:{self.line})" if self.line else self.function or "a place without a name"


def repeated(words: NDArray[Any], sites: NDArray[Any], stretches: NDArray[Any], stored: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which of some references in order belong to a loop that loads the same words at least :data:`LEAST` times and stores
    nothing. References of different ``stretches`` do not follow each other."""
    found = np.zeros(len(words), np.bool_)
    for loads in range(1, MOST_LOADS + 1):
        if len(words) <= loads:
            break
        same = (words[loads:] == words[:-loads]) & (sites[loads:] == sites[:-loads]) & (stretches[loads:] == stretches[:-loads])
        same &= ~stored[loads:] & ~stored[:-loads]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
        for begin, end in edges.reshape(-1, 2)[(edges[1::2] - edges[::2]) >= (LEAST - 1) * loads]:
            found[begin : end + loads] = True
    return found


def spins_in(piece: pl.DataFrame, stores: NDArray[np.bool_]) -> pl.DataFrame:
    """Return how often a loop that waits loads which word at which site, by thread. ``stores``: by site."""
    sites = piece["site"].to_numpy()
    stretches = piece["window"].to_numpy() * np.uint64(1 << 32) + piece["thread"].to_numpy()
    waits = repeated(piece["word"].to_numpy(), sites, stretches, stores[sites])
    return piece.filter(pl.Series(waits)).group_by("word", "thread", "site").len()


def spin_loops(trace: Trace, spins: pl.DataFrame, pieces: Iterable[pl.DataFrame], totals: pl.DataFrame) -> list[SpinLoop]:
    """Return the loops that wait for words which another thread stores to, those that do most first. ``spins``: what
    :func:`spins_in` found in the same ``pieces``; ``totals``: references of each ``block``."""
    if not len(spins):
        return []
    about = pl.DataFrame({"site": np.arange(len(trace.site_blocks), dtype=np.uint32), "block": trace.site_blocks})
    words = spins["word"].unique().implode()
    stores = (trace.definitions.sites["flags"] & STORE) != 0
    writers = [
        piece.filter(pl.col("word").is_in(words) & pl.Series(stores[piece["site"].to_numpy()]))
        .select("word", by="thread")
        .unique()
        for piece in pieces
    ]
    written = spins.join(pl.concat(writers).unique(), on="word").filter(pl.col("by") != pl.col("thread"))
    waits = spins.join(written.select("word", "thread").unique(), on=("word", "thread"), how="semi").join(about, on="site")
    by_block = waits.group_by("block").agg(pl.col("len").sum()).join(totals, on="block", suffix="_all")
    found = []
    for block, count, every in (
        by_block.select("block", "len", "len_all").sort("len", "block", descending=[True, False]).iter_rows()
    ):
        where: Mapping[str, Any] = trace.signature.table.row(int(block), named=True)
        found.append(SpinLoop(int(block), where["function"], where["file"], int(where["line"]), min(count / every, 1.0)))
    return found

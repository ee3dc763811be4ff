"""A program's own spin loops: they load the same words over and over and store nothing, until another thread stores there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver.heavy import pl

if TYPE_CHECKING:
    from convolver.tracing.reader import Trace


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


def spin_loops(trace: Trace, waits: pl.DataFrame, totals: pl.DataFrame) -> list[SpinLoop]:
    """Return the loops that wait for words which another thread stores to, those that do most first. ``waits``: their loads, and
    ``totals``: all references, of each ``block``."""
    by_block = waits.group_by("block").agg(pl.col("len").sum()).join(totals, on="block", suffix="_all")
    found = []
    for block, count, every in (
        by_block.select("block", "len", "len_all").sort("len", "block", descending=[True, False]).iter_rows()
    ):
        where: Mapping[str, Any] = trace.signature.table.row(int(block), named=True)
        found.append(SpinLoop(int(block), where["function"], where["file"], int(where["line"]), min(count / every, 1.0)))
    return found

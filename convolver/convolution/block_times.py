"""Times per block on one machine, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver.convolution.limit_shares import LIMIT, grouped
from convolver.convolution.system_time import SystemTime, ratio_with_system, with_system
from convolver.convolution.uncertainty import Drawn, interval_ends
from convolver.errors import SchemaError
from convolver.heavy import pl
from convolver.schema import TableArtifact, table_digest, table_header

SCHEMA = "convolver.block_times"
TEXT = ("machine", "module", "function", "file", "data_set_location")
NUMBERS = (
    "random_share",
    "memory_rate",
    "memory_seconds",
    "floating_point_seconds",
    "instruction_seconds",
    "seconds",
    "error_seconds",
)
FLAGS = ("sampled", "extrapolated")
COLUMNS = (
    "block",
    "machine",
    "module",
    "offset",
    "function",
    "file",
    "line",
    "executions",
    "memops",
    *TEXT[4:],
    *NUMBERS,
    *FLAGS,
)
HIT_RATE = "hit_rate_"
"""Prefix of the columns with the cumulative hit rate of each level, for example ``hit_rate_L1``."""


DRAWS = ("draws_seconds", "draws_blocks", "draws_functions")
"""Fields of the header that hold draws."""
OWN_FIELDS = ("schema", "version", "id", "inputs", "seconds")
"""Fields of the header that are computed."""
Function = tuple[str | None, str | None]
"""A function and its module."""


def functions_of(table: pl.DataFrame) -> NDArray[np.intp]:
    """Return the row of the first block of each block's function."""
    rows = table.select("function", "module").with_row_index()
    return rows.select(pl.col("index").first().over("function", "module"))["index"].to_numpy().astype(np.intp)


def drawn_fields(drawn: Drawn | None, seconds: NDArray[np.float64], table: pl.DataFrame) -> dict[str, Any]:
    """Return the fields of the header that hold draws; those of blocks and functions in thousandths of their time. ``seconds``
    are by row of the signature's ``table``."""
    if drawn is None:
        return dict.fromkeys(DRAWS)
    relative = np.rint(1000 * drawn.single / seconds[drawn.blocks]).astype(int)
    names = table.select("function", "module")[drawn.functions].rows()
    shares = np.rint(1000 * drawn.grouped).astype(int)
    return {
        "draws_seconds": drawn.whole.tolist(),
        "draws_blocks": {str(block): values for block, values in zip(drawn.blocks.tolist(), relative.T.tolist(), strict=True)},
        "draws_functions": [[*name, values] for name, values in zip(names, shares.T.tolist(), strict=True)],
    }


def without_draws(elapsed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of a replay but for its draws."""
    return {name: value for name, value in elapsed.items() if name not in DRAWS}


def _check(table: pl.DataFrame) -> None:
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise SchemaError(f"A table of block times misses the column {missing[0]}.")
    for name in (*NUMBERS, *(name for name in table.columns if name.startswith(LIMIT))):
        if table.schema[name] != pl.Float64:
            raise SchemaError(f"A table of block times needs the column {name} as 64-bit floats.")


class BlockTimes(TableArtifact):
    """Seconds per block of one program on one machine.

    ``table`` has one row for every block of the signature that was executed, by falling time; docs/formats/block_times.md
    describes its columns.
    """

    schema = SCHEMA
    _digest: str | None = None
    """Hash of the table, where it was just made: that of many blocks takes long."""

    def __init__(self, table: pl.DataFrame, header: Mapping[str, Any]) -> None:
        """Take a checked table and its complete header; :meth:`make` computes the header."""
        _check(table)
        super().__init__(table, header)

    @classmethod
    def make(cls, table: pl.DataFrame, *, inputs: Mapping[str, Any], digest: str | None = None, **extra: Any) -> BlockTimes:
        """Return the artifact of a table; ``extra`` are machine, levels, overlap, shares, assumptions, command; ``digest``: the
        table's, where it is known."""
        digest = digest or table_digest(table)
        found = cls(table, table_header(SCHEMA, table, inputs, {**extra, "seconds": float(table["seconds"].sum())}, digest))
        found._digest = digest
        return found

    def with_fields(self, **fields: Any) -> BlockTimes:
        """Return the same times with other fields of the header."""
        kept = {name: value for name, value in self.header.items() if name not in OWN_FIELDS}
        return self.make(self.table, inputs=self.inputs, digest=self._digest, **{**kept, **fields})

    @property
    def machine(self) -> str:
        """Name of the machine."""
        return str(self.header["machine"])

    @property
    def levels(self) -> list[str]:
        """Names of its cache levels, nearest first."""
        return list(self.header["levels"])

    @property
    def seconds(self) -> float:
        """Predicted user time of the whole program: the sum over its blocks."""
        return float(self.header["seconds"])

    @property
    def draws(self) -> NDArray[np.float64] | None:
        """The whole time drawn many times within its errors, in one order for all machines; None where that was not done."""
        values = self.header.get("draws_seconds")
        return None if values is None else np.array(values, dtype=float)

    @cached_property
    def block_draws(self) -> dict[int, NDArray[np.float64]]:
        """The seconds of the blocks with most of the time, drawn as :attr:`draws`; empty where that was not done."""
        known = self.header.get("draws_blocks") or {}
        blocks, drawn = self.table["block"].to_numpy(), np.array([int(block) for block in known], dtype=np.uint32)
        rows = np.flatnonzero(np.isin(blocks, drawn))
        seconds = dict(zip(blocks[rows].tolist(), self.table["seconds"].to_numpy()[rows].tolist(), strict=True))
        return {int(block): np.array(values) / 1000 * seconds[int(block)] for block, values in known.items()}

    @cached_property
    def function_draws(self) -> dict[Function, NDArray[np.float64]]:
        """The seconds of the functions with most of the time, drawn as :attr:`draws`; empty where that was not done."""
        known = self.header.get("draws_functions") or []
        seconds = {(function, module): value for function, module, _, value in self.by_function().iter_rows()} if known else {}
        return {(function, module): np.array(values) / 1000 * seconds[function, module] for function, module, values in known}

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end of the predicted time: of 90 % for a calibrated machine, else of the errors that are known
        (partial, see docs/theory.md)."""
        if self.draws is not None:
            low, high = interval_ends(self.draws)
            return min(float(low), self.seconds), max(float(high), self.seconds)
        error = float(self.table["error_seconds"].sum())
        return max(0.0, self.seconds - error), self.seconds + error

    @property
    def system(self) -> SystemTime | None:
        """Predicted time in the kernel, which is in none of the blocks; None where it is not predicted."""
        known = self.header.get("system") or {}
        return SystemTime.of(known) if "seconds" in known else None

    @property
    def total(self) -> tuple[float, float, float]:
        """Predicted user and, where it is known, system time, and the ends of its interval."""
        return with_system(self.seconds, self.interval, self.system)

    @property
    def elapsed(self) -> Mapping[str, Any] | None:
        """The replay of the program's threads (docs/formats/block_times.md); None where one thread ran."""
        return self.header.get("elapsed")

    @property
    def awaited(self) -> tuple[float, float, float]:
        """The time that a user waits for, and the ends of its interval: elapsed where a second thread ran, else :attr:`total`."""
        return self.total if self.elapsed is None else (self.elapsed["seconds"], *self.elapsed["interval_seconds"])

    def with_elapsed(self, elapsed: Mapping[str, Any]) -> BlockTimes:
        """Return these times with the replay of the program's threads."""
        return self.with_fields(elapsed=dict(elapsed))

    def ratio_to(self, target: BlockTimes) -> float | None:
        """Return this processor time / the target's, with system time where both know theirs; None where that takes none."""
        if not target.seconds:
            return None
        return ratio_with_system(self.seconds / target.seconds, target.seconds, (self.system, target.system))

    @property
    def coverage(self) -> float:
        """Share of the memory accesses in blocks with a sample, 0..1."""
        return float(self.header["coverage"])

    @property
    def sampled_share(self) -> float:
        """Sampled references / all memops, 0..1."""
        return float(self.header["sampled_share"])

    @property
    def extrapolated_share(self) -> float:
        """Share of the memory accesses that were costed with the rate of other blocks, 0..1."""
        return float(self.header["extrapolated_share"])

    @property
    def limits(self) -> dict[str, float]:
        """Seconds of the whole program by what they were spent on, the largest first, with those in the kernel; they add up to
        :attr:`total` and :attr:`waiting_seconds` (docs/theory.md, "What limits it")."""
        return grouped(self.table, self.system.seconds if self.system is not None else 0.0, self.waiting_seconds)

    @property
    def waiting_seconds(self) -> float:
        """Measured elapsed time in which the program did not want the processor; 0 where that is not known."""
        return float(self.header.get("waiting_seconds") or 0.0)

    def by_function(self) -> pl.DataFrame:
        """Return function, module, memops and seconds, by falling time."""
        sums = self.table.group_by("function", "module", maintain_order=True).agg(pl.col("memops", "seconds").sum())
        return sums.sort("seconds", descending=True, maintain_order=True)

    def summary(self) -> dict[str, Any]:
        """Return the header with the interval and the sums of the parts as a JSON-able document."""
        parts = {name: float(self.table[name].sum()) for name in NUMBERS if name.endswith("_seconds")}
        header = {name: value for name, value in self.header.items() if name not in DRAWS}
        if self.elapsed is not None:
            header["elapsed"] = without_draws(self.elapsed)
        return {**header, **parts, "interval_seconds": list(self.interval), "limits": self.limits}

"""What a program executes, block by block, independent of any machine (the paper's application signature)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convolver.heavy import pl
from convolver.schema import TableArtifact, load_table, table_header
from convolver.signature.block_columns import IDENTITY, TOTALS, conform

SHOWN = 10


def hottest_loops(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return function, line, depth, blocks, turns, instructions and memory accesses of the hottest loops.

    Blocks count for their innermost loop; ``turns`` is how often its head was executed. Empty for a table without loops.
    """
    if "loop_head" not in table.columns:
        return []
    heads = table.select(pl.col("block").alias("loop_head"), "function", "line", pl.col("executions").alias("turns"))
    sums = (
        table.filter(pl.col("loop_head").is_not_null() & (pl.col("instructions") > 0))
        .group_by("loop_head")
        .agg(pl.col("loop_depth").min().alias("depth"), pl.len().alias("blocks"), pl.col("instructions", "memops").sum())
        .sort("instructions", "loop_head", descending=[True, False])
        .head(SHOWN)
    )
    columns = ["function", "line", "depth", "blocks", "turns", "instructions", "memops"]
    return sums.join(heads, on="loop_head", how="left", maintain_order="left").select(columns).to_dicts()


SCHEMA = "convolver.signature"
DEFAULTS: dict[str, Any] = {
    "command": None,
    "sampling": None,
    "exit_status": None,
    "complete": True,
    "measured_seconds": None,
    "system": None,
    "origin": None,
}
"""Header fields beside schema, version, id, inputs and totals: the traced command (list of words), the sampling plan, how the
program ended, whether the trace ran to its end, the native run time where it is known, and what the program had of the kernel
(:func:`convolver.tracing.kernel_use.system_document`), and the
sealed folder of the command (:mod:`convolver.signature.origin`)."""


class Signature(TableArtifact):
    """A table of static basic blocks with exact executed counts and sampled features.

    Columns: :func:`convolver.signature.block_columns.block_schema`. Immutable: two signatures with one id are equal.
    """

    schema = SCHEMA

    def __init__(self, table: pl.DataFrame, *, inputs: Mapping[str, Any] | None = None, **extra: Any) -> None:
        """Check ``table`` (raises :class:`SchemaError`) and take it; ``extra`` are header fields (see :data:`DEFAULTS`)."""
        self.table = conform(table)
        self._totals = {name: int(self.table[name].sum()) for name in TOTALS} | {"blocks": self.table.height}
        fields = {**DEFAULTS, **extra, "totals": self._totals}
        self.header = table_header(SCHEMA, self.table, inputs or {}, fields)

    @property
    def totals(self) -> dict[str, int]:
        """Executed instructions, loads, stores, memops, flops and bytes, and the number of static blocks."""
        return dict(self._totals)

    @property
    def measured_seconds(self) -> float | None:
        """Native run time of the traced command, where it was measured."""
        value = self.header["measured_seconds"]
        return None if value is None else float(value)

    @classmethod
    def load(cls, path: str | Path) -> Signature:
        """Read and verify a ``.sig.parquet`` file; raises :class:`FormatError` when it is damaged or something else."""
        table, header = load_table(path, cls.schema)
        known = ("schema", "version", "id", "inputs", "totals")
        result = cls(table, inputs=header["inputs"], **{k: v for k, v in header.items() if k not in known})
        # The file's own header is kept: it was just verified, and fields that a later version adds are not lost.
        result.header = header
        return result

    def select(self, identities: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of the blocks that ``identities`` (columns build_id, offset, length_bytes) names, in own order."""
        return self.table.join(identities.select(IDENTITY).unique(), on=IDENTITY, how="semi")

    def join(self, other: Signature, *, how: Any = "inner") -> pl.DataFrame:
        """Return blocks of both runs side by side by block identity; the other's columns end in ``_other``."""
        return self.table.join(other.table, on=IDENTITY, how=how, suffix="_other")

    def summary(self) -> dict[str, Any]:
        """Return id, inputs, totals, command and sampled share as a JSON-able document."""
        from convolver.signature.features import path_shares, sampled_share

        return {
            **{name: self.header[name] for name in ("schema", "version", "id", "inputs", "totals")},
            **{name: value for name, value in self.header.items() if name in DEFAULTS},
            "sampled_share": sampled_share(self.table),
            "paths": path_shares(self.table),
            "loops": hottest_loops(self.table),
        }

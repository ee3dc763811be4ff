"""Which data objects a program refers to, block by block: allocation sites, global variables, stacks, mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.enums import enum_names
from convolver.foreign_text import visible
from convolver.heavy import pl
from convolver.schema import TableArtifact, check_types, table_header

SCHEMA = "convolver.data_objects"
KINDS = ("unknown", *enum_names("cv_wire_object_kind", "CV_WIRE_"))
"""Kinds of data objects, by their number in the tracer's stream."""
COUNTS = ("references", "loads", "stores", "bytes", "set_references")
HOW_TO = "Record the program with `convolver trace --data-objects` to see which data objects it refers to."
"""What is said where a view of data objects is asked for and there are none."""


def described(objects: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return a row for each data object as headers describe them: number, texts that can be shown, and numbers."""
    numbers = ("line", "offset", "thread", "places", "placed_bytes", "peak_bytes", "size_bytes")
    types = {"object": pl.UInt32, **dict.fromkeys(("label", "kind", "name", "function", "file", "module"), pl.String)}
    types |= dict.fromkeys(numbers, pl.UInt64)
    rows = [{name: one.get(name, "" if kind == pl.String else 0) for name, kind in types.items()} for one in objects]
    shown = [{name: visible(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows]
    return pl.DataFrame(shown, schema=types, strict=False)


class DataObjects(TableArtifact):
    """References of each block to each data object.

    ``table``: one row for every data object and block with a recorded reference: object, block (u32), references, loads, stores,
    bytes (u64: recorded references in bursts, and how much they touched), set_references (u64: set-sampled ones), memops (f64:
    the block's executed references, shared out as its recorded ones are; exact where every address was recorded).
    ``objects`` describes the data objects; row ``object`` of the table is its index.
    """

    schema = SCHEMA

    def __init__(self, table: pl.DataFrame, header: Mapping[str, Any]) -> None:
        """Take a table and its complete header; :meth:`make` computes the header."""
        types = {"object": pl.UInt32, "block": pl.UInt32, **dict.fromkeys(COUNTS, pl.UInt64), "memops": pl.Float64}
        check_types(table, types, "data objects")
        super().__init__(table, header)

    @classmethod
    def make(
        cls, table: pl.DataFrame, objects: Sequence[Mapping[str, Any]], memops: int, inputs: Mapping[str, Any]
    ) -> DataObjects:
        """Return the artifact of a table; ``memops``: the program's executed references."""
        return cls(table, table_header(SCHEMA, table, inputs, {"objects": [dict(one) for one in objects], "memops": memops}))

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The data objects: label, kind, name, the place that allocates (function, file, line, module, offset), how often and how
        many bytes were placed, the most bytes at one time."""
        return list(self.header["objects"])

    @property
    def memops(self) -> int:
        """Executed references of the program, those of blocks without a recorded one included."""
        return int(self.header["memops"])

    def by_object(self) -> pl.DataFrame:
        """Return one row for every data object, the most referred to first: its description, counts, memops and their share of
        the program's."""
        sums = self.table.group_by("object").agg(pl.col(*COUNTS, "memops").sum())
        joined = described(self.objects).join(sums, on="object", how="left").with_columns(pl.col(*COUNTS, "memops").fill_null(0))
        share = pl.col("memops") / max(self.memops, 1)
        return joined.with_columns(share=share).sort(["memops", "object"], descending=[True, False])

    @property
    def attributed_share(self) -> float:
        """Share of the executed references whose blocks have a recorded one, 0..1: only of those is known what they touch."""
        return min(1.0, float(self.table["memops"].sum()) / self.memops) if self.memops else 0.0

    def summary(self) -> dict[str, Any]:
        """Return id, inputs, totals and the most referred to data objects as a JSON-able document."""
        fields = ("label", "kind", "places", "peak_bytes", "references", "loads", "stores", "bytes", "memops", "share")
        rows = self.by_object().head(50).select(fields).to_dicts()
        totals = {"data_objects": len(self.objects), "memops": self.memops}
        return {
            **{name: self.header[name] for name in ("schema", "version", "id", "inputs")},
            "totals": totals,
            "attributed_share": self.attributed_share,
            "objects": rows,
        }


def object_table(
    pairs: NDArray[Any],
    number_of: NDArray[np.uint32],
    site_blocks: NDArray[np.uint32],
    site_sizes: NDArray[Any],
    site_stores: NDArray[np.bool_],
    block_memops: NDArray[np.uint64],
) -> pl.DataFrame:
    """Return the table of :class:`DataObjects` from counts per pair of site and object.

    ``number_of``: data object of each object in ``pairs``; the others are per site, and per block.
    """
    site, stores = pairs["site"], site_stores[pairs["site"]]
    references = pairs["references"].astype(np.uint64)
    rows = pl.DataFrame(
        {
            "object": number_of[pairs["object"]].astype(np.uint32),
            "block": site_blocks[site].astype(np.uint32),
            "references": references,
            "loads": np.where(stores, 0, references).astype(np.uint64),
            "stores": np.where(stores, references, 0).astype(np.uint64),
            "bytes": (references * site_sizes[site]).astype(np.uint64),
            "set_references": pairs["sets"].astype(np.uint64),
        }
    )
    table = rows.group_by("object", "block").agg(pl.col(COUNTS).sum()).sort("object", "block")
    # Of bursts and sampled sets, the one that holds more of a block says what it touches: few bursts may all meet one object.
    bursts, sets = (pl.col(name).sum().over("block") for name in ("references", "set_references"))
    part = pl.when(bursts >= sets).then(pl.col("references") / bursts).otherwise(pl.col("set_references") / sets)
    executed = block_memops[table["block"].to_numpy()].astype(np.float64)
    return table.with_columns(memops=part * pl.Series(executed))

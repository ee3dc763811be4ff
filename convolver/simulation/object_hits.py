"""What the caches of each machine do for each data object: accesses, hits, misses, write-backs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from convolver.foreign_text import visible
from convolver.heavy import pl
from convolver.schema import TableArtifact, check_types, table_header
from convolver.signature.data_objects import described
from convolver.simulation.hit_rates import COUNTS, HitRates, in_one_sample

SCHEMA = "convolver.object_hits"
OBJECTS = ("label", "kind", "peak_bytes")
"""Fields of a data object that are shown with its counts."""


class ObjectHits(TableArtifact):
    """Counts per data object, block, machine and level.

    ``table`` has one row for every data object, block with an access to it, machine and level: object, block (u32), then the
    columns of :class:`convolver.simulation.hit_rates.HitRates`, whose sums over the objects of a block are that block's. A
    write-back is charged to the object whose reference pushed the line out.
    """

    schema = SCHEMA

    def __init__(self, table: pl.DataFrame, header: Mapping[str, Any]) -> None:
        """Take a table and its complete header; :meth:`make` computes the header."""
        types = {"object": pl.UInt32, "block": pl.UInt32, "machine": pl.String, "level": pl.String}
        check_types(table, {**types, **dict.fromkeys(COUNTS, pl.UInt64)}, "hits by data object")
        super().__init__(table, header)

    @classmethod
    def make(cls, table: pl.DataFrame, objects: Sequence[Mapping[str, Any]], rates: HitRates) -> ObjectHits:
        """Return the artifact of a table; ``rates`` are the hit rates of the same pass."""
        extra = {name: rates.header[name] for name in ("machines", "sampling")}
        extra |= {"objects": [dict(one) for one in objects]}
        return cls(table, table_header(SCHEMA, table, rates.inputs, extra))

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The data objects, as in :class:`convolver.signature.data_objects.DataObjects`."""
        return list(self.header["objects"])

    @property
    def machines(self) -> list[str]:
        """Names of the machines, in order."""
        return [machine["machine"] for machine in self.header["machines"]]

    def levels(self, machine: str) -> list[str]:
        """Names of the cache levels of a machine, nearest first."""
        found = next(one for one in self.header["machines"] if one["machine"] == machine)
        return [level["level"] for level in found["hierarchy"]]

    def _in_one_sample(self) -> pl.DataFrame:
        sampling = self.header.get("sampling")
        parts = [
            in_one_sample(self.table.filter(pl.col("machine") == document["machine"]), document, sampling)
            for document in self.header["machines"]
        ]
        return pl.concat(parts) if parts else self.table

    def by_object(self) -> pl.DataFrame:
        """Return one row for every machine, data object and level of cache.

        Columns: machine, object, label, kind, peak_bytes, level, the counts, ``miss_rate`` (misses / accesses of the level) and
        ``miss_share`` (of all misses of the level). Counts of levels from different samples cannot be compared, rates and shares
        can. Objects with the most misses of the machine's last level come first.
        """
        levels = [
            {"machine": visible(machine), "level": visible(level), "place": place, "depth": depth}
            for place, machine in enumerate(self.machines)
            for depth, level in enumerate(self.levels(machine))
        ]
        schema = {"machine": pl.String, "level": pl.String, "place": pl.Int64, "depth": pl.Int64}
        sums = self._in_one_sample().group_by("machine", "object", "level").agg(pl.col(COUNTS).sum())
        sums = sums.join(pl.DataFrame(levels, schema=schema), on=["machine", "level"])
        about = described(self.objects).select("object", *OBJECTS)
        last = pl.col("misses").sort_by("depth").last().over("machine", "object")
        first = pl.col("accesses").sort_by("depth").first().over("machine", "object")
        ranked = sums.with_columns(last=last, first=first).sort(
            ["place", "last", "first", "object", "depth"], descending=[False, True, True, False, False]
        )
        missed = pl.col("misses").sum().over("machine", "level")
        share = pl.when(missed > 0).then(pl.col("misses") / missed)
        rate = pl.when(pl.col("accesses") > 0).then(pl.col("misses") / pl.col("accesses"))
        joined = ranked.join(about, on="object", how="left", maintain_order="left").with_columns(miss_rate=rate, miss_share=share)
        return joined.select("machine", "object", *OBJECTS, "level", *COUNTS, "miss_rate", "miss_share")

    def summary(self) -> dict[str, Any]:
        """Return id, inputs and the counts of the data objects that miss most as a JSON-able document."""
        fields = ("schema", "version", "id", "inputs")
        return {**{name: self.header[name] for name in fields}, "objects": self.by_object().head(200).to_dicts()}

"""What the caches of each machine do for each block: accesses, hits, misses, write-backs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from convolver.errors import ProvenanceError, UsageError
from convolver.heavy import pl
from convolver.schema import TableArtifact, check_types, table_header

SCHEMA = "convolver.hit_rates"
COUNTS = ("accesses", "hits", "misses", "write_backs")
PATTERN_MISSES = ("strided_misses", "random_misses", "dependent_misses")
"""Columns of hit rates from a trace: misses by the pattern of the site that missed; the others are sequential ones."""
LONG_STRIDES = "long_strides_misses"
"""Column beside them: the random misses of sites that go on in steps too long for a stream."""
EARLY = "early_misses"
"""Column beside them: the sequential and strided misses of streams that had just begun, which no prefetcher follows yet."""
LINE_MISSES = (*PATTERN_MISSES, LONG_STRIDES, EARLY)
"""All that tell how lines are asked for."""
MORE_COUNTS = (
    *("writes_through", "fetches", "castouts", "back_invalidations", "fills", "evictions"),
    *("prefetches", "useful_prefetches", "unused_prefetches"),
    *("compulsory", "capacity", "conflict"),
    *("bytes_read", "bytes_written"),
)
"""Columns that are there where a machine went through the detailed engine; null in the rows of the others."""
COLUMNS = ("block", "machine", "level", *COUNTS)


def in_one_sample(rows: pl.DataFrame, document: Mapping[str, Any], sampling: Mapping[str, Any] | None) -> pl.DataFrame:
    """Return rows of a machine with the counts of those that are not from their level's sample as if they were.

    Blocks that an even set sample has too few references of are from bursts (:mod:`convolver.simulation.hit_rate_table`), which
    are another part of all references: sums over the blocks of a level would weigh them wrongly.
    """
    samples = {level["level"]: level["sample"] for level in document.get("samples", [])}
    if "sample" not in rows.columns or not sampling or not sampling.get("sample") or not samples:
        return rows
    own = pl.col("level").replace_strict(samples, default=None, return_dtype=pl.String)
    other = (pl.col("sample") != own).fill_null(False)
    interval = sampling.get("burst_interval") or sampling.get("interval", 1)
    weight = interval / sampling["sample"] / (sampling.get("sets") or 1) * sampling.get("set_share", 1.0)
    counts = [name for name in (*COUNTS, *LINE_MISSES) if name in rows.columns]
    scaled = [pl.when(other).then((pl.col(name) * weight).round().cast(pl.UInt64)).otherwise(name).alias(name) for name in counts]
    return rows.with_columns(scaled).with_columns(hits=pl.col("accesses") - pl.col("misses"))


class HitRates(TableArtifact):
    """Counts per block, machine and level.

    ``table`` has one row for every block with an access, machine and level, in the order of the machines, their levels and the
    block numbers: block (u32), machine, level (strings), accesses, hits, misses, write_backs (u64), sample (string) and
    standard_error (f64). An access is one line touched by one reference; accesses = hits + misses. A write-back is a dirty line
    that left the level, charged to the block whose reference pushed it out. ``sample`` says which references the row counts:
    "all", "bursts", "visits" or "sets 1/K"; between levels of one sample, the accesses of the deeper one are the misses of the
    one before it. ``standard_error`` is that of the miss rate, from the differences between groups of sets or of bursts: 0 where
    all was simulated, null where it is not known. What bursts lack is not in it: the lines that were there before them.
    """

    schema = SCHEMA

    def __init__(self, table: pl.DataFrame, header: Mapping[str, Any]) -> None:
        """Take a checked table and its complete header; :meth:`make` computes the header."""
        types = (pl.UInt32, pl.String, pl.String, *(pl.UInt64,) * len(COUNTS))
        check_types(table, dict(zip(COLUMNS, types, strict=True)), "hit rates")
        super().__init__(table, header)

    @classmethod
    def make(
        cls,
        table: pl.DataFrame,
        *,
        machines: list[dict[str, Any]],
        references: int,
        inputs: Mapping[str, Any],
        sampling: Any = None,
    ) -> HitRates:
        """Return the artifact of a table; ``machines`` are documents with machine, hierarchy_id and hierarchy."""
        extra = {"machines": machines, "references": references, "sampling": sampling}
        return cls(table, table_header(SCHEMA, table, inputs, extra))

    def renamed(self, names: Mapping[str, str]) -> HitRates:
        """Return the rows of some machines under new names, in the order of the names."""
        return HitRates.joined([self], [names])

    def _named(self, names: Mapping[str, str]) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
        """Return rows and documents of some machines under new names."""
        column = pl.col("machine")
        rows = [self.table.filter(column == old).with_columns(machine=pl.lit(new)) for old, new in names.items()]
        return pl.concat(rows), [{**self._document(old), "machine": new} for old, new in names.items()]

    @classmethod
    def joined(cls, parts: Sequence[HitRates], names: Sequence[Mapping[str, str]] = ()) -> HitRates:
        """Return the hit rates of several machines on one trace as one artifact; ``names``: of each part the machines that are
        taken, with what they are called there (none: all as they are called).

        Raises :class:`ProvenanceError` for two traces.
        """
        first = parts[0]
        if any(part.inputs != first.inputs for part in parts):
            raise ProvenanceError("Hit rates of different traces cannot be joined; simulate the machines on one trace.")
        known = [part._named(own) for part, own in zip(parts, names, strict=True)] if names else None
        known = known or [(part.table, part.header["machines"]) for part in parts]
        return cls.make(
            pl.concat([rows for rows, _ in known], how="diagonal"),
            machines=[document for _, documents in known for document in documents],
            references=first.references,
            inputs=first.inputs,
            sampling=first.header["sampling"],
        )

    @property
    def machines(self) -> list[str]:
        """Names of the machines, in order."""
        return [machine["machine"] for machine in self.header["machines"]]

    @property
    def references(self) -> int:
        """References that were simulated; one that straddles a line is still one."""
        return int(self.header["references"])

    def levels(self, machine: str) -> list[str]:
        """Names of a machine's levels, nearest first; raises :class:`UsageError` when it was not simulated."""
        return [level["level"] for level in self._document(machine)["hierarchy"]]

    def _document(self, machine: str) -> dict[str, Any]:
        for document in self.header["machines"]:
            if document["machine"] == machine:
                return dict(document)
        raise UsageError(f"The machine '{machine}' was not simulated; these were: {', '.join(self.machines)}.")

    def totals(self, machine: str) -> list[dict[str, Any]]:
        """Return per level, nearest first, level, accesses, hits, misses and write_backs over all blocks, in references of the
        level's sample, and where it is known that sample and the standard error of the miss rate."""
        document = self._document(machine)
        samples = {level["level"]: level for level in document.get("samples", [])}
        rows = in_one_sample(self.table.filter(pl.col("machine") == machine), document, self.header.get("sampling"))
        counts = [*COUNTS, *(name for name in MORE_COUNTS if name in rows.columns and rows[name].null_count() < rows.height)]
        sums = rows.group_by("level").agg(pl.col(counts).sum())
        by_level = {row["level"]: row for row in sums.iter_rows(named=True)}
        empty = dict.fromkeys(counts, 0)
        return [
            {"level": name, **{count: by_level.get(name, empty)[count] for count in counts}, **samples.get(name, {})}
            for name in self.levels(machine)
        ]

    def tlb_totals(self, machine: str) -> list[dict[str, Any]]:
        """Return per level of the TLB, nearest first, level, page_bytes, accesses, hits and misses over all blocks."""
        found = []
        for level in self._document(machine).get("tlb", []):
            rows = self.table.filter((pl.col("machine") == machine) & (pl.col("level") == level["level"]))
            sums = {count: int(rows[count].sum()) for count in COUNTS[:3]}
            found.append({"level": level["level"], "page_bytes": level.get("page_bytes", 4096), **sums})
        return found

    def summary(self) -> dict[str, Any]:
        """Return id, inputs, references, sampling and the totals of every machine as a JSON-able document."""
        fields = ("schema", "version", "id", "inputs", "references", "sampling")
        machines = [{"machine": name, "levels": self.totals(name), **self._tlb_summary(name)} for name in self.machines]
        return {**{name: self.header[name] for name in fields}, "machines": machines}

    def _tlb_summary(self, machine: str) -> dict[str, Any]:
        totals = self.tlb_totals(machine)
        return {"tlb": totals} if totals else {}

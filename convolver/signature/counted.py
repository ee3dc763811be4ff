"""The features of one run with the exact counts of another, joined by the blocks' identity (build-id and offset)."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from convolver.errors import ProvenanceError
from convolver.heavy import pl
from convolver.signature.block_columns import COUNTS, FEATURES

if TYPE_CHECKING:
    from convolver.signature.signature import Signature

Row = dict[str, Any]


class _Counted:
    """The rows of the counts pass by build-id, in the order of their offsets; ``used``: those that were found."""

    def __init__(self, rows: list[Row]) -> None:
        self._modules: dict[str, list[Row]] = {}
        self.used: set[int] = set()
        self._parts: dict[int, Row] = {}
        for row in sorted(rows, key=lambda row: row["offset"]):
            self._modules.setdefault(row["build_id"], []).append(row)
        self._offsets = {module: [row["offset"] for row in rows] for module, rows in self._modules.items()}

    def counts(self, row: Row) -> Row:
        """Return the counts of the code of a block of the other pass; nothing where it was not executed in this one."""
        rows = self._modules.get(row["build_id"], [])
        begin, end = row["offset"], row["offset"] + row["length_bytes"]
        place = bisect_right(self._offsets.get(row["build_id"], []), begin) - 1
        if place < 0 or begin >= rows[place]["offset"] + rows[place]["length_bytes"]:
            return dict.fromkeys(COUNTS, 0)
        first = rows[place]
        self.used.add(first["block"])
        if first["offset"] == begin and first["length_bytes"] == row["length_bytes"]:
            return {name: first[name] for name in COUNTS}
        if first["offset"] <= begin and end <= first["offset"] + first["length_bytes"]:
            return self._part(row, first)
        return self._sum(rows, place, begin, end)

    def _part(self, row: Row, whole: Row) -> Row:
        """A block that is one of several in the other pass: what one execution of it does, as often as it was executed here."""
        once = max(row["executions"], 1)
        part = {name: row[name] * whole["executions"] // once for name in COUNTS} | {"executions": whole["executions"]}
        rest = self._parts.setdefault(whole["block"], dict(whole))
        rest["length_bytes"] -= row["length_bytes"]
        rest["offset"] = row["offset"] + row["length_bytes"]
        for name in COUNTS[1:]:
            rest[name] -= part[name]
        return part

    def rest(self) -> list[Row]:
        """Return the blocks that are not in the features' pass, and what is left of those of which it has a part alone."""
        unused = [row for rows in self._modules.values() for row in rows if row["block"] not in self.used]
        return unused + [row for row in self._parts.values() if row["length_bytes"] > 0]

    def _sum(self, rows: list[Row], place: int, begin: int, end: int) -> Row:
        parts = []
        while place < len(rows) and rows[place]["offset"] < end:
            parts.append(rows[place])
            place += 1
        if parts[0]["offset"] != begin or parts[-1]["offset"] + parts[-1]["length_bytes"] != end:
            raise ProvenanceError(
                "The counts are of other code: blocks of the same build begin elsewhere; take the counts again."
            )
        self.used.update(part["block"] for part in parts)
        summed = {name: sum(part[name] for part in parts) for name in COUNTS}
        return summed | {"executions": parts[0]["executions"]}


def with_counts(features: Signature, counts: Signature) -> Signature:
    """Return the signature of ``features`` with the exact counts of ``counts``, a run of the same binaries.

    Blocks keep their numbers, so hit rates of the features' trace fit; code that only the counts pass executed follows after
    them. Code outside files (JIT) has no identity and keeps its own counts. Raises :class:`ProvenanceError` when no block is in
    both.
    """
    from convolver.signature.signature import DEFAULTS, Signature

    counted = _Counted(counts.table.filter(pl.col("build_id") != "").to_dicts())
    rows = features.table.to_dicts()
    joined = [row | (counted.counts(row) if row["build_id"] else {}) for row in rows]
    if rows and not counted.used:
        raise ProvenanceError("The counts are of other binaries: no block is in both signatures; take the counts again.")
    missing = counted.rest()
    nothing = dict.fromkeys(FEATURES, 0)
    joined += [row | nothing | {"block": len(rows) + place} for place, row in enumerate(missing)]
    table = pl.DataFrame(joined, schema=features.table.schema) if joined else features.table
    extra = {name: value for name, value in features.header.items() if name in DEFAULTS}
    extra["system"] = counts.header.get("system") or extra.get("system")
    return Signature(table, inputs={**features.inputs, "counts": counts.id}, **extra)

"""The CPU ratio: base time / target time, as Dimemas divides by it; above 1 the target is faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver.artifact_kinds import KINDS
from convolver.convolution.block_times import BlockTimes
from convolver.convolution.uncertainty import interval_ends
from convolver.errors import PredictionError, ProvenanceError, SchemaError, UsageError
from convolver.foreign_text import visible
from convolver.heavy import pl
from convolver.schema import DocumentArtifact

SCHEMA = "convolver.cpu_ratio"
ENDS = ("low", "high")
"""Columns with the ends of a ratio's 90 % interval."""
WHERE = ("block", "function", "module", "file", "line", "offset")


class CpuRatio(DocumentArtifact):
    """Ratio of one program's times on two machines: in total, per function and per block.

    ``table`` has block, function, module, file, line, offset, base_seconds, target_seconds, ratio, low, high and contribution, by
    falling base time; a ratio is null where the target needs no time. ``low`` and ``high`` are the ends of the ratio's 90 %
    interval, null in blocks that hold little of the time and where the times have no draws. A ``contribution`` is (base - target)
    / all seconds on the target: the contributions add up to the total ratio - 1, so the largest ones decide it.
    """

    schema = SCHEMA

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Take a complete document; :func:`cpu_ratio` makes one."""
        super().__init__(document)
        try:
            self.total = float(document["ratio"])
            self.base, self.target = dict(document["base"]), dict(document["target"])
            self._rows = document["blocks"]
        except (KeyError, TypeError, ValueError) as error:
            raise SchemaError(f"A CPU ratio misses a field or has one of a wrong type: {error}.") from error

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the 90 % interval of the ratio; None where the times have none."""
        ends = self.document.get("interval")
        return None if ends is None else (float(ends[0]), float(ends[1]))

    @property
    def table(self) -> pl.DataFrame:
        """The blocks."""
        types = {"block": pl.UInt32, **dict.fromkeys(("function", "module", "file"), pl.String), "line": pl.UInt32}
        types |= {"offset": pl.UInt64, **dict.fromkeys(("base_seconds", "target_seconds"), pl.Float64)}
        types |= dict.fromkeys(ENDS, pl.Float64)
        known = [name for name in types if self._rows.get(name) is not None]
        columns = {name: [visible(value) if isinstance(value, str) else value for value in self._rows[name]] for name in known}
        return self._with_ratio(pl.DataFrame(columns, schema={name: types[name] for name in columns}, strict=False))

    @property
    def functions(self) -> pl.DataFrame:
        """Function, module, base_seconds, target_seconds, low, high, ratio and contribution, by falling base time."""
        sums = self.table.group_by("function", "module", maintain_order=True).agg(pl.col("base_seconds", "target_seconds").sum())
        ends = {name: pl.Float64() for name in ENDS}
        known = pl.DataFrame(self.document.get("functions", []), schema={"function": pl.String(), "module": pl.String(), **ends})
        sums = sums.join(known, on=["function", "module"], how="left", nulls_equal=True, maintain_order="left")
        return self._with_ratio(sums).sort("base_seconds", descending=True, maintain_order=True)

    def _with_ratio(self, table: pl.DataFrame) -> pl.DataFrame:
        base, target = pl.col("base_seconds"), pl.col("target_seconds")
        contribution = (base - target.fill_null(0.0)) / float(self.target["seconds"])
        return table.with_columns(ratio=pl.when(target > 0).then(base / target), contribution=contribution)

    def summary(self) -> dict[str, Any]:
        """Return everything but the blocks."""
        return {**{name: value for name, value in self.document.items() if name not in ("blocks", "functions")}, "id": self.id}


def ratio_interval(base: BlockTimes, target: BlockTimes) -> list[float] | None:
    """Return the ends of the ratio's 90 % interval from draws of both times that belong together; None without draws.

    What both machines' predictions have wrong in common cancels, as in the ratio itself. Raises :class:`PredictionError` when the
    target needs no time at all.
    """
    _check_time(target)
    if base.draws is None or target.draws is None:
        return None
    whole = base.seconds / target.seconds
    low, high = interval_ends(base.draws / target.draws)
    return [min(float(low), whole), max(float(high), whole)]


def _check_time(target: BlockTimes) -> None:
    if not target.seconds > 0:
        raise PredictionError(f"The program needs no time on '{target.machine}', so there is no ratio; trace one that does work.")


def _ends(base: NDArray[np.float64], target: NDArray[np.float64]) -> tuple[float, float]:
    low, high = interval_ends(base / np.maximum(target, 1e-300))
    return float(low), float(high)


def _intervals(base: BlockTimes, target: BlockTimes, joined: pl.DataFrame) -> dict[str, Any]:
    """Return what the document says of the intervals of blocks (columns, as ``joined`` has rows) and of functions."""
    first, second = base.block_draws, target.block_draws
    both = [block for block in first if block in second and second[block].any()]
    if not both:
        return {}
    columns: dict[str, list[float | None]] = {name: [None] * joined.height for name in ENDS}
    blocks = joined["block"].to_numpy()
    for row in np.flatnonzero(np.isin(blocks, np.array(both, dtype=blocks.dtype))).tolist():
        block = int(blocks[row])
        for name, end in zip(ENDS, _ends(first[block], second[block]), strict=True):
            columns[name][row] = end
    one, other = base.function_draws, target.function_draws
    functions = []
    for function, module in one:
        if (function, module) in other and other[function, module].any():
            low, high = _ends(one[function, module], other[function, module])
            functions.append({"function": function, "module": module, "low": low, "high": high})
    return {"columns": columns, "functions": functions}


def cpu_ratio(base: BlockTimes, target: BlockTimes) -> CpuRatio:
    """Return base time / target time of one program. A pure function.

    Raises :class:`ProvenanceError` when the times are of two programs or of two runs, and :class:`PredictionError` when the
    target needs no time at all, :class:`UsageError` for something else than block times.
    """
    for times in (base, target):
        if not isinstance(times, BlockTimes):
            raise UsageError(f"{type(times).__name__} are no block times; convolve() makes them.")
    if base.inputs.get("signature") != target.inputs.get("signature"):
        raise ProvenanceError(
            "The two tables of block times are of different signatures; a CPU ratio needs one program on two machines."
        )
    if base.header["overlap"] != target.header["overlap"]:
        raise ProvenanceError("The two tables of block times use different overlap rules; convolve both with the same.")
    if base.header.get("method") != target.header.get("method"):
        raise ProvenanceError("The two tables of block times come from different methods; convolve both with the same.")
    _check_time(target)
    joined = base.table.select(*WHERE, base_seconds="seconds").join(
        target.table.select("block", target_seconds="seconds"), on="block", how="left", maintain_order="left"
    )
    intervals = _intervals(base, target, joined)
    document = {
        "schema": SCHEMA,
        "version": KINDS[SCHEMA].version,
        "inputs": {"base": base.id, "target": target.id},
        "base": {"machine": base.machine, "seconds": base.seconds},
        "target": {"machine": target.machine, "seconds": target.seconds},
        "ratio": base.seconds / target.seconds,
        "interval": ratio_interval(base, target),
        "coverage": base.coverage,
        "blocks": {**joined.to_dict(as_series=False), **intervals.get("columns", {})},
        "functions": intervals.get("functions", []),
    }
    return CpuRatio(document)


def anchored(measured: float | None, ratio: float, ends: Sequence[float] | None) -> dict[str, Any]:
    """Return the target's time by the measured base time and the ratio, with its interval."""
    return {
        "scaled_seconds": None if measured is None else measured / ratio,
        "scaled_interval_seconds": None if measured is None or ends is None else [measured / end for end in reversed(ends)],
    }

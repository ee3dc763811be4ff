"""The result of a campaign as an artifact: one row for each prediction beside its measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from convolver.errors import PredictionError
from convolver.heavy import pl
from convolver.schema import TableArtifact, save_document, table_header
from convolver.shapes import unlike
from convolver.validating.statistics import ratios, summarize

SCHEMA = "convolver.validation"


_LEAST, _MOST = 1e-12, 1e12
"""Seconds and ratios of real runs lie far between."""
_ALWAYS = (
    *("program", "input", "condition", "mode", "method", "timed", "error"),
    *("predicted_seconds", "low_seconds", "high_seconds", "measured_seconds"),
)
"""Columns that every row has a value in."""


def _columns() -> dict[str, Any]:
    text = dict.fromkeys(("program", "input", "origin", "condition", "mode", "method"), pl.String)
    seconds = ("predicted", "predicted_system", "low", "high", "measured", "wall", "user", "system", "waited")
    numbers = dict.fromkeys([f"{name}_seconds" for name in seconds], pl.Float64)
    rest = {"timed": pl.String, "spread": pl.Float64, "runs": pl.Int64, "others": pl.Float64, "steal": pl.Float64}
    pairs = dict.fromkeys(("measured_ratio", "ratio_spread"), pl.Float64)
    ends = {"error": pl.Float64, "covered": pl.Boolean, "memops": pl.Int64}
    shares = dict.fromkeys(("coverage", "sampled_share", "slowdown"), pl.Float64)
    return {**text, **numbers, **rest, **pairs, **ends, **shares}


def _ordered(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows by condition, mode and method, each in the order in which it first came."""
    names = ("condition", "mode", "method")
    seen = {name: list(dict.fromkeys(row[name] for row in rows)) for name in names}
    return sorted(rows, key=lambda row: [seen[name].index(row[name]) for name in names])


class Validation(TableArtifact):
    """What a campaign found. ``header`` holds the machine, the conditions and what was left out, with reasons."""

    schema = SCHEMA

    @classmethod
    def make(cls, rows: Sequence[Mapping[str, Any]], *, inputs: Mapping[str, Any], **extra: Any) -> Validation:
        """Return the artifact of these rows; ``extra`` are campaign, base, machine, left_out, refused, pairs.

        Raises :class:`PredictionError` without a row.
        """
        if not rows:
            reasons = "; ".join([*extra.get("left_out", {}).values(), *extra.get("refused", {}).values()][:3])
            raise PredictionError(f"The campaign has no result: {reasons or 'nothing could be measured'}.")
        table = pl.DataFrame(_ordered(rows), schema=_columns(), infer_schema_length=None)
        return cls(table, table_header(SCHEMA, table, inputs, extra))

    @classmethod
    def load(cls, path: str | Path) -> Validation:
        """Read and verify a ``.validation.parquet`` file; raises :class:`FormatError` when it is damaged or something else."""
        found = super().load(path)
        for name, dtype in _columns().items():
            column = found.table[name] if name in found.table.columns else None
            if column is None or column.dtype != dtype:
                raise unlike(str(path), SCHEMA, f"its column '{name}' is missing or is not {dtype}")
            least = _LEAST if name.endswith(("_seconds", "_ratio")) else -_MOST
            possible = not column.dtype.is_float() or ((column == 0) | column.is_between(least, _MOST)).all()
            if not possible or (
                name in _ALWAYS and (column.null_count() or (name.endswith("_seconds") and not (column > 0).all()))
            ):
                raise unlike(str(path), SCHEMA, f"its column '{name}' lacks values or has impossible ones")
        return found

    @property
    def base(self) -> str:
        """Name of the base condition."""
        return str(self.header["base"])

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The table as dictionaries."""
        return list(self.table.iter_rows(named=True))

    def statistics(self) -> list[dict[str, Any]]:
        """Return errors, coverage and CPU-ratio errors by condition, mode, method and origin."""
        return summarize(self.rows, self.base)

    def cpu_ratios(self) -> list[dict[str, Any]]:
        """Return predicted and measured CPU ratios of every program between the base and each other condition."""
        return ratios(self.rows, self.base)

    @property
    def pairs(self) -> list[dict[str, Any]]:
        """CPU ratios of every program between every ordered pair of measured machines."""
        return list(self.header.get("pairs", []))

    def summary(self) -> dict[str, Any]:
        """Return the header and the statistics as a JSON-able document."""
        return {**{key: value for key, value in self.header.items() if key != "pairs"}, "statistics": self.statistics()}

    def save_json(self, path: str | Path) -> None:
        """Write header, statistics, rows and CPU ratios as one JSON document."""
        document = {key: value for key, value in self.summary().items() if key != "id"}
        save_document(
            {**document, "table_id": self.id, "rows": self.rows, "cpu_ratios": self.cpu_ratios(), "pairs": self.pairs}, path
        )

"""The measurement table: one value a row, with the parameters of its experiment (docs/formats/table.md).

Every model is fitted from such a table, whether its values were measured, simulated or printed in a paper; ``source`` says which.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from convolver import schema
from convolver.errors import FormatError, ModelError, ModelUsageError, NoiseWarning, SchemaError
from convolver.foreign_text import polars_source
from convolver.heavy import pl
from convolver.modeling import extrap
from convolver.modeling.expression import Values
from convolver.modeling.table_columns import DEFAULTS, PREFIX, TEXT_COLUMNS
from convolver.outputs import save_text

SCHEMA = "convolver.table"
_LOW, _ALIKE = 0.2, 3.0
"""A fifth of the repetitions below and above may differ; what lies between differs at most so many times."""
CENTERS = ("median", "minimum", "mean", "none")


@dataclass(frozen=True)
class Observations:
    """The points of one target: ``y`` of shape (points,), ``x`` with one array a feature, the center that made a point of its
    repetitions and where the numbers come from; ``units`` of the features that have one."""

    target: str
    unit: str
    x: dict[str, Values]
    y: Values
    inputs: dict[str, Any] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)

    @property
    def features(self) -> tuple[str, ...]:
        """Return the names of the features in the order they were asked for."""
        return tuple(self.x)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, keep: npt.NDArray[Any]) -> Observations:
        """Return the points of a mask or index array."""
        return replace(self, x={k: v[keep] for k, v in self.x.items()}, y=self.y[keep])


class Table(schema.TableArtifact):
    """Measurements in long form; ``table`` has the columns of docs/formats/table.md."""

    schema = SCHEMA

    @classmethod
    def of(cls, frame: pl.DataFrame, inputs: Mapping[str, Any] | None = None) -> Table:
        """Return a table of a frame in long form, missing columns filled in; raises :class:`SchemaError` for a wrong one."""
        if "value" not in frame.columns:
            raise SchemaError("A measurement table needs a 'value' column; name the column of the measured numbers so.")
        parameters = sorted(name for name in frame.columns if name.startswith(PREFIX))
        unknown = set(frame.columns) - set(TEXT_COLUMNS) - set(parameters) - {"repetition", "value"}
        if unknown:
            raise SchemaError(f"The columns {', '.join(sorted(unknown))} are unknown; parameters are named param.NAME.")
        text = [
            (pl.col(name).cast(pl.String).fill_null(default) if name in frame.columns else pl.lit(default)).alias(name)
            for name, default in DEFAULTS.items()
        ]
        repetition = pl.col("repetition") if "repetition" in frame.columns else pl.lit(0)
        try:
            table = frame.select(
                *text,
                repetition.cast(pl.Int64).alias("repetition"),
                pl.col("value").cast(pl.Float64),
                *(pl.col(name).cast(pl.Float64) for name in parameters),
            )
        except pl.exceptions.PolarsError as error:
            raise SchemaError(f"A measurement is no number: {str(error).splitlines()[0]}.") from error
        return cls(table, schema.table_header(SCHEMA, table, inputs or {}, {}))

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, Any]], inputs: Mapping[str, Any] | None = None) -> Table:
        """Return a table of dictionaries with the columns' names (``param.P`` and so on)."""
        listed = list(rows)
        if not listed:
            raise ModelError("The table is empty; add at least one measurement.")
        names = dict.fromkeys(name for row in listed for name in row)
        columns = {name: [row.get(name) for row in listed] for name in names}
        return cls.of(pl.DataFrame(columns, strict=False), inputs)

    @classmethod
    def of_columns(cls, values: Mapping[str, Sequence[float] | Values], target: str = "time", **texts: str) -> Table:
        """Return a table of plain columns: ``target`` is the metric, every other column a parameter."""
        columns = {("value" if name == target else PREFIX + name): np.asarray(column) for name, column in values.items()}
        frame = pl.DataFrame(columns).with_columns(
            pl.lit(target).alias("metric"), *(pl.lit(v).alias(k) for k, v in texts.items())
        )
        keys = [name for name in frame.columns if name.startswith(PREFIX)]
        rank = pl.int_range(pl.len()).over(keys) if keys else pl.int_range(pl.len())
        return cls.of(frame.with_columns(rank.alias("repetition")))

    @classmethod
    def load(cls, path: str | Path, target: str | None = None) -> Table:
        """Read a table: ``.parquet``, ``.csv``, or one of Extra-P's files (``.jsonl``, ``.json``, ``.txt``)."""
        suffix = Path(path).suffix.lower()
        if suffix == ".parquet":
            return super().load(path)
        if suffix == ".csv":
            return cls._of_csv(path, target)
        if suffix in extrap.READERS:
            return cls.of_rows(extrap.READERS[suffix](path), {"file": Path(path).name})
        raise FormatError(f"{path} has an ending that is no table; use .parquet, .csv, .jsonl, .json or .txt.")

    @classmethod
    def _of_csv(cls, path: str | Path, target: str | None) -> Table:
        """Return the table in a CSV file: a long one, or plain columns of numbers, of which ``target`` is the metric."""
        frame = _read_csv(path)
        if target is None or "value" in frame.columns:
            return cls.of(frame, {"file": Path(path).name})
        numbers = [name for name in frame.columns if frame.schema[name].is_numeric()]
        if target not in numbers:
            known = ", ".join(numbers) or "none"
            raise SchemaError(f"{path} has no column '{target}' of numbers; its columns of numbers are: {known}.")
        return cls.of_columns({name: frame[name].to_numpy() for name in numbers}, target)

    def save(self, path: str | Path) -> None:
        """Write the table in the format of the file's ending (see :meth:`load`)."""
        suffix = Path(path).suffix.lower()
        if suffix == ".parquet":
            super().save(path)
        elif suffix == ".csv":
            save_text(path, self.table.write_csv())
        elif suffix in extrap.WRITERS:
            save_text(path, extrap.WRITERS[suffix](self.table, self.parameters))
        else:
            raise FormatError(f"{path} has an ending that is no table; use .parquet, .csv, .jsonl, .json or .txt.")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters, without their prefix."""
        return tuple(name.removeprefix(PREFIX) for name in self.table.columns if name.startswith(PREFIX))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the names of the metrics in the order of their appearance."""
        return tuple(self.table["metric"].unique(maintain_order=True).to_list())

    def summary(self) -> dict[str, Any]:
        """Return the size, the parameters with their ranges, callpaths and metrics."""
        ranges = {name: (self.table[PREFIX + name].min(), self.table[PREFIX + name].max()) for name in self.parameters}
        callpaths = self.table["callpath"].unique(maintain_order=True).to_list()
        return {"rows": self.table.height, "parameters": ranges, "callpaths": callpaths, "metrics": list(self.metrics)}

    def where(self, **conditions: Any) -> Table:
        """Return the rows whose columns equal the given values (``callpath="main"``, ``P=4``)."""
        frame = self.table
        for name, value in conditions.items():
            column = name if name in frame.columns else PREFIX + name
            if column not in frame.columns:
                raise ModelUsageError(f"The table has no column '{name}'; it has {', '.join(frame.columns)}.")
            frame = frame.filter(pl.col(column) == value)
        return Table.of(frame, {"table": self.id})

    def observations(
        self, target: str, features: Sequence[str], *, callpath: str | None = None, center: str = "median"
    ) -> Observations:
        """Return the points of a metric over features, each the ``center`` of its repetitions.

        A feature is a parameter or another metric of the same run (a counter, say); metrics are joined by parameters and
        repetition. Warns with :class:`NoiseWarning` where a feature that is a metric differs so much among repetitions that they
        look like different points. Raises :class:`ModelError` for unknown names, mixed callpaths or an empty result.
        """
        if center not in CENTERS:
            raise ModelUsageError(f"The center '{center}' is unknown; use one of {', '.join(CENTERS)}.")
        frame = self._of_callpath(callpath)
        wanted = [name for name in features if name not in self.parameters]
        for name in (target, *wanted):
            if name not in self.metrics:
                known = ", ".join((*self.parameters, *self.metrics))
                raise ModelUsageError(f"'{name}' is neither a parameter nor a metric of the table; it has {known}.")
        wide = _joined(frame, target, wanted, [PREFIX + name for name in self.parameters])
        wide = wide.rename({PREFIX + name: name for name in self.parameters})
        columns = [pl.col(target).alias("__y"), *(pl.col(name) for name in features)]
        points = wide.select(columns).drop_nulls()
        group = [name for name in features if name in self.parameters]
        if center != "none" and group:
            _check_alike(points, group, wanted)
            points = _centered(points, group, center)
        if points.height == 0:
            raise ModelError(f"No run has both {target} and {', '.join(features)}; check the table's rows.")
        units = dict(frame.filter(pl.col("metric").is_in([target, *wanted])).select("metric", "unit").reverse().iter_rows())
        x = {name: points[name].to_numpy().astype(np.float64) for name in features}
        y = points["__y"].to_numpy().astype(np.float64)
        unit = units.pop(target)
        return Observations(target, unit, x, y, {"table": self.id, "center": center}, {k: u for k, u in units.items() if u})

    def _of_callpath(self, callpath: str | None) -> pl.DataFrame:
        known = self.table["callpath"].unique(maintain_order=True).to_list()
        if callpath is None:
            if len(known) > 1:
                raise ModelUsageError(f"The table holds {len(known)} callpaths; choose one of {', '.join(known[:8])}.")
            return self.table
        if callpath not in known:
            raise ModelUsageError(f"The table has no callpath '{callpath}'; it has {', '.join(known[:8])}.")
        return self.table.filter(pl.col("callpath") == callpath)


def _joined(frame: pl.DataFrame, target: str, metrics: Sequence[str], parameters: list[str]) -> pl.DataFrame:
    """Return one row a run with the target and other metrics as columns."""
    keys = ["app", "machine", *parameters, "repetition"]
    wide = frame.filter(pl.col("metric") == target).select(*keys, pl.col("value").alias(target))
    for name in metrics:
        other = frame.filter(pl.col("metric") == name).group_by(keys, maintain_order=True).agg(pl.col("value").mean().alias(name))
        wide = wide.join(other, on=keys, how="inner", nulls_equal=True, maintain_order="left")
    return wide


def _check_alike(points: pl.DataFrame, group: list[str], metrics: Sequence[str]) -> None:
    """Warn of repetitions whose metrics are those of different points: runs on several networks, say, that no parameter tells."""
    low, high = ([pl.col(name).quantile(q).alias(f"{name}_{q}") for name in metrics] for q in (_LOW, 1 - _LOW))
    spread = points.group_by(group).agg(*low, *high)
    for name in metrics:
        ratio = (spread[f"{name}_{1 - _LOW}"] / spread[f"{name}_{_LOW}"]).max()
        if isinstance(ratio, float) and np.isfinite(ratio) and ratio > _ALIKE:
            of = ", ".join(group)
            message = f"{name} differs {ratio:.3g} times among repetitions of one {of}; name the difference by a parameter."
            warnings.warn(message, NoiseWarning, stacklevel=4)


def _centered(points: pl.DataFrame, group: list[str], center: str) -> pl.DataFrame:
    how = {"median": pl.Expr.median, "minimum": pl.Expr.min, "mean": pl.Expr.mean}[center]
    others = [name for name in points.columns if name not in group]
    return points.group_by(group, maintain_order=True).agg(*(how(pl.col(name)) for name in others))


def _read_csv(path: str | Path) -> pl.DataFrame:
    try:
        return pl.read_csv(polars_source(path), infer_schema_length=None, schema_overrides=dict.fromkeys(TEXT_COLUMNS, pl.String))
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise FormatError(f"{path} cannot be read as CSV: {str(error).splitlines()[0]}.") from error

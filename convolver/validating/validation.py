"""The result of a campaign as an artifact: a row for each prediction beside its measurement, how good they are, pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

from convolver.errors import PredictionError, ToolNotFoundError
from convolver.heavy import pl
from convolver.plotting import style
from convolver.reporting.console import out
from convolver.reporting.grid import grid
from convolver.schema import TableArtifact, save_document, table_header
from convolver.shapes import unlike
from convolver.units import counted, format_seconds, format_share


class Errors(NamedTuple):
    """Absolute relative errors of a set of predictions."""

    programs: int
    median: float
    mean: float
    ninetieth: float
    worst: float


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies, interpolated; ``values`` must not be empty."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def errors(signed: Iterable[float]) -> Errors | None:
    """Summarize signed relative errors; None without any."""
    sizes = [abs(error) for error in signed]
    if not sizes:
        return None
    return Errors(len(sizes), median(sizes), mean(sizes), percentile(sizes, 0.9), max(sizes))


def coverage(rows: Iterable[dict[str, Any]]) -> float | None:
    """Return the share of rows whose measured time lies in the prediction's interval; None without rows."""
    inside = [row["low_seconds"] <= row["measured_seconds"] <= row["high_seconds"] for row in rows]
    return sum(inside) / len(inside) if inside else None


def ratios(rows: Iterable[dict[str, Any]], base: str) -> list[dict[str, Any]]:
    """Return the CPU ratio (base time / other time) of every program between the base and each other condition.

    Measured is the median over the rounds in which the program ran undisturbed under both, where there was one, else the quotient
    of the medians. ``error`` is relative: predicted ratio / measured ratio - 1. ``spread``: half the range of the rounds' ratios
    over their median, None for a quotient of medians.
    Where either is timed as elapsed time, both are, and both wait for as long as the base was measured to.
    """
    keep = ("program", "input", "mode", "method")
    rows = list(rows)
    bases = {tuple(row[name] for name in keep): row for row in rows if row["condition"] == base}
    found = []
    for row in rows:
        first = bases.get(tuple(row[name] for name in keep))
        if first is None or row["condition"] == base:
            continue
        predicted = (first["predicted_seconds"] + (row.get("waited_seconds") or 0.0)) / row["predicted_seconds"]
        clock = "wall_seconds" if "wall" in (first["timed"], row["timed"]) else "measured_seconds"
        start, end = (one[clock] or one["measured_seconds"] for one in (first, row))
        measured = row.get("measured_ratio") or start / end
        found.append(
            {**{name: row[name] for name in keep}, "condition": row["condition"], "predicted": predicted, "measured": measured}
            | {"error": predicted / measured - 1, "spread": row.get("ratio_spread")}
        )
    return found


def summarize(rows: Sequence[dict[str, Any]], base: str) -> list[dict[str, Any]]:
    """Return errors, coverage and CPU-ratio errors by condition, mode and method: of all programs, and by origin."""
    ratio_rows = ratios(rows, base)
    origin_of = {(row["program"], row["input"]): row["origin"] for row in rows}

    def belongs(row: dict[str, Any], group: str) -> bool:
        return group in ("", origin_of[row["program"], row["input"]])

    groups = dict.fromkeys((row["condition"], row["mode"], row["method"]) for row in rows)
    names = ["", *dict.fromkeys(row["origin"] for row in rows if row["origin"])]
    found = []
    for condition, mode, method in groups:
        for name in names:
            chosen = [row for row in rows if _is(row, condition, mode, method) and belongs(row, name)]
            ratio = [row for row in ratio_rows if _is(row, condition, mode, method) and belongs(row, name)]
            found.append(_summary(chosen, ratio, condition, mode, method, name))
    return [entry for entry in found if entry["count"]]


def _is(row: dict[str, Any], condition: str, mode: str, method: str) -> bool:
    return (row["condition"], row["mode"], row["method"]) == (condition, mode, method)


def _user(row: dict[str, Any]) -> float:
    """Return the predicted user time of a row."""
    return float(row["predicted_seconds"] - (row.get("predicted_system_seconds") or 0.0))


def _summary(
    rows: Sequence[dict[str, Any]], ratio_rows: Sequence[dict[str, Any]], condition: str, mode: str, method: str, origin: str
) -> dict[str, Any]:
    of_time = errors(row["error"] for row in rows)
    processor = [row for row in rows if row["user_seconds"] and row["timed"] == "processor"]
    of_user = errors(_user(row) / row["user_seconds"] - 1 for row in processor)
    of_ratio = errors(row["error"] for row in ratio_rows)
    return {
        "condition": condition,
        "mode": mode,
        "method": method,
        "origin": origin or "all",
        "count": len(rows),
        "error": of_time._asdict() if of_time else None,
        "error_of_user_time": of_user._asdict() if of_user else None,
        "coverage": coverage(rows),
        "cpu_ratio_error": of_ratio._asdict() if of_ratio else None,
    }


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


PICTURE = "parity.svg"


def write_result(result: Validation, folder: Path) -> list[Path]:
    """Write everything into the folder; returns what was written. Without matplotlib there is no picture."""
    table, document = (folder / f"validation.{suffix}" for suffix in ("parquet", "json"))
    result.save(table)
    result.save_json(document)
    picture = folder / PICTURE
    return [table, document, *([picture] if _draw(result, picture) else [])]


def _draw(result: Validation, path: Path) -> bool:
    from convolver.plotting.parity import draw_campaign

    try:
        style.picture(path, lambda look: draw_campaign(result.rows, look))
    except ToolNotFoundError:
        return False
    return True


def print_result(result: Validation) -> None:
    """Print programs, errors and what was left out on stdout."""
    from convolver.reporting.metadata import metadata

    console = out()
    conditions = list(dict.fromkeys(row["condition"] for row in result.rows))
    programs = len({row["program"] for row in result.rows})
    measured = f"{counted(programs, 'program')} under {', '.join(conditions)}"
    console.print(metadata(("campaign", result.header.get("campaign")), ("measured", measured), inputs={"validation": result.id}))
    console.print()
    words = ["program", "input", "condition", "trace", "method"]
    table = grid(words, ["predicted", "measured", "error", "in interval"])
    for row in result.rows:
        names = [row[name] for name in ("program", "input", "condition", "mode", "method")]
        seconds = [format_seconds(row[name]) for name in ("predicted_seconds", "measured_seconds")]
        table.add_row(*names, *seconds, f"{row['error']:+.1%}", "yes" if row["covered"] else "no")
    console.print(table)
    console.print()
    console.print(_errors(result.statistics()))
    for name, reason in {**result.header["left_out"], **result.header["refused"]}.items():
        console.print(f"left out: {name}: {reason}")


def _errors(entries: list[dict[str, Any]]) -> Any:
    names = ("condition", "mode", "method", "origin", "count")
    table = grid(names, ["median", "mean", "90th", "worst", "in interval", "CPU ratio median", "worst"])
    for entry in entries:
        error, ratio = entry["error"], entry["cpu_ratio_error"]
        sizes = [format_share(error[name], 1) for name in ("median", "mean", "ninetieth", "worst")]
        ends = [format_share(ratio[name], 1) for name in ("median", "worst")] if ratio else ["", ""]
        table.add_row(*(str(entry[name]) for name in names), *sizes, format_share(entry["coverage"]), *ends)
    return table

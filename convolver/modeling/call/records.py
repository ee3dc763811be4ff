"""Records of finished regions: joined with what a monitor saw, reduced over ranks to a table, or drawn as a Paraver trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from convolver.errors import FormatError, ModelError
from convolver.foreign_text import polars_source
from convolver.heavy import pl
from convolver.modeling.table import PREFIX, Table
from convolver.outputs import save_text

MEANS = ("latency", "bandwidth", "load")
MAXIMA = ("time", "cpu_time", "mpi_time", "memory_peak", "memory_available")
"""Metrics whose value for all ranks is their mean or maximum; all others are summed."""


class Quantity(msgspec.Struct, frozen=True):
    """A number with its unit."""

    value: float
    unit: str = ""


class Record(msgspec.Struct, kw_only=True):
    """One pass of one rank through a region; times are Unix seconds."""

    region: str
    run: str
    rank: int = 0
    size: int = 1
    host: str = ""
    start: float = 0.0
    end: float = 0.0
    parameters: dict[str, float] = {}
    metrics: dict[str, Quantity] = {}
    formula: str = ""
    trouble: str = ""


def to_table(records: Sequence[Record], *, app: str = "", by_rank: bool = False) -> Table:
    """Return the measurement table of records: one row a metric of each pass through a region.

    The ranks of one run and pass are reduced to one value (see :data:`MEANS` and :data:`MAXIMA`) unless ``by_rank``, which adds
    the parameter ``rank``. The number of ranks is the parameter ``P`` where the program names none so.
    """
    if not records:
        raise ModelError("There are no records; run the instrumented program first.")
    groups: dict[tuple[Any, ...], list[Record]] = {}
    seen: dict[tuple[Any, ...], int] = {}
    for record in sorted(records, key=lambda r: (r.run, r.rank, r.start)):
        point = (record.region, *sorted(record.parameters.items()), record.size)
        own = (record.run, record.rank, point)
        seen[own] = seen.get(own, -1) + 1
        groups.setdefault((point, record.run, seen[own], *((record.rank,) if by_rank else ())), []).append(record)
    passes: dict[tuple[Any, ...], int] = {}
    rows: list[dict[str, Any]] = []
    for key, group in groups.items():
        point = (key[0], *key[3:])
        passes[point] = passes.get(point, -1) + 1
        rows += _rows(group, passes[point], app, by_rank)
    return Table.of_rows(rows)


def _rows(group: list[Record], repetition: int, app: str, by_rank: bool) -> list[dict[str, Any]]:
    first = group[0]
    parameters = {"P": float(first.size), **first.parameters, **({"rank": float(first.rank)} if by_rank else {})}
    fixed = {"app": app, "callpath": first.region, "machine": first.host, "source": "measured", "repetition": repetition}
    named = {PREFIX + name: value for name, value in parameters.items()}
    rows = []
    for metric in dict.fromkeys(name for record in group for name in record.metrics):
        values = [record.metrics[metric].value for record in group if metric in record.metrics]
        unit = next(record.metrics[metric].unit for record in group if metric in record.metrics)
        rows.append({**fixed, **named, "metric": metric, "unit": unit, "value": _reduced(metric, values)})
    return rows


def _reduced(metric: str, values: list[float]) -> float:
    if metric in MEANS:
        return float(np.mean(values))
    return float(max(values)) if metric in MAXIMA else float(sum(values))


def formulas(records: Iterable[Record]) -> dict[str, str]:
    """Return the formula that the source names for each region."""
    return {record.region: record.formula for record in records if record.formula}


def troubles(records: Iterable[Record]) -> list[str]:
    """Return why drivers that were asked for did not work, each reason once."""
    return list(dict.fromkeys(record.trouble for record in records if record.trouble))


def write_paraver(records: Sequence[Record], path: str | Path) -> None:
    """Write the regions as a Paraver trace: event type 40000001, the number of the region at its begin and 0 at its end."""
    if not records:
        raise ModelError("There are no records to write as a trace.")
    start = min(record.start for record in records)
    names = {name: index for index, name in enumerate(dict.fromkeys(r.region for r in records), 1)}
    size = max(record.rank for record in records) + 1
    length = max(round((record.end - start) * 1e9) for record in records)
    events = []
    for record in records:
        for time, value in ((record.start, names[record.region]), (record.end, 0)):
            events.append((round((time - start) * 1e9), record.rank + 1, value))
    tasks = ",".join("1:1" for _ in range(size))
    lines = [f"#Paraver (01/01/2000 at 00:00):{length}_ns:1({size}):1:{size}({tasks})"]
    lines += [f"2:{task}:1:{task}:1:{time}:40000001:{value}" for time, task, value in sorted(events)]
    save_text(path, "\n".join(lines) + "\n")
    labels = ["EVENT_TYPE", "0 40000001 Region", "VALUES", "0 End", *(f"{index} {name}" for name, index in names.items())]
    save_text(Path(path).with_suffix(".pcf"), "\n".join(labels) + "\n")


UNITS = {"latency": "s", "bandwidth": "B/s", "load": "1"}


def join_monitor(records: Iterable[Record], path: str | Path, *, slack_seconds: float = 60.0) -> list[Record]:
    """Return records with the means of a monitor's samples between their begin and end on their host.

    The monitor's file is CSV with ``host``, ``time`` (Unix seconds) and any metrics; an empty host holds for all nodes. A record
    without a sample inside takes the nearest one within ``slack_seconds``, else stays as it is. Raises :class:`FormatError` for
    another file and :class:`ModelError` where no record has a sample.
    """
    frame, samples = _read(path, ("host", "time"), "a monitor's file with the columns host, time and metrics")
    times = frame["time"].to_numpy()
    values = {name: frame[name].to_numpy() for name in samples}
    hosts = np.array([host or "" for host in frame["host"].to_list()])
    before = list(records)
    after = [_joined(record, hosts, times, values, slack_seconds) for record in before]
    if before and all(old is new for old, new in zip(before, after, strict=True)):
        own, others = (", ".join(sorted(names)) for names in ({record.host for record in before}, {str(host) for host in hosts}))
        raise ModelError(
            f"No sample of {path} (hosts: {others}) is of a record's host ({own}) and within {slack_seconds:g} s of it; "
            "times are Unix seconds, and an empty host stands for all."
        )
    return after


def _read(path: str | Path, keys: tuple[str, ...], what: str) -> tuple[pl.DataFrame, list[str]]:
    """Return a CSV file as numbers (``host`` as text) and the names of its columns that are no keys."""
    try:
        frame = pl.read_csv(polars_source(path), infer_schema_length=None, schema_overrides={"host": pl.String})
        missing = [name for name in keys if name not in frame.columns]
        if missing:
            raise FormatError(f"{path} is not {what}: {missing[0]} is missing.")
        frame = frame.with_columns(pl.col(name).cast(pl.Float64) for name in frame.columns if name != "host")
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise FormatError(f"{path} is not {what}: {str(error).splitlines()[0]}.") from error
    return frame, [name for name in frame.columns if name not in keys]


def _joined(record: Record, hosts: np.ndarray, times: np.ndarray, values: Mapping[str, np.ndarray], slack: float) -> Record:
    here = (hosts == record.host) | (hosts == "")
    inside = here & (times >= record.start) & (times <= record.end)
    if not inside.any() and here.any():
        distance = np.where(here, np.maximum(record.start - times, times - record.end), np.inf)
        inside = (distance == distance.min()) & (distance <= slack)
    if not inside.any():
        return record
    means = {name: Quantity(float(np.nanmean(column[inside])), UNITS.get(name, "")) for name, column in values.items()}
    return msgspec.structs.replace(record, metrics={**record.metrics, **means})


def add_metric(
    records: Iterable[Record], name: str, values: Mapping[tuple[float, ...], float], on: tuple[str, ...]
) -> list[Record]:
    """Return records with a metric looked up by their parameters: simulated cache misses for each (N, P), for example.

    ``P`` is the number of ranks where the program names no such parameter. Metrics of all ranks are summed later, so the given
    total is shared among the ranks.
    """
    result = []
    for record in records:
        known = {"P": float(record.size), **record.parameters}
        key = tuple(known.get(parameter, np.nan) for parameter in on)
        extra = {name: Quantity(values[key] / record.size, "1")} if key in values else {}
        result.append(msgspec.structs.replace(record, metrics={**record.metrics, **extra}))
    return result


def join_metrics(records: Sequence[Record], path: str | Path) -> list[Record]:
    """Return records with the metrics of a CSV file: columns named like a parameter of the records, or ``P``, say which runs a
    row is for, all others are metrics of all ranks together (simulated cache misses, for example).

    Raises :class:`FormatError` for a file without such columns, and :class:`ModelError` where no record is at any of its points.
    """
    names = {name for record in records for name in record.parameters} | {"P"}
    what = f"a table of metrics with columns named like parameters ({', '.join(sorted(names))})"
    frame, columns = _read(path, (), what)
    on = tuple(name for name in columns if name in names)
    if not on or len(on) == len(columns):
        raise FormatError(f"{path} is not {what} and others; it has {', '.join(columns)}.")
    for metric in (name for name in columns if name not in names):
        values = {tuple(row[name] for name in on): row[metric] for row in frame.iter_rows(named=True)}
        records = add_metric(records, metric, values, on)
        if not any(metric in record.metrics for record in records):
            raise ModelError(f"No record is at a point of {path}; its columns {', '.join(on)} hold other values.")
    return list(records)

"""Joins records with what a monitor saw on the same node at the same time, and with simulated counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from convolver.errors import FormatError, ModelError
from convolver.foreign_text import polars_source
from convolver.heavy import pl
from convolver.modeling.call.records import Quantity, Record

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

"""Joins records with what a monitor saw on the same node at the same time, and with simulated counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import numpy as np

from convolver.errors import FormatError
from convolver.modeling.call.records import Measured, Record

UNITS = {"latency": "s", "bandwidth": "B/s", "load": "1"}


def join_monitor(records: Iterable[Record], path: str | Path, *, slack_seconds: float = 60.0) -> list[Record]:
    """Return records with the means of a monitor's samples between their begin and end on their host.

    The monitor's file is CSV with ``host``, ``time`` (Unix seconds) and any metrics; an empty host holds for all nodes. A record
    without a sample inside takes the nearest one within ``slack_seconds``, else stays as it is.
    """
    import polars as pl

    try:
        frame = pl.read_csv(path, infer_schema_length=None, schema_overrides={"host": pl.String})
        samples = [name for name in frame.columns if name not in ("host", "time")]
        times = frame["time"].cast(pl.Float64).to_numpy()
        values = {name: frame[name].cast(pl.Float64).to_numpy() for name in samples}
    except (OSError, pl.exceptions.PolarsError) as error:
        raise FormatError(f"{path} is no monitor file with the columns host, time and metrics: {error}.") from error
    hosts = np.array([host or "" for host in frame["host"].to_list()])
    return [_joined(record, hosts, times, values, slack_seconds) for record in records]


def _joined(record: Record, hosts: np.ndarray, times: np.ndarray, values: Mapping[str, np.ndarray], slack: float) -> Record:
    here = (hosts == record.host) | (hosts == "")
    inside = here & (times >= record.start) & (times <= record.end)
    if not inside.any() and here.any():
        distance = np.where(here, np.maximum(record.start - times, times - record.end), np.inf)
        inside = (distance == distance.min()) & (distance <= slack)
    if not inside.any():
        return record
    means = {name: Measured(float(np.nanmean(column[inside])), UNITS.get(name, "")) for name, column in values.items()}
    return Record(
        **{**{name: getattr(record, name) for name in record.__struct_fields__}, "metrics": {**record.metrics, **means}}
    )


def add_metric(
    records: Iterable[Record], name: str, values: Mapping[tuple[float, ...], float], on: tuple[str, ...]
) -> list[Record]:
    """Return records with a metric looked up by their parameters: simulated cache misses for each (N, P), for example.

    ``P`` is the number of ranks where the program names no such parameter. Metrics of all ranks are summed later, so the given
    total is shared among the ranks.
    """
    result = []
    for record in records:
        key = tuple(record.parameters.get(parameter, float(record.size)) for parameter in on)
        extra = {name: Measured(values[key] / record.size, "1")} if key in values else {}
        result.append(msgspec.structs.replace(record, metrics={**record.metrics, **extra}))
    return result

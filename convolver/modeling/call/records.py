"""Records of finished regions: reduced over ranks to a measurement table, or drawn as a Paraver trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from convolver.errors import ModelError
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

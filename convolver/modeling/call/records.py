"""Records of finished regions: read from files, joined with what a monitor saw, reduced over ranks to a table, or drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import msgspec
import numpy as np

from convolver.errors import FormatError, ModelError
from convolver.foreign_text import polars_source
from convolver.heavy import pl
from convolver.modeling.table import PREFIX, Table
from convolver.outputs import append_line, save_text

PATTERN = "convolver-call.*.jsonl"
"""Names of the files that the runtime writes."""
DTD = """\
<!ELEMENT experiments (experiment*)>
<!ELEMENT experiment (parameter*, metric*, formula?, trouble?)>
<!ATTLIST experiment
  region CDATA #REQUIRED
  run    CDATA #REQUIRED
  rank   CDATA #REQUIRED
  size   CDATA #REQUIRED
  host   CDATA #REQUIRED
  start  CDATA #REQUIRED
  end    CDATA #REQUIRED>
<!ELEMENT parameter (#PCDATA)>
<!ATTLIST parameter name CDATA #REQUIRED>
<!ELEMENT metric (#PCDATA)>
<!ATTLIST metric name CDATA #REQUIRED unit CDATA #REQUIRED>
<!ELEMENT formula (#PCDATA)>
<!ELEMENT trouble (#PCDATA)>
"""
"""Times are Unix seconds; the texts of parameter and metric are numbers."""


def read_records(source: str | Path) -> list[Record]:
    """Return the records of a folder of the runtime's files, of one such file, or of an XML file."""
    path = Path(source)
    if path.suffix == ".xml":
        return read_xml(path)
    files = sorted(path.glob(PATTERN)) if path.is_dir() else [path]
    if not files:
        raise FormatError(f"{path} holds no record ({PATTERN}); run the instrumented program with CONVOLVER_CALL_DIR={path}.")
    records = []
    for file in files:
        try:
            lines = file.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"{file} cannot be read: {error}.") from error
        for number, line in enumerate(lines, 1):
            records.append(_of_line(file, number, line))
    return records


def _of_line(file: Path, number: int, line: str) -> Record:
    try:
        return msgspec.json.decode(line, type=Record, strict=False)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FormatError(f"{file}, line {number} is no record: {error}; the program may have been stopped there.") from error


def append_record(record: Record, path: str | Path) -> None:
    """Append a record as a JSON line, as the runtime does."""
    append_line(path, msgspec.json.encode(record))


def write_xml(records: Sequence[Record], path: str | Path) -> None:
    """Write records as XML with the definition inside the file, so that any validating reader can check it."""
    root = xml.Element("experiments")
    for record in records:
        fields = {name: str(getattr(record, name)) for name in ("region", "run", "rank", "size", "host")}
        times = {name: repr(getattr(record, name)) for name in ("start", "end")}
        node = xml.SubElement(root, "experiment", fields | times)
        for name, value in record.parameters.items():
            xml.SubElement(node, "parameter", name=name).text = repr(value)
        for name, measured in record.metrics.items():
            xml.SubElement(node, "metric", name=name, unit=measured.unit).text = repr(measured.value)
        for name in ("formula", "trouble"):
            if getattr(record, name):
                xml.SubElement(node, name).text = getattr(record, name)
    xml.indent(root, " ")
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE experiments [\n{DTD}]>\n'
    save_text(path, head + xml.tostring(root, encoding="unicode") + "\n")


def read_xml(path: str | Path) -> list[Record]:
    """Read records from XML; raises :class:`FormatError` for anything that breaks the definition or declares entities."""
    try:
        text = Path(path).read_text()
        if "<!ENTITY" in text:
            raise FormatError(f"{path} declares entities, which no record needs.")
        root = xml.fromstring(text)
        if root.tag != "experiments":
            raise FormatError(f"{path} holds '{root.tag}', not 'experiments'.")
        return [_of_element(node) for node in root]
    except (OSError, UnicodeDecodeError, xml.ParseError, KeyError, ValueError, TypeError) as error:
        raise FormatError(f"{path} is no XML of records: {error}.") from error


def _of_element(node: xml.Element) -> Record:
    known = {"parameter", "metric", "formula", "trouble"}
    if node.tag != "experiment" or any(child.tag not in known for child in node):
        raise ValueError(f"an element in '{node.tag}' is unknown")
    get = node.attrib
    lacking = [name for name in ("region", "run", "rank", "size", "host", "start", "end") if name not in get]
    if lacking:
        raise ValueError(f"an experiment lacks the attribute '{lacking[0]}'")
    return Record(
        region=get["region"],
        run=get["run"],
        rank=int(get["rank"]),
        size=int(get["size"]),
        host=get["host"],
        start=float(get["start"]),
        end=float(get["end"]),
        parameters={child.attrib["name"]: float(child.text or "") for child in node.iter("parameter")},
        metrics={c.attrib["name"]: Quantity(float(c.text or ""), c.attrib["unit"]) for c in node.iter("metric")},
        formula=node.findtext("formula") or "",
        trouble=node.findtext("trouble") or "",
    )


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

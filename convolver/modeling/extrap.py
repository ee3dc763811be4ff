"""Extra-P's own files, read and written: JSON Lines, text, and JSON in the layouts of versions 3 and 4.

Layouts after extra-p/extrap 4.2 (``extrap/fileio/file_reader``). Repetitions are kept; units, machines and sources are not part
of those formats and are lost on writing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from convolver.errors import FormatError, ModelError, SchemaError
from convolver.foreign_text import decode_json
from convolver.heavy import pl
from convolver.modeling.table_columns import DEFAULT_CALLPATH, DEFAULT_METRIC, PREFIX

Rows: TypeAlias = list[dict[str, Any]]
_MAX_TEXT_PARAMETERS = 4


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} cannot be read as text: {error}.") from error


def _row(params: dict[str, float], callpath: str, metric: str, value: float, repetition: int) -> dict[str, Any]:
    named = {PREFIX + name: float(number) for name, number in params.items()}
    return {**named, "callpath": callpath, "metric": metric, "value": float(value), "repetition": repetition}


def _checked(path: str | Path, rows: Rows) -> Rows:
    """Number the repetitions of each point: Extra-P's files may spread them over lines."""
    if not rows:
        raise FormatError(f"{path} holds no measurement.")
    seen: dict[Any, int] = {}
    for row in rows:
        key = tuple(sorted((k, v) for k, v in row.items() if k not in ("value", "repetition")))
        row["repetition"] = seen.get(key, 0)
        seen[key] = row["repetition"] + 1
    return rows


def read_jsonlines(path: str | Path) -> Rows:
    """Read ``{"params": {...}, "callpath": "main", "metric": "time", "value": 1.5}`` lines; a value may be a list."""
    return _checked(
        path, [row for number, line in enumerate(_text(path).splitlines(), 1) for row in _json_line(path, number, line)]
    )


def _json_line(path: str | Path, number: int, line: str) -> Iterator[dict[str, Any]]:
    if not line.strip():
        return
    try:
        data = decode_json(line.encode(errors="replace"), f"{path}, line {number}")
        values = data["value"] if isinstance(data["value"], list) else [data["value"]]
        for index, value in enumerate(values):
            yield _row(data["params"], data.get("callpath", DEFAULT_CALLPATH), data.get("metric", DEFAULT_METRIC), value, index)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"{path}, line {number}: no measurement with 'params' and 'value' ({error}).") from error


def read_json(path: str | Path) -> Rows:
    """Read Extra-P's JSON: measurements by callpath and metric (4), or lists with ids (3); JSON Lines are recognized too."""
    text = _text(path)
    try:
        data = decode_json(text.encode(errors="replace"), str(path))
    except FormatError:
        return read_jsonlines(path)
    if isinstance(data, dict) and "params" in data:
        return read_jsonlines(path)
    try:
        rows = list(_rows_of_ids(data) if "callpaths" in data else _rows_of_points(data))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise SchemaError(f"{path} is not Extra-P's JSON: {error!r} is missing or wrong.") from error
    return _checked(path, rows)


def _rows_of_points(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    names = data["parameters"]
    for callpath, metrics in data["measurements"].items():
        for metric, measurements in metrics.items():
            for measurement in measurements:
                params = dict(zip(names, measurement["point"], strict=True))
                for index, value in enumerate(measurement["values"]):
                    yield _row(params, callpath, metric, value, index)


def _rows_of_ids(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    def names(key: str) -> dict[int, str]:
        return {int(entry["id"]): entry["name"] for entry in data[key]}

    parameters, callpaths, metrics = names("parameters"), names("callpaths"), names("metrics")
    coordinates = {
        int(entry["id"]): {
            parameters[int(pair["parameter_id"])]: pair["parameter_value"] for pair in entry["parameter_value_pairs"]
        }
        for entry in data["coordinates"]
    }
    for entry in data["measurements"]:
        params = coordinates[int(entry["coordinate_id"])]
        yield _row(params, callpaths[int(entry["callpath_id"])], metrics[int(entry["metric_id"])], entry["value"], 0)


def read_text(path: str | Path) -> Rows:
    """Read Extra-P's text file: PARAMETER, POINTS, REGION, METRIC and DATA lines, ``#`` comments."""
    state = _TextState(str(path))
    for number, line in enumerate(_text(path).splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            state.line(number, line)
    return _checked(path, state.rows)


class _TextState:
    """What a line of the text format refers to: the parameters, points, region and metric named before it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.parameters: list[str] = []
        self.points: list[dict[str, float]] = []
        self.region, self.metric, self.next = DEFAULT_CALLPATH, DEFAULT_METRIC, 0
        self.rows: Rows = []

    def line(self, number: int, line: str) -> None:
        word, _, rest = " ".join(line.split()).partition(" ")
        try:
            if word == "PARAMETER":
                self.parameters += rest.split()
            elif word == "POINTS":
                self._points(rest)
            elif word in ("REGION", "METRIC"):
                setattr(self, word.lower(), rest.strip())
                self.next = 0
            elif word == "DATA":
                self._data(rest)
            else:
                raise ValueError(f"unknown word '{word}'")
        except (ValueError, IndexError) as error:
            raise FormatError(f"{self.path}, line {number}: {error}.") from error

    def _points(self, rest: str) -> None:
        if not 1 <= len(self.parameters) <= _MAX_TEXT_PARAMETERS:
            raise ValueError(f"{len(self.parameters)} parameters; this format has 1 to {_MAX_TEXT_PARAMETERS}")
        groups = rest.replace("(", " ").split(")") if "(" in rest else rest.split()
        for group in groups:
            if group.strip():
                values = [float(word) for word in group.split()]
                if len(values) != len(self.parameters):
                    raise ValueError(f"the point ({group.strip()}) does not have the {len(self.parameters)} parameters")
                self.points.append(dict(zip(self.parameters, values, strict=True)))

    def _data(self, rest: str) -> None:
        if self.next >= len(self.points):
            raise ValueError(f"more DATA lines than the {len(self.points)} POINTS")
        point = self.points[self.next]
        self.rows += [_row(point, self.region, self.metric, float(word), i) for i, word in enumerate(rest.split())]
        self.next += 1


Grouped = dict[tuple[str, str], list[tuple[dict[str, float], list[float]]]]


def _grouped(frame: pl.DataFrame, parameters: tuple[str, ...]) -> Grouped:
    """Return the repetitions of each point by (callpath, metric), in the order of the table."""
    result: Grouped = {}
    columns = [PREFIX + name for name in parameters]
    if frame.select(columns).null_count().transpose().to_series().sum():
        raise ModelError("Extra-P's files need every parameter at every point, but some are missing in the table.")
    rows = frame.with_row_index("__row").sort("callpath", "metric", *columns, "repetition", "__row").iter_rows(named=True)
    for key, group in groupby(rows, key=lambda row: (row["callpath"], row["metric"], *(row[name] for name in columns))):
        params = dict(zip(parameters, key[2:], strict=True))
        result.setdefault((key[0], key[1]), []).append((params, [row["value"] for row in group]))
    return result


def write_jsonlines(frame: pl.DataFrame, parameters: tuple[str, ...]) -> str:
    """Return the table as Extra-P JSON Lines, one point a line with the list of its repetitions."""
    lines = [
        json.dumps({"params": params, "callpath": callpath, "metric": metric, "value": values})
        for (callpath, metric), points in _grouped(frame, parameters).items()
        for params, values in points
    ]
    return "\n".join(lines) + "\n"


def write_json(frame: pl.DataFrame, parameters: tuple[str, ...]) -> str:
    """Return the table as Extra-P JSON (layout of version 4)."""
    measurements: dict[str, dict[str, Any]] = {}
    for (callpath, metric), points in _grouped(frame, parameters).items():
        listed = [{"point": list(params.values()), "values": values} for params, values in points]
        measurements.setdefault(callpath, {})[metric] = listed
    return json.dumps({"parameters": list(parameters), "measurements": measurements}, indent=1) + "\n"


def write_text(frame: pl.DataFrame, parameters: tuple[str, ...]) -> str:
    """Return the table as Extra-P text; raises :class:`ModelError` unless every region has every point."""
    if not 1 <= len(parameters) <= _MAX_TEXT_PARAMETERS:
        raise ModelError(f"Extra-P's text files hold 1 to {_MAX_TEXT_PARAMETERS} parameters; write JSON Lines instead.")
    grouped = _grouped(frame, parameters)
    points = [params for params, _ in next(iter(grouped.values()))]
    lines = [f"PARAMETER {name}" for name in parameters]
    lines += ["POINTS ( " + " ".join(repr(number) for number in point.values()) + " )" for point in points]
    for (callpath, metric), measured in grouped.items():
        if [params for params, _ in measured] != points:
            raise ModelError(f"'{callpath}' lacks points that others have; write JSON Lines instead of text.")
        lines += [f"REGION {callpath}", f"METRIC {metric}"]
        lines += ["DATA " + " ".join(repr(value) for value in values) for _, values in measured]
    return "\n".join(lines) + "\n"


READERS: dict[str, Callable[[str | Path], Rows]] = {".jsonl": read_jsonlines, ".json": read_json, ".txt": read_text}
WRITERS: dict[str, Callable[[pl.DataFrame, tuple[str, ...]], str]] = {
    ".jsonl": write_jsonlines,
    ".json": write_json,
    ".txt": write_text,
}

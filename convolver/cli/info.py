"""``convolver info``: explain and verify any artifact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from convolver.cli.common import AsData, flat
from convolver.heavy import pl
from convolver.reporting.console import out, terminal_progress

SHOWN = 50
_FOREIGN_EVENTS = (".dim", ".prv", ".otf2")
"""Endings of MPI events that other tools wrote; those recorded by Convolver are a folder."""


def verb(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Any file that Convolver wrote, or MPI events (a recording's folder, .dim, .prv)."),
    ],
    as_data: AsData = AsData(),
) -> None:
    """Explain and verify an artifact: trace, signature, hit rates, block times, ratio, prediction, machine, ...

    The file is read whole: checksums, schema and id are checked. A damaged or foreign file ends with exit code 3.

    \b
    Examples:
      convolver info cg.cvt
      convolver info cg@host.times.parquet --json
      convolver info app.mpi
    """
    from convolver.artifacts import describe

    if file.is_dir() or file.suffix in _FOREIGN_EVENTS:
        from convolver.mpi.sources import load_events

        document = {"meaning": "MPI events of one run", **load_events(file, progress=terminal_progress()).summary()}
    else:
        document = describe(file, terminal_progress())
    if not as_data.printed(lambda: document, lambda: _named(document)):
        _show(file, document)


def _named(document: dict[str, Any], prefix: str = "") -> list[dict[str, str]]:
    """Return name and value of everything, for ``--csv``; names of nested values are ``outer.inner``, of lists ``outer.0``."""
    rows: list[dict[str, str]] = []
    for name, value in document.items():
        if isinstance(value, list) and _is_rows(value):
            value = {str(index): row for index, row in enumerate(value)}
        if isinstance(value, dict):
            rows += _named(value, f"{prefix}{name}.")
        else:
            shown = " ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
            rows.append({"name": prefix + name, "value": shown})
    return rows


def _show(file: Path, document: dict[str, Any]) -> None:
    from convolver.reporting.metadata import sampling_words, system_words
    from convolver.reporting.tables import frame, key_values

    console = out()
    tables = {name: value for name, value in document.items() if _is_rows(value)}
    if document.get("sampling"):
        document = {**document, "sampling": sampling_words(document["sampling"])}
    if "calls" in (document.get("system") or {}):
        document = {**document, "system": system_words(document["system"])}
    console.print(key_values(f"{file}: {document['meaning']}", _pairs(document, tables)))
    if tables:
        for name, rows in tables.items():
            shown = [flat(one) for row in rows[:SHOWN] for one in _exploded(row)]
            console.print()
            console.print(frame(name, pl.DataFrame(shown, infer_schema_length=None)))


def _pairs(document: dict[str, Any], tables: dict[str, Any]) -> list[tuple[str, Any]]:
    hidden = {"meaning", *tables}
    return [(name, value) for name, value in document.items() if name not in hidden]


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _exploded(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row with rows of its own (the levels of a machine) as one row for each of them."""
    inner = next((value for value in row.values() if _is_rows(value)), None)
    if inner is None:
        return [row]
    outer = {name: value for name, value in row.items() if not isinstance(value, list)}
    return [{**outer, **one} for one in inner]

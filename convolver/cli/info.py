"""``convolver info``: explain and verify any artifact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

HELP = """Explain and verify an artifact: trace, signature, hit rates, block times, ratio, prediction, machine, ...

The file is read whole: checksums, schema and id are checked. A damaged or foreign file ends with exit code 3.

\b
Examples:
  convolver info cg.cvt
  convolver info cg@host.times.parquet --json
"""


def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Any file that Convolver wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run the verb."""
    from convolver.artifacts import describe

    document = describe(file)
    if as_json:
        from convolver.cli.common import print_json

        print_json(document)
        return
    _show(file, document)


def _show(file: Path, document: dict[str, Any]) -> None:
    from convolver.reporting.console import out
    from convolver.reporting.tables import frame, key_values

    console = out()
    tables = {name: value for name, value in document.items() if _is_rows(value)}
    console.print(key_values(f"{file}: {document['meaning']}", _pairs(document, tables)))
    if tables:
        import polars as pl

        for name, rows in tables.items():
            console.print()
            console.print(frame(name, pl.DataFrame([_flat(row) for row in rows[:50]], infer_schema_length=None)))


def _pairs(document: dict[str, Any], tables: dict[str, Any]) -> list[tuple[str, Any]]:
    hidden = {"meaning", *tables}
    return [(name, value) for name, value in document.items() if name not in hidden]


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, list | dict) else value for name, value in row.items()}


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("info", help=HELP)(info)

"""Any artifact from its file: which schema it has, its reader, and what ``convolver info`` tells about it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from convolver.artifact_kinds import KINDS
from convolver.errors import UsageError
from convolver.progress import SILENT, Progress
from convolver.schema import PARQUET, TRACE, ZIP, read_json, read_table_header, schema_of


def load(path: str | Path) -> Any:
    """Return the artifact in a file, verified, as an object of its own class.

    Raises :class:`FormatError` and its kinds for a file that is damaged or something else.
    """
    module, _, name = KINDS[schema_of(path)].reader.partition(":")
    try:
        reader = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"This Convolver cannot read {path}: it lacks {module}.") from error
    return reader.load(path)


def describe(path: str | Path, progress: Progress = SILENT) -> dict[str, Any]:
    """Verify a file and return what it is: schema, version, id, inputs, totals, then everything in its summary."""
    schema = schema_of(path)
    artifact = load(path)
    verify = getattr(artifact, "verify", None)
    if verify is not None:
        verify(progress)  # a trace is a stream: loading it reads no address yet
    summary = dict(artifact.summary())
    header = _header(path, artifact)
    first = {
        "schema": schema,
        "version": header.get("version", KINDS[schema].version),
        "id": getattr(artifact, "id", None) or header.get("id"),
        "inputs": dict(header.get("inputs") or {}),
        "totals": _totals(artifact, summary),
        "meaning": KINDS[schema].meaning,
        "file_bytes": Path(path).stat().st_size,
    }
    return {**first, **{name: value for name, value in summary.items() if name not in first}}


def _header(path: str | Path, artifact: Any) -> dict[str, Any]:
    """Return schema, version, id and inputs as they stand in the file."""
    with open(path, "rb") as file:
        start = file.read(4)
    if start == PARQUET:
        return read_table_header(path)
    if start == ZIP:
        return dict(artifact.manifest)
    return dict(artifact.header) if start == TRACE else read_json(path)


def _totals(artifact: Any, summary: dict[str, Any]) -> dict[str, Any]:
    """Return executed totals: the artifact's own, those of its signature (a trace's), or none."""
    if "totals" in summary:
        return dict(summary["totals"])
    owner = artifact if hasattr(artifact, "totals") and not callable(artifact.totals) else getattr(artifact, "signature", None)
    return dict(owner.totals) if owner is not None else {}

"""``convolver import``: turn another tool's recording into a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convolver.cli.common import Force, Json, new_file, print_json, wrote
from convolver.reporting.console import terminal_progress


def verb(
    recording: Annotated[Path, typer.Argument(help="File with the recorded references; '-' reads standard input.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Trace file [NAME.cvt].")] = None,
    format: Annotated[
        str | None, typer.Option("--format", "-f", help="lackey, din, drmemtrace, csv or parquet [by the file's name].")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Convert references that another tool recorded into a trace and a signature.

    \b
    Examples:
      convolver import gcc.din
      valgrind --tool=lackey --trace-mem=yes --log-fd=9 ls 9>&1 >/dev/null | convolver import -f lackey -o ls.cvt -
    """
    from convolver.tracing.importers import import_trace
    from convolver.tracing.tracer import signature_path

    target = output or Path("stdin.cvt" if str(recording) == "-" else f"{recording.stem}.cvt")
    new_file(target, force)
    new_file(signature_path(target), force)
    trace = import_trace(recording, output=target, format=format, progress=terminal_progress())
    wrote(target)
    wrote(signature_path(target))
    if json:
        print_json(trace.summary())

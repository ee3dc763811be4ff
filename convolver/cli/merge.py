"""``convolver merge``: join the phases of a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convolver.cli.common import new_file, print_json, wrote


def merge_command(
    phases: Annotated[list[Path], typer.Argument(help="Trace files of all phases, in any order.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Trace file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Join traces that were recorded with --phase 1/N to N/N into the one that a run without phases records.

    The counts of all phases must agree; phases of runs that differ are refused.

    \b
    Examples:
      convolver merge -o app.cvt app.1.cvt app.2.cvt
      convolver merge -o app.cvt app.?.cvt --force
    """
    from convolver.reporting.console import terminal_progress
    from convolver.tracing.merge import merge_traces
    from convolver.tracing.tracer import signature_path

    new_file(output, force)
    new_file(signature_path(output), force)
    trace = merge_traces(phases, output=output, progress=terminal_progress())
    wrote(output)
    wrote(signature_path(output))
    if json:
        print_json(trace.summary())


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("merge")(merge_command)

"""``convolver merge``: join the phases of a trace, or group the ranks of an MPI program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convolver.cli.common import Force, Json, new_file, print_json, say, wrote
from convolver.errors import UsageError
from convolver.reporting.console import terminal_progress
from convolver.units import format_count


def _grouped(traces: list[Path], output: Path, force: bool, json: bool) -> None:
    from convolver.tracing.merge_traces import group_ranks

    if not output.name.endswith(".sig.parquet"):
        raise UsageError(f"Ranks are grouped in a signature; name it like {output.name.removesuffix('.cvt')}.sig.parquet.")
    new_file(output, force)
    group = group_ranks(traces)
    group.save(output)
    wrote(output)
    if json:
        print_json(group.summary())
        return
    counts = group.table.select("rank", "instructions", "memops").group_by("rank").sum().sort("rank")
    for rank, instructions, memops in counts.iter_rows():
        say(f"rank {rank}: {format_count(instructions)} instructions, {format_count(memops)} memory references")


def verb(
    phases: Annotated[list[Path], typer.Argument(help="Trace files of all phases, or of all ranks, in any order.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Trace file to write, for ranks a .sig.parquet.")],
    force: Force = False,
    json: Json = False,
) -> None:
    """Join traces that were recorded with --phase 1/N to N/N into the one that a run without phases records.

    The counts of all phases must agree; phases of runs that differ are refused. Traces of the ranks of an MPI program are grouped
    instead: one signature with a column for the rank.

    \b
    Examples:
      convolver merge -o app.cvt app.1.cvt app.2.cvt
      convolver merge -o app.sig.parquet app.0.cvt app.1.cvt app.2.cvt app.3.cvt
    """
    from convolver.tracing.merge_traces import merge_traces
    from convolver.tracing.reader import Trace
    from convolver.tracing.tracer import signature_path

    first = Trace.load(phases[0]).header
    if first.get("rank") is not None and not (first.get("sampling") or {}).get("phase"):
        _grouped(phases, output, force, json)
        return
    new_file(output, force)
    new_file(signature_path(output), force)
    trace = merge_traces(phases, output=output, progress=terminal_progress())
    wrote(output)
    wrote(signature_path(output))
    if json:
        print_json(trace.summary())

"""``convolver share``: threads or ranks on cores that share cache levels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convolver.cli import completing
from convolver.cli.common import AsData, Force, existing, new_file, say, wrote
from convolver.errors import UsageError
from convolver.reporting.console import terminal_progress

if TYPE_CHECKING:
    from convolver.simulation.hit_rates import HitRates


def _output(trace: Path) -> Path:
    return trace.with_name(trace.name.removesuffix(".cvt") + ".shared.hits.parquet")


def _rows(traces: list[Path], found: list[HitRates], machine: str) -> list[dict]:
    return [{"trace": str(path), **row} for path, rates in zip(traces, found, strict=True) for row in rates.totals(machine)]


def verb(
    traces: Annotated[list[Path], typer.Argument(help="Traces, one a process.", show_default=False)],
    machine: Annotated[
        str,
        typer.Option(
            "-m", "--machine", help="Machine whose cores share a level.", show_default=False, autocompletion=completing.machines
        ),
    ],
    turn: Annotated[float, typer.Option(help="How long a core runs before the next one does.")] = 1000,
    by: Annotated[str, typer.Option("--turns-in", help="What turns are counted in: references or instructions.")] = "references",
    as_data: AsData = AsData(),
    force: Force = False,
) -> None:
    """Simulate every thread of some traces on a core of its own; levels marked as shared, else the last, are shared.

    \b
    Examples:
      convolver share app.cvt -m host
      convolver share rank0.cvt rank1.cvt -m server.machine.json --turn 5000 --turns-in instructions --json
    """
    from convolver.cli.simulate import print_about, print_totals
    from convolver.machine.catalog import find_machine
    from convolver.reporting.cache_details import print_details
    from convolver.simulation.shared import instructions_per_reference, simulate_shared
    from convolver.tracing.reader import Trace

    if by not in ("references", "instructions"):
        raise UsageError(f"Turns cannot be counted in '{by}'; say references or instructions.")
    paths = [new_file(_output(existing(trace)), force) for trace in traces]
    if twice := next((trace for trace, path in zip(traces, paths, strict=True) if paths.count(path) > 1), None):
        raise UsageError(f"{twice} is given twice, and both would be written to {_output(twice)}; give a copy of another name.")
    profile = find_machine(machine)
    recorded = [Trace.load(trace) for trace in traces]
    costs = [instructions_per_reference(trace) for trace in recorded] if by == "instructions" else None
    found = simulate_shared(recorded, profile, turn=turn, costs=costs, progress=terminal_progress())
    for rates, path in zip(found, paths, strict=True):
        rates.save(path)
    if not as_data.printed(lambda: _rows(traces, found, profile.name)):
        for one, trace, rates in zip(recorded, traces, found, strict=True):
            say(f"{trace}: {rates.references:,} references")
            print_about(one.signature, [profile.name])
            print_totals(rates)
            print_details(rates)
    for path in paths:
        wrote(path)

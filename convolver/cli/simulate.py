"""``convolver simulate``: a recorded trace through the caches of machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convolver.cli.common import Csv, new_file, printed, say, wrote

if TYPE_CHECKING:
    from convolver.simulation.hit_rates import HitRates

HELP = """Simulate the caches of machines on a recorded trace, all in one pass, and write hits per block and level.

\b
Examples:
  convolver simulate app.cvt -m host -m server-hbm
  convolver simulate app.cvt -m my.machine.json -o my.hits.parquet --json
"""


def default_output(trace: Path) -> Path:
    """Name of the hit rates of a trace: APP.cvt becomes APP.hits.parquet beside it."""
    return trace.with_name(trace.name.removesuffix(".cvt") + ".hits.parquet")


def _print_table(rates: HitRates) -> None:
    from rich.table import Table

    from convolver.reporting.console import out

    table = Table(box=None, pad_edge=False)
    for title in ("machine", "level", "accesses", "hits", "misses", "write-backs", "hit rate", "cumulative", "sample", "error"):
        table.add_column(title, justify="left" if title in ("machine", "level", "sample") else "right")
    for machine in rates.machines:
        missing: float | None = 1.0  # share of the references that no level so far has served
        for level in rates.totals(machine):
            local = level["misses"] / level["accesses"] if level["accesses"] else None
            missing = None if local is None or missing is None else missing * local
            counts = [f"{level[name]:,}" for name in ("accesses", "hits", "misses", "write_backs")]
            shares = ["-" if share is None else f"{1 - share:.4f}" for share in (local, missing)]
            error = level.get("standard_error")
            sample = [level.get("sample", ""), "-" if error is None else f"{error:.4f}"]
            table.add_row(machine, level["level"], *counts, *shares, *sample)
    out().print(table)


def _simulate(
    trace: Annotated[Path, typer.Argument(help="Trace written by `convolver trace`.", show_default=False)],
    machine: Annotated[
        list[str],
        typer.Option("-m", "--machine", help="Name of a machine or path of its profile; repeat for more.", show_default=False),
    ],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write; default: APP.hits.parquet.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print totals per machine and level as JSON.")] = False,
    csv: Csv = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file.")] = False,
) -> None:
    from convolver.reporting.console import terminal_progress
    from convolver.simulation.simulate import simulate
    from convolver.tracing.reader import Trace

    path = new_file(output or default_output(trace), force)
    rates = simulate(Trace.load(trace), machine, progress=terminal_progress())
    rates.save(path)
    machines = rates.summary()["machines"]
    rows = [{"machine": one["machine"], **level} for one in machines for level in one["levels"]]
    if not printed(json, csv, lambda: machines, lambda: rows):
        _print_table(rates)
        say(f"{rates.references:,} references simulated.")
    wrote(path)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("simulate", help=HELP)(_simulate)

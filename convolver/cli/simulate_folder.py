"""``convolver simulate DIR``: all traces of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver.cli.common import say
from convolver.reporting.console import out, terminal_progress
from convolver.reporting.grid import grid

if TYPE_CHECKING:
    from convolver.machine.profile import MachineProfile


def simulate_folder(
    folder: Path, machines: Sequence[MachineProfile], output: Path, jobs: int | None, dask: str | None
) -> list[dict[str, Any]]:
    """Simulate the traces of a folder into one table; return the totals per machine and level."""
    from convolver.fanout import dask_executor
    from convolver.simulation.many import simulate_many, totals_of, traces_in

    traces = traces_in(folder)
    with dask_executor(dask) as executor:
        table = simulate_many(traces, machines, output, executor=executor, jobs=jobs, progress=terminal_progress())
    say(f"{len(traces)} traces simulated.")
    return totals_of(table)


def print_sums(rows: list[dict[str, Any]]) -> None:
    """Print rows of equal keys as a table."""
    words = ("machine", "level")
    table = grid(words, [title for title in (rows[0] if rows else ()) if title not in words])
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    out().print(table)

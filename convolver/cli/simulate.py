"""``convolver simulate``: a recorded trace through the caches of machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from convolver.cli import completing
from convolver.cli.common import AsData, Dask, Force, Jobs, existing, new_file, say, wrote
from convolver.errors import UsageError
from convolver.reporting.console import out, terminal_progress
from convolver.reporting.grid import grid
from convolver.units import parse_bytes

if TYPE_CHECKING:
    from convolver.machine.profile import MachineProfile
    from convolver.signature.signature import Signature
    from convolver.simulation.hit_rates import HitRates
    from convolver.simulation.object_hits import ObjectHits


def simulate_folder(
    folder: Path, machines: Sequence[MachineProfile], output: Path, jobs: int | None, dask: str | None, as_data: AsData
) -> None:
    """Simulate the traces of a folder into one table; print the totals per machine and level."""
    from convolver.fanout import dask_executor
    from convolver.simulation.many import simulate_many, totals_of, traces_in

    traces = traces_in(folder)
    with dask_executor(dask) as executor:
        table = simulate_many(traces, machines, output, executor=executor, jobs=jobs, progress=terminal_progress())
    say(f"{len(traces)} traces simulated.")
    rows, words = totals_of(table), ("machine", "level")
    if not as_data.printed(lambda: rows, lambda: rows):
        shown = grid(words, [title for title in (rows[0] if rows else ()) if title not in words])
        for row in rows:
            shown.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
        out().print(shown)
    wrote(output)


def default_output(trace: Path) -> Path:
    """Name of the hit rates of a trace: APP.cvt, or the folder APP, becomes APP.hits.parquet beside it."""
    trace = trace.resolve() if trace.is_dir() else trace
    return trace.with_name(trace.name.removesuffix(".cvt") + ".hits.parquet")


def objects_output(hits: Path) -> Path:
    """Name of the hits by data object: APP.hits.parquet has APP.object-hits.parquet beside it."""
    return hits.with_name(hits.name.removesuffix(".parquet").removesuffix(".hits") + ".object-hits.parquet")


def print_totals(rates: HitRates) -> None:
    """Print accesses, hits and misses per machine and level."""
    counts = ["accesses", "hits", "misses", "write-backs"]
    table = grid(["machine", "level"], [*counts, "hit rate", "cumulative", "sample", "error"])
    for machine in rates.machines:
        missing: float | None = 1.0  # share of the references that no level so far has served
        for level in rates.totals(machine):
            local = level["misses"] / level["accesses"] if level["accesses"] else None
            missing = None if local is None or missing is None else missing * local
            shown = [f"{level[name]:,}" for name in ("accesses", "hits", "misses", "write_backs")]
            shares = ["-" if share is None else f"{1 - share:.4f}" for share in (local, missing)]
            error = level.get("standard_error")
            sample = [level.get("sample", ""), "-" if error is None else f"{error:.4f}"]
            table.add_row(machine, level["level"], *shown, *shares, *sample)
    out().print(table)


def print_about(signature: Signature, machines: list[str]) -> None:
    """Print the metadata of a traced program on machines."""
    from convolver.reporting.metadata import about_program

    console = out()
    console.print(about_program(signature, ", ".join(machines)))
    console.print()


def changed_machines(names: list[str], pages: str | None, semantics: str | None) -> list[MachineProfile]:
    """Find machines by name or path and give them other pages or semantics."""
    from convolver.machine.catalog import find_machine

    changes: dict[str, Any] = {"page_bytes": parse_bytes(pages)} if pages else {}
    if semantics:
        changes["semantics"] = semantics
    found = [find_machine(name) for name in names]
    if pages and not any(machine.tlb for machine in found):
        raise UsageError('--page-size changes nothing, since no machine has a TLB; give one a "tlb" or leave the option out.')
    return [msgspec.structs.replace(machine, **changes) for machine in found]


def verb(
    trace: Annotated[Path, typer.Argument(help="Trace written by `convolver trace`, or a folder of them.", show_default=False)],
    machine: Annotated[
        list[str],
        typer.Option(
            "-m",
            "--machine",
            help="Name of a machine or path of its profile; repeat for more.",
            show_default=False,
            autocompletion=completing.machines,
        ),
    ],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write; default: APP.hits.parquet.")] = None,
    jobs: Jobs = None,
    dask: Dask = None,
    causes: Annotated[bool, typer.Option("--causes", help="Tell misses by cause (slower).")] = False,
    pages: Annotated[
        Literal["4K", "2M", "1G"] | None, typer.Option("--page-size", help="Size of the program's pages.", show_default=False)
    ] = None,
    semantics: Annotated[
        Literal["write-back", "no-write-backs", "cachegrind", "pycachesim"] | None,
        typer.Option(help="What a write does, as in another simulator.", show_default=False),
    ] = None,
    lines: Annotated[int, typer.Option(min=0, help="Source lines with the most misses to show.")] = 0,
    by: Annotated[
        Literal["block", "object"],
        typer.Option(help="object: also tell what each data object has of the counts, of a trace with --data-objects."),
    ] = "block",
    as_data: AsData = AsData(),
    force: Force = False,
) -> None:
    """Simulate the caches of machines on a recorded trace, all in one pass, and write hits per block and level.

    \b
    Examples:
      convolver simulate app.cvt -m host -m server-hbm
      convolver simulate app.cvt -m my.machine.json -o my.hits.parquet --json
      convolver simulate app.cvt -m host --causes --lines 10
      convolver simulate app.cvt -m host --by object
      convolver simulate ranks/ -m host -m server-hbm -o ranks.parquet --jobs 8

    A folder's traces are simulated side by side, by processes or --dask workers; the same command goes on after an interruption.
    """
    from convolver.simulation.detailed import Details
    from convolver.simulation.one_pass import simulate, simulate_objects
    from convolver.tracing.reader import Trace

    path = new_file(output or default_output(existing(trace)), force)
    machines = changed_machines(machine, pages, semantics)
    if trace.is_dir():
        if causes or lines or by == "object":
            raise UsageError("--causes, --lines and --by object are for one trace; leave them out for a folder.")
        simulate_folder(trace, machines, path, jobs, dask, as_data)
        return
    if dask:
        raise UsageError(f"{trace} is one trace; --dask runs the traces of a folder.")
    recorded = Trace.load(trace)
    options: dict[str, Any] = {"details": Details(causes=causes), "jobs": jobs or 1, "progress": terminal_progress()}
    if by == "object":
        objects_path = new_file(objects_output(path), force)
        rates, objects = simulate_objects(recorded, machines, **options)
        rates.save(path)
        objects.save(objects_path)
        _show_objects(recorded.signature, objects, as_data)
        wrote(path)
        wrote(objects_path)
        return
    rates = simulate(recorded, machines, **options)
    rates.save(path)
    _show_rates(recorded.signature, rates, lines, as_data)
    wrote(path)


def _show_rates(signature: Signature, rates: HitRates, lines: int, as_data: AsData) -> None:
    from convolver.reporting.cache_details import line_rows, print_details, print_lines

    found = rates.summary()["machines"]
    if lines:
        found = [{**one, "lines": line_rows(signature, rates, one["machine"], lines)} for one in found]
    rows = [{"machine": one["machine"], **level} for one in found for level in one["levels"]]
    if not as_data.printed(lambda: found, lambda: rows):
        print_about(signature, rates.machines)
        print_totals(rates)
        print_details(rates)
        if lines:
            print_lines(signature, rates, lines)
        say(f"{rates.references:,} references simulated.")


def _show_objects(signature: Signature, objects: ObjectHits, as_data: AsData) -> None:
    from convolver.reporting.cache_details import hits_table

    if not as_data.printed(lambda: objects.by_object().to_dicts()):
        print_about(signature, objects.machines)
        for machine in objects.machines:
            out().print(hits_table(objects, machine))

"""``convolver explore``: what if one cache level were larger, wider or replaced otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from convolver.cli import completing
from convolver.cli.common import AsData, Force, existing, new_file, wrote
from convolver.errors import ConvolverError, HierarchyError, UsageError
from convolver.progress import Progress
from convolver.reporting.console import out, terminal_progress
from convolver.reporting.grid import grid
from convolver.units import format_seconds, parse_bytes, parse_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convolver.machine.profile import MachineProfile
    from convolver.simulation.targets import Target
    from convolver.tracing.reader import Trace


def _list(text: str | None, parse: Callable[[str], Any]) -> list[Any]:
    return [parse(word.strip()) for word in text.split(",") if word.strip()] if text else []


def _print_table(rows: list[dict[str, Any]]) -> None:
    table = grid(["variant"], [*(f"misses {level}" for level in rows[0]["missing"]), "to memory, relative", "time"])
    base = rows[0]["memory"]
    for row in rows:
        shares = ["-" if share is None else f"{share:.5f}" for share in row["missing"].values()]
        relative = f"{row['memory'] / base:.3f}" if base and row["memory"] is not None else "-"
        seconds = "-" if row["seconds"] is None else format_seconds(row["seconds"])
        table.add_row(row["machine"], *shares, relative, seconds)
    out().print(table)


def _seconds(trace: Trace, machine: MachineProfile, variants: Sequence[Target], progress: Progress) -> dict[str, float]:
    """Return the predicted time on each variant; without those that cannot be predicted: of a profile without curves, of a trace
    without its signature, of levels with a prefetcher, which the machine's coefficients hold already."""
    from convolver.analyzing.analyze import analyze
    from convolver.convolution.convolve import convolve

    profiles = [replace(machine, name=one.name, hierarchy=one.hierarchy) for one in variants]
    known = [one for one in profiles if one.maps and not any(level.prefetcher for level in one.hierarchy)]
    try:
        analysis = analyze(trace, known, progress=progress) if known else None
        return {} if analysis is None else {one.name: convolve(analysis, one).total[0] for one in known}
    except ConvolverError:
        return {}


def verb(
    trace: Annotated[Path, typer.Argument(help="Trace written by `convolver trace`.", show_default=False)],
    machine: Annotated[
        str,
        typer.Option(
            "-m", "--machine", help="Machine to vary: name or path.", show_default=False, autocompletion=completing.machines
        ),
    ],
    level: Annotated[str, typer.Option("--level", help="Level to vary, for example L2.", show_default=False)],
    sizes: Annotated[str | None, typer.Option(help="Capacities, for example 512K,1M,2M.", show_default=False)] = None,
    ways: Annotated[str | None, typer.Option(help="Associativities, for example 8,16.", show_default=False)] = None,
    policies: Annotated[str | None, typer.Option(help="Policies, for example lru,srrip.", show_default=False)] = None,
    inclusions: Annotated[
        str | None, typer.Option(help="For example non-inclusive,inclusive,victim.", show_default=False)
    ] = None,
    prefetchers: Annotated[str | None, typer.Option(help="For example none,next-line,stride,stream.", show_default=False)] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write the hit rates, for `convolver plot misses`.")
    ] = None,
    as_data: AsData = AsData(),
    force: Force = False,
) -> None:
    """Simulate variants of one cache level of a machine on a recorded trace, all in one pass.

    \b
    Examples:
      convolver explore app.cvt -m host --level L2 --sizes 1M,2M,4M
      convolver explore app.cvt -m host --level L3 --ways 8,16 --policies lru,srrip --json
      convolver explore app.cvt -m host --level L2 --prefetchers none,stream --inclusions non-inclusive,inclusive
    """
    from convolver.cli.simulate import print_about
    from convolver.machine.catalog import find_machine
    from convolver.simulation.level_variants import compared, variants
    from convolver.simulation.one_pass import simulate
    from convolver.tracing.reader import Trace

    path = new_file(output, force) if output else None
    asked: dict[str, Any] = {"sizes": _list(sizes, parse_bytes), "ways": _list(ways, parse_count)}
    words = {"policies": policies, "inclusions": inclusions, "prefetchers": prefetchers}
    asked |= {name: _list(text, str.lower) for name, text in words.items()}
    if not any(asked.values()):
        raise UsageError("Nothing varies; give --sizes, --ways, --policies, --inclusions or --prefetchers.")
    existing(trace)
    varied = find_machine(machine)
    try:
        machines = variants(varied, level, **asked)
    except HierarchyError as error:  # what was asked for, not what a file says
        raise UsageError(str(error)) from error
    recorded = Trace.load(trace)
    progress = terminal_progress()
    rates = simulate(recorded, machines, progress=progress)
    if path:
        rates.save(path)
    seconds = _seconds(recorded, varied, machines, progress)
    rows = [{**row, "seconds": seconds.get(row["machine"])} for row in compared(rates)]
    if not as_data.printed(lambda: rows):
        print_about(recorded.signature, [varied.name])
        _print_table(rows)
    if path:
        wrote(path)

"""``convolver report``: everything about one program, on the terminal or as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convolver.cli.common import AsData, Force, new_file, wrote
from convolver.errors import UsageError
from convolver.outputs import save_text
from convolver.reporting.console import out

if TYPE_CHECKING:
    from convolver.reporting.report_input import Bundle

KERNEL = "(system time)"
"""Stands for a function in the row of ``--csv`` that no block has."""


def verb(
    inputs: Annotated[list[str], typer.Argument(metavar="FOLDER | FILE...", help="Artifacts of one program.")],
    html: Annotated[Path | None, typer.Option("--html", help="Write one self-contained HTML page.")] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="Print the source file whose path ends so, line by line.")
    ] = None,
    sources: Annotated[
        list[Path] | None,
        typer.Option("--sources", help="Folder of source files; repeatable. Default: the command's, if traced here."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=0, help="Rows to show.")] = 10,
    force: Force = False,
    as_data: AsData = AsData(),
) -> None:
    """Show a predicted program: times, hot blocks, hot functions, sources; with --html as one self-contained page.

    Takes the folder that `convolver predict -o FOLDER` filled, or single artifacts: the signature, block times (the base first),
    predictions, a replay's timeline, data objects and their hits, machine profiles by file or name.

    \b
    Examples:
      convolver report run/ --html cg.html
      convolver report cg.sig.parquet cg@host.times.parquet host.machine.json --source cg.c
    """
    from convolver.reporting.report_input import gather

    if html is not None:
        new_file(html, force)
    bundle = gather(inputs, sources or [])
    if html is not None:
        from convolver.reporting.html.page import render

        save_text(html, render(bundle))
        wrote(html)
        return
    if as_data.printed(lambda: document(bundle, top), lambda: _rows(bundle)):
        return
    if source is not None:
        _print_source(bundle, source)
    else:
        _print(bundle, top)


def document(bundle: Bundle, top: int) -> dict[str, Any]:
    """Return what ``--json`` prints: the signature's summary, and by machine its times with hot blocks and functions."""
    from convolver.plotting.elapsed_curves import core_curves
    from convolver.reporting.program_report import totals

    machines = [
        {
            **one.summary(),
            **totals(one, bundle.base),
            "blocks": one.table.head(top).to_dicts(),
            "functions": one.by_function().head(top).to_dicts(),
        }
        for one in bundle.times
    ]
    objects = {
        "data_objects": None if bundle.objects is None else bundle.objects.summary()["objects"][:top],
        "object_hits": None if bundle.object_hits is None else bundle.object_hits.by_object().to_dicts(),
    }
    scaling = {name: side["scaling"] for name, side in core_curves(bundle.predictions).items()}
    return {"signature": bundle.signature.summary(), "machines": machines, "scaling": scaling, **objects, "notes": bundle.notes}


def _rows(bundle: Bundle) -> list[dict[str, Any]]:
    """Every block on every machine, for ``--csv``, and in a row without a block its system time, where that is known."""
    rows: list[dict[str, Any]] = []
    for times in bundle.times:
        rows += [{"machine": times.machine, **row} for row in times.table.iter_rows(named=True)]
        if times.system is not None:
            nothing = dict.fromkeys(times.table.columns)
            rows.append({**nothing, "machine": times.machine, "function": KERNEL, "seconds": times.system.seconds})
    return rows


def _print(bundle: Bundle, top: int) -> None:
    from convolver.reporting.limiters import limits_chart, sentence
    from convolver.reporting.metadata import about_program, machine_names
    from convolver.reporting.program_report import by_machine, hot_functions, no_system_time, threshold
    from convolver.reporting.tables import hot_blocks

    console = out()
    names = machine_names(bundle.times)
    known = {"coverage": bundle.base.coverage, "measured_seconds": bundle.measured_seconds}
    method = str(bundle.base.header.get("method"))
    console.print(about_program(bundle.signature, names, title="Program", method=method, **known))
    console.print()
    for times in bundle.times[:1]:
        console.print(sentence(times), style="bold")
        console.print()
        console.print(limits_chart(times))
        console.print()
        console.print(hot_blocks(times, top))
        console.print(threshold(times, top), style="dim")
        console.print()
        console.print(hot_functions(times, top))
        console.print()
    console.print(by_machine(bundle.times))
    _print_over_cores(bundle)
    for note in no_system_time((one.machine, (one.header.get("system") or {}).get("note")) for one in bundle.times):
        console.print(note)
    console.print()
    _print_objects(bundle, top)


def _print_over_cores(bundle: Bundle) -> None:
    """Print elapsed times over cores, and why they stop to fall, where the predictions have some."""
    from convolver.plotting.elapsed_curves import core_curves
    from convolver.reporting.limiters import cores_sentence
    from convolver.reporting.tables import elapsed_times

    curves = core_curves(bundle.predictions)
    if curves:
        out().print()
        out().print(elapsed_times(list(curves.values())))
    for name, side in curves.items():
        out().print(cores_sentence(name, side["scaling"]), soft_wrap=True)


def _print_objects(bundle: Bundle, top: int) -> None:
    from convolver.reporting.cache_details import hits_table, objects_table
    from convolver.signature.data_objects import HOW_TO

    console = out()
    if bundle.objects is None:
        console.print(f"Data objects: not known. {HOW_TO}")
        return
    console.print(objects_table(bundle.objects, top))
    for machine in bundle.object_hits.machines if bundle.object_hits else []:
        console.print()
        console.print(hits_table(bundle.object_hits, machine, top))  # type: ignore[arg-type]


def _print_source(bundle: Bundle, wanted: str) -> None:
    from convolver.reporting.program_report import annotated, hot_files, read_source

    named = set(bundle.signature.table["file"])
    known = [file for file in hot_files(bundle.times, 0.0) if file in named]
    path = next((path for path in known if path.endswith(wanted)), None)
    if path is None:
        names = ", ".join(Path(path).name for path in known[:5]) or "none; compile with -g"
        raise UsageError(f"No block has a source file that ends in '{wanted}'; the hottest are: {names}.")
    read = read_source(path, bundle.signature_path.stat().st_mtime, bundle.roots)
    if read.problem:
        raise UsageError(f"{path}: {read.problem}")
    console = out()
    if read.newer:
        console.print(f"{path} is newer than the trace: lines may have moved.", style="yellow")
    console.print(annotated(bundle.base, read, console.width))

"""``convolver model points``: which smaller workload to measure for a target, and how near measured ones come to it (P3S)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from convolver.cli.common import Csv, Json, printed
from convolver.cli.model_scale import Point, Size, Traces, scalable_of
from convolver.errors import UsageError
from convolver.reporting.console import out
from convolver.reporting.grid import grid
from convolver.units import format_count, format_seconds

SHOWN = 0.01
"""Least share of the computation that gets a row on the terminal; --json and --csv hold all."""


def points_command(
    traces: Traces,
    at: Annotated[int, typer.Option("--at", help="Process count to predict.", min=1)],
    measured_on: Annotated[
        int | None, typer.Option("--on", help="Processes that you can measure: says the similar size.", min=1)
    ] = None,
    dimensions: Annotated[int, typer.Option(help="Sides of the domain that shrink together.", min=1, max=3)] = 3,
    size: Size = None,
    point: Point = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Say which smaller workload to measure on few processes, and how near measured ones come to the target (P3S).

    A process of it shall execute what one of the target will. --size and --on give the first guess; count it, time it
    a few times, give the traces as --point and see how far its instructions are from the target's.

    \b
    Examples:
      convolver model points bt.4.parquet bt.9.parquet bt.16.parquet --at 64 --size 64 --on 4
      convolver model points cg.2.parquet cg.4.parquet cg.8.parquet --at 32 --point s.2.parquet,s.2.a.mpi,s.2.b.mpi
    """
    from convolver.modeling.p3s.workload import between_points, compared_points, phase_works, similar_side

    if point is None and (measured_on is None or not size):
        raise UsageError("Nothing to say: give --on PROCESSES and --size N for a workload to measure, or measured --point.")
    scalable, rates = scalable_of(traces, size, point)
    document: dict[str, Any] = {"processes": at, "instructions": scalable.instructions(at)}
    if measured_on is not None:
        document["on"] = measured_on
        document["similar_sides"] = [similar_side(side, at, measured_on, dimensions) for side in size or ()]
    if rates is not None:
        compared, rows = compared_points(scalable, at, rates), phase_works(scalable, at, rates)
        document["points"] = [asdict(one) for one in compared]
        document["between_points"] = between_points(compared)
        document["seconds"] = sum(row.seconds for row in rows)
        document["operations"] = [asdict(row) for row in rows]
    if not printed(json, csv, lambda: document, lambda: document.get("points") or [document]):
        _print(document)


def _print(document: dict[str, Any]) -> None:
    console = out()
    said = f"A process of {document['processes']} executes {format_count(document['instructions'])} instructions"
    if document.get("similar_sides"):
        listed = ", ".join(f"{side:.4g}" for side in document["similar_sides"])
        said += f"; one of {document['on']} does about as much with size {listed}"
    console.print(f"{said}.")
    if "points" in document:
        _print_points(document)
        standing = "" if document["between_points"] else "; no point stands for it: measure one that is nearer"
        console.print(f"Computation of a process: {format_seconds(document['seconds'])}{standing}.")


def _print_points(document: dict[str, Any]) -> None:
    console = out()
    table = grid([], ["point, ranks", "instructions", "difference", "ps an instruction"])
    for one in document["points"]:
        away = f"{100 * one['difference']:+.1f} %"
        rate = f"{1e12 * one['seconds_per_instruction']:.4g}"
        table.add_row(str(one["ranks"]), format_count(one["instructions"]), away, rate)
    console.print(table)
    console.print()
    table = grid(["before", "partner", "turn"], ["times", "instructions", "seconds", "share", "measured"])
    for row in (row for row in document["operations"] if row["share"] >= SHOWN):
        numbers = (f"{row['times']:.6g}", format_count(row["instructions"]), format_seconds(row["seconds"]))
        words = (f"{100 * row['share']:.1f} %", "yes" if row["measured"] else "no")
        table.add_row(row["operation"], row["partner"], row["turn"], *numbers, *words)
    console.print(table)

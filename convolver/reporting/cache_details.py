"""Cache simulations on the terminal beyond hits and misses: bytes moved, prefetchers, causes, TLBs, source lines, objects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver.reporting.console import out
from convolver.reporting.grid import WIDEST, Table, grid, percent
from convolver.simulation.detailed import CAUSES
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.misses import line_misses, mpki, traffic
from convolver.units import format_bytes, format_count

if TYPE_CHECKING:
    from convolver.signature.data_objects import DataObjects
    from convolver.signature.signature import Signature
    from convolver.simulation.object_hits import ObjectHits


_EVENTS = ("writes_through", "castouts", "back_invalidations", "prefetches")


def _level_rows(rates: HitRates, machine: str) -> list[dict[str, Any]]:
    return [{**total, **moved} for total, moved in zip(rates.totals(machine), traffic(rates, machine), strict=True)]


def print_details(rates: HitRates) -> None:
    """Print what moved between the levels, what prefetchers did, why accesses missed and what the TLBs missed."""
    rows = {machine: _level_rows(rates, machine) for machine in rates.machines}
    events = [name for name in _EVENTS if any(row.get(name) for levels in rows.values() for row in levels)]
    shares = ["accuracy", "coverage"] if "prefetches" in events else []
    table = grid(["machine", "level"], ["read", "written", *(name.replace("_", " ") for name in events), *shares])
    for machine, levels in rows.items():
        for row in levels:
            counts = ["" if row.get(name) is None else format_count(row[name]) for name in events]
            moved = [format_bytes(row["bytes_read"]), format_bytes(row["bytes_written"])]
            table.add_row(machine, row["level"], *moved, *counts, *(percent(row[name]) for name in shares))
    out().print(table)
    _print_causes(rows)
    _print_tlbs(rates)


def _print_causes(rows: dict[str, list[dict[str, Any]]]) -> None:
    table = grid(["machine", "level"], ["misses", *CAUSES])
    for machine, levels in rows.items():
        for row in (row for row in levels if all(cause in row for cause in CAUSES)):
            shares = [percent(row[cause] / row["misses"] if row["misses"] else None) for cause in CAUSES]
            table.add_row(machine, row["level"], f"{row['misses']:,}", *shares)
    if table.row_count:
        out().print(table)


def _print_tlbs(rates: HitRates) -> None:
    table = grid(["machine", "TLB"], ["pages", "accesses", "misses", "hit rate"])
    for machine in rates.machines:
        for row in rates.tlb_totals(machine):
            share = row["hits"] / row["accesses"] if row["accesses"] else None
            counts = [f"{row[name]:,}" for name in ("accesses", "misses")]
            table.add_row(machine, row["level"], format_bytes(row["page_bytes"]), *counts, percent(share))
    if table.row_count:
        out().print(table)


def line_rows(signature: Signature, rates: HitRates, machine: str, count: int) -> list[dict[str, Any]]:
    """Return the source lines with the most misses of the last level, at most ``count``."""
    return line_misses(signature, rates, machine).head(count).to_dicts()


def print_lines(signature: Signature, rates: HitRates, count: int) -> None:
    """Print misses per thousand instructions of each machine, and its source lines with the most misses."""
    for machine in rates.machines:
        whole = mpki(signature, rates, machine)
        parts = [f"{level} {value:.3f}" for level, value in whole.items() if value is not None]
        out().print(f"{machine}: misses per thousand instructions: {', '.join(parts)}")
        table = grid(["function", "line"], ["instructions", *(f"misses {level}" for level in whole)], widest=WIDEST)
        for row in line_rows(signature, rates, machine, count):
            where = f"{Path(row['file']).name}:{row['line']}" if row["file"] else "?"
            misses = [format_count(round(row[level])) for level in whole]
            table.add_row(row["function"] or "?", where, format_count(row["instructions"]), *misses)
        out().print(table)


COUNT = 15
"""Rows shown unless asked otherwise."""


def objects_table(objects: DataObjects, count: int = COUNT) -> Table:
    """Return the data objects that are referred to most: kind, size, references and their share."""
    table = grid(
        ["data object", "kind"], ["peak", "placed", "accesses", "loads", "share"], title="Data objects", widest=WIDEST + 14
    )
    rows = objects.by_object()
    for row in rows.head(count).iter_rows(named=True):
        loads = row["loads"] / row["references"] if row["references"] else None
        table.add_row(
            row["label"],
            row["kind"],
            format_bytes(row["peak_bytes"]),
            format_count(row["places"]),
            format_count(round(row["memops"])),
            percent(loads),
            percent(row["share"]),
        )
    shown = percent(float(rows["share"].head(count).sum()))
    table.caption = f"{shown} of the memory accesses shown; {percent(objects.attributed_share)} are in blocks with a recorded one"
    return table


def hits_table(objects: ObjectHits, machine: str, count: int = COUNT) -> Table:
    """Return the data objects with the most misses on a machine: accesses, and by level miss rate and share of all misses."""
    levels = objects.levels(machine)
    heads = ["peak", "accesses", *(f"{level} missed" for level in levels), *(f"{level} share" for level in levels)]
    table = grid(["data object", "kind"], heads, title=f"Data objects on {machine}", widest=WIDEST + 14)
    rows = objects.by_object().filter(machine=machine)
    last = rows.filter(level=levels[-1])
    for number in last["object"].head(count).to_list():
        of_level = {row["level"]: row for row in rows.filter(object=number).iter_rows(named=True)}
        first = of_level[levels[0]]
        rates = [of_level[level]["miss_rate"] if level in of_level else None for level in levels]
        shares = [of_level[level]["miss_share"] if level in of_level else None for level in levels]
        table.add_row(
            first["label"],
            first["kind"],
            format_bytes(first["peak_bytes"]),
            format_count(first["accesses"]),
            *map(percent, rates),
            *map(percent, shares),
        )
    whole = int(last["misses"].sum())
    shown = percent(int(last["misses"].head(count).sum()) / whole if whole else None)
    table.caption = (
        f"missed: part of the object's accesses of the level; share: of all misses of the level; {shown} of {levels[-1]}'s shown"
    )
    return table

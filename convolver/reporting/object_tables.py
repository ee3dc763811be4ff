"""Data objects on a terminal: what a program refers to, and what of it misses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convolver.reporting.grid import WIDEST, Table, grid, percent
from convolver.units import format_bytes, format_count

if TYPE_CHECKING:
    from convolver.signature.data_objects import DataObjects
    from convolver.simulation.object_hits import ObjectHits

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

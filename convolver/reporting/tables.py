"""The tables that ``predict``, ``ratio`` and ``info`` show on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convolver.convolution.block_times import HIT_RATE, BlockTimes
from convolver.convolution.verdict import from_to, seconds_from_to, verdict
from convolver.heavy import pl
from convolver.plotting.labels import machine_label, place
from convolver.reporting.grid import WIDEST, Table, grid, percent
from convolver.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from convolver.convolution.cpu_ratio import CpuRatio


FASTEST = 1e11
"""No core carries out so many references in a second: a higher rate only says that a block's references cost next to nothing."""


def rate(references_per_second: float | None) -> str:
    """Return a memory rate, or that it is beyond any machine's; a dash where there is none."""
    if not references_per_second:
        return "-"
    return f"> {format_count(FASTEST)}" if references_per_second > FASTEST else format_count(references_per_second)


def hot_blocks(times: BlockTimes, count: int = 10) -> Table:
    """Return the blocks that take the most time: where they are, what they do, where their references fall."""
    levels = times.levels
    from convolver.reporting.limiters import limited_by

    heads = ["accesses", *levels, "data set", "rate /s", "seconds", "share", "limited by"]
    table = grid(["function", "line"], heads, f"Hot blocks on {times.machine}", WIDEST)
    for number, row in enumerate(times.table.head(count).iter_rows(named=True)):
        table.add_row(
            row["function"] or "?",
            place(row),
            format_count(row["memops"]),
            *(percent(row[HIT_RATE + level]) for level in levels),
            row["data_set_location"] or ("(not sampled)" if row["extrapolated"] else "-"),
            rate(row["memory_rate"]),
            format_seconds(row["seconds"]),
            percent(row["seconds"] / times.seconds if times.seconds else 0.0),
            limited_by(times.table[number : number + 1]),
        )
    return table


def predictions(documents: Sequence[Mapping[str, Any]]) -> Table:
    """Return one answer a machine, the base first; ``documents`` are predictions with one base.

    ``time`` is measured / CPU ratio where the base's time was measured, else the prediction; the prediction, and the system time
    in it, stand after.
    """
    heads = ["time", "90 % interval", "CPU ratio", "90 % interval", "target is", "predicted", "system"]
    table = grid(["machine"], heads, "Predicted times")
    table.columns[1].style = "bold"
    first = documents[0]
    measured = first["measured_seconds"]
    own = (first["base"]["seconds"], first["base"]["interval_seconds"]) if measured is None else (measured, None)
    _add(table, first["base"], own, "1", "-", "measured" if measured is not None else "the base")
    for document in documents:
        side = document["target"]
        if side["machine"] == first["base"]["machine"]:
            continue
        scaled = (side["scaled_seconds"], side["scaled_interval_seconds"])
        answer = (side["seconds"], side["interval_seconds"]) if scaled[0] is None else scaled
        ends = document["cpu_ratio_interval"]
        _add(table, side, answer, f"{document['cpu_ratio']:.3g}", from_to(ends), verdict(ends))
    return table


def elapsed_rows(side: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the elapsed times of a prediction's machine: of each number of cores that was asked for, else the usual one's."""
    return side.get("scaling") or ([side["elapsed"]] if "elapsed" in side else [])


ELAPSED = ("machine", "threads", "cores", "elapsed", "90 % interval", "measured", "speedup", "limited by")
"""Heads of :func:`elapsed_cells`."""


def elapsed_cells(sides: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Return the elapsed times of a program with several threads: one row a machine, or one a number of cores."""
    return [
        [
            machine_label(side["machine"], side["projected"]),
            str(row["threads"]),
            str(row["cores"]),
            format_seconds(row["seconds"]),
            seconds_from_to(row["interval_seconds"]),
            _measured_beside(row),
            f"{row['speedup']:.2f}",
            row["limit"],
        ]
        for side in sides
        for row in elapsed_rows(side)
    ]


def elapsed_times(sides: Iterable[Mapping[str, Any]]) -> Table:
    """Return a terminal's table of :func:`elapsed_cells`."""
    table = grid(ELAPSED[:1], ELAPSED[1:], "Elapsed times")
    for cells in elapsed_cells(sides):
        table.add_row(*cells)
    return table


def _measured_beside(row: Mapping[str, Any]) -> str:
    """Return measured elapsed seconds, the error of the predicted ones and whether their interval misses them."""
    if row["measured_seconds"] is None:
        return "-"
    missed = "" if row["within_interval"] else ", outside"
    return f"{format_seconds(row['measured_seconds'])} ({row['error']:+.1%}{missed})".replace("%", " %")


def _add(table: Table, side: Mapping[str, Any], answer: tuple[float, Sequence[float] | None], *ratio: str) -> None:
    name = machine_label(side["machine"], side["projected"])
    system = "-" if side.get("system_seconds") is None else format_seconds(side["system_seconds"])
    seconds, ends = answer
    table.add_row(name, format_seconds(seconds), seconds_from_to(ends), *ratio, format_seconds(side["seconds"]), system)


def deciding(ratio: CpuRatio, by: str = "function") -> pl.DataFrame:
    """Return the functions or blocks of a ratio, those first that decide it: by falling size of their contribution."""
    rows = ratio.table if by == "block" else ratio.functions
    return rows.sort(pl.col("contribution").abs(), descending=True, maintain_order=True)


def ratios(ratio: CpuRatio, by: str = "function", count: int = 10) -> Table:
    """Return times and ratios of what decides the CPU ratio, with a line that says how much of it is shown."""
    from rich.text import Text

    rows = deciding(ratio, by)
    heads = [f"{ratio.base['machine']}", f"{ratio.target['machine']}", "ratio", "90 %", "adds"]
    table = grid(["function", "line" if by == "block" else "module"], heads, "What decides the ratio", WIDEST)
    for row in rows.head(count).iter_rows(named=True):
        shown = "-" if row["ratio"] is None else f"{row['ratio']:.3g}"
        seconds = [format_seconds(row[name]) for name in ("base_seconds", "target_seconds")]
        ends = None if row.get("low") is None else (row["low"], row["high"])
        where = place(row) if by == "block" else Path(row["module"]).name or "?"
        table.add_row(row["function"] or "?", where, *seconds, shown, from_to(ends), f"{row['contribution']:+.3f}")
    sizes = np.abs(rows["contribution"].to_numpy())
    share = float(sizes[:count].sum() / sizes.sum()) if sizes.any() else 1.0
    shown = f"{percent(share)} of what moves the ratio shown; all of it adds up to ratio - 1"
    table.caption = Text(shown, style="dim", no_wrap=True, overflow="ignore")
    return table


def key_values(title: str, pairs: Iterable[tuple[str, Any]]) -> Table:
    """Return names and values in two columns; nested values are shown as one line."""
    table = grid(["name"], title=title)
    table.add_column("value", overflow="fold")
    table.show_header = False
    for name, value in pairs:
        table.add_row(name, _plain(name, value))
    return table


def _plain(name: str, value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return format_seconds(value) if name.endswith("_seconds") or name == "seconds" else f"{value:.6g}"
    if isinstance(value, int):
        return f"{format_bytes(value)} ({value:,})" if name.endswith("_bytes") else f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(str(key), item)}" for key, item in value.items()) or "-"
    if isinstance(value, list | tuple):
        between = " to " if name.endswith("interval") or name.startswith("interval") else " "
        return between.join(_plain(name, item) for item in value) or "-"
    return str(value)


def frame(title: str, table: pl.DataFrame) -> Table:
    """Return a small data frame as a table, as it is."""
    shown = grid([], table.columns, title)
    for row in table.iter_rows():
        shown.add_row(*(f"{value:.4g}" if isinstance(value, float) else _plain("", value) for value in row))
    return shown

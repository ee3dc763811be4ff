"""One program on the terminal: its hot functions, its machines side by side, its source files line by line."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convolver.convolution.block_times import HIT_RATE, BlockTimes
from convolver.convolution.verdict import seconds_from_to
from convolver.heavy import pl
from convolver.plotting.labels import machine_label
from convolver.reporting.grid import WIDEST, Table, grid, percent
from convolver.reporting.limiters import limited_by
from convolver.units import format_count, format_seconds

LARGEST_BYTES = 1 << 20
"""Larger source files are not shown: they are generated."""


NO_ROOT = "Sources of traces made elsewhere are read below --sources FOLDER only."


@dataclass(frozen=True)
class Source:
    """A source file: its text, or why there is none, and whether it was changed after the program was traced."""

    path: str
    text: str
    newer: bool
    problem: str = ""


def by_line(times: BlockTimes) -> pl.DataFrame:
    """Return file, line, executions, memops, misses_LEVEL and seconds, summed over the blocks that begin on the line.

    Misses are accesses times simulated miss ratios; a block without a sample adds none. Blocks without a known line are left out.
    """
    misses = [
        (pl.col("memops") * (1 - pl.col(HIT_RATE + level).fill_null(1.0))).alias(f"misses_{level}") for level in times.levels
    ]
    known = times.table.filter((pl.col("file") != "") & (pl.col("line") > 0)).with_columns(misses)
    sums = ["executions", "memops", *(f"misses_{level}" for level in times.levels), "seconds"]
    return known.group_by("file", "line").agg(pl.col(sums).sum()).sort("file", "line")


def hot_files(times: Sequence[BlockTimes], least_share: float = 1e-4) -> list[str]:
    """Return the source files with at least this share of the time on any of the machines, the hottest first."""
    best: dict[str, float] = {}
    for one in times:
        sums = one.table.filter(pl.col("file") != "").group_by("file").agg(pl.col("seconds").sum())
        for file, seconds in sums.iter_rows():
            best[file] = max(best.get(file, 0.0), seconds / (one.seconds or 1.0))
    return [file for file, share in sorted(best.items(), key=lambda item: -item[1]) if share >= least_share]


def read_source(path: str, traced_at: float, roots: Sequence[Path]) -> Source:
    """Return a source file that lies below one of ``roots``; ``traced_at``: when the program was traced, seconds since the epoch.

    The name comes from the traced program, so whoever made that chose it: links are followed, and what then lies elsewhere, in
    a hidden folder, is no regular file, is large or is no text has its reason in ``problem`` in place of its text.
    """
    real = Path("/" if "\0" in path else os.path.realpath(path))  # no file has a name with a zero byte
    root = next((root for root in roots if real.is_relative_to(root)), None)
    if root is None:
        return Source(path, "", False, NO_ROOT if not roots else "The file lies outside the folders that sources are read from.")
    if any(part.startswith(".") for part in real.relative_to(root).parts):
        return Source(path, "", False, "The file is hidden and is left out.")
    try:
        handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return Source(path, "", False, "It is no regular file and is left out.")
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        return Source(path, "", False, f"The file cannot be read here: {error.strerror or error}.")
    if len(data) > LARGEST_BYTES or b"\0" in data:
        why = "larger than 1 MiB" if len(data) > LARGEST_BYTES else "no text"
        return Source(path, "", False, f"The file is {why} and is left out.")
    return Source(path, data.decode(errors="replace"), status.st_mtime > traced_at)


def threshold(times: BlockTimes, count: int) -> str:
    """Return which share of memory accesses and time the hottest ``count`` blocks hold."""
    shown = times.table.head(count)
    memops, whole = int(shown["memops"].sum()), int(times.table["memops"].sum())
    share = float(shown["seconds"].sum()) / times.seconds if times.seconds else 0.0
    counted = f"{min(count, times.table.height)} of {times.table.height} blocks"
    return f"{counted}: {percent(share)} of the time, {percent(memops / whole if whole else 0.0)} of the memory accesses shown"


def hot_functions(times: BlockTimes, count: int) -> Table:
    """Return the functions that take the most time."""
    table = grid(
        ["function", "module"], ["accesses", "seconds", "share", "limited by"], f"Hot functions on {times.machine}", WIDEST
    )
    for function, module, memops, seconds in times.by_function().head(count).iter_rows():
        share = percent(seconds / times.seconds if times.seconds else 0.0)
        rows = times.table.filter(pl.col("function").eq_missing(function) & pl.col("module").eq_missing(module))
        names = (function or "?", Path(module).name or "?")
        table.add_row(*names, format_count(memops), format_seconds(seconds), share, limited_by(rows))
    return table


def by_machine(all_times: Sequence[BlockTimes]) -> Table:
    """Return predicted time, its interval, user and system time and hit rates of every machine, side by side."""
    levels = list(dict.fromkeys(level for times in all_times for level in times.levels))
    heads = ["predicted", "90 % interval", "user", "system", *(f"{level} hits" for level in levels), "CPU ratio"]
    table = grid(["machine"], heads, "Machines", WIDEST)
    for times in all_times:
        whole, low, high = times.total
        ratio = all_times[0].ratio_to(times)
        served = [percent(served_by(times, level)) for level in levels]
        system = "-" if times.system is None else format_seconds(times.system.seconds)
        spent = [format_seconds(whole), seconds_from_to((low, high)), format_seconds(times.seconds), system]
        name = machine_label(times.machine, bool(times.header.get("projected")))
        table.add_row(name, *spent, *served, "-" if ratio is None else f"{ratio:.3g}")
    return table


def no_system_time(notes: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return one sentence for each reason why system time is not predicted, with the machines, from pairs of machine and reason
    (None: it is predicted)."""
    found: dict[str, list[str]] = {}
    for machine, note in notes:
        if note:
            found.setdefault(note, []).append(machine)
    return [f"For {', '.join(machines)} {note}." for note, machines in found.items()]


def totals(times: BlockTimes, base: BlockTimes) -> dict[str, Any]:
    """Return the predicted time of a machine as a prediction says it: user and system time, together and each, with intervals."""
    whole, low, high = times.total
    system = times.system
    return {
        "seconds": whole,
        "interval_seconds": [low, high],
        "user_seconds": times.seconds,
        "system_seconds": None if system is None else system.seconds,
        "system_interval_seconds": None if system is None else [system.low, system.high],
        "cpu_ratio": base.ratio_to(times),
    }


def served_by(times: BlockTimes, level: str) -> float | None:
    """Return the share of the accesses of sampled blocks that a level or a nearer one serves; None where it has no such level."""
    column = f"hit_rate_{level}"
    if column not in times.table.columns:
        return None
    known = times.table.filter(times.table[column].is_not_null())
    memops = int(known["memops"].sum())
    return float((known[column] * known["memops"]).sum()) / memops if memops else None


LINE_WIDTH, COST_WIDTH = 5, 9


def annotated(times: BlockTimes, source: Source, width: int) -> Table:
    """Return a source file with the costs of each line on a machine; its lines are cut so that the table is this wide."""
    from rich.text import Text

    costs = {row["line"]: row for row in by_line(times).filter(pl.col("file") == source.path).iter_rows(named=True)}
    heads = ["line", "accesses", *(f"{level} miss." for level in times.levels), "seconds", "share"]
    table = grid([], heads, f"{source.path} on {times.machine}")
    for column in table.columns:
        column.width = LINE_WIDTH if column.header == "line" else COST_WIDTH
    left = max(20, width - LINE_WIDTH - 2 - (COST_WIDTH + 2) * (len(heads) - 1))
    table.add_column("source", no_wrap=True, overflow="crop")
    for number, text in enumerate(source.text.splitlines(), 1):
        row = costs.get(number)
        cells = [""] * (len(times.levels) + 3)
        if row is not None:
            share = row["seconds"] / times.seconds if times.seconds else 0.0
            misses = [format_count(row[f"misses_{level}"]) for level in times.levels]
            cells = [
                format_count(row["memops"]),
                *misses,
                format_seconds(row["seconds"]),
                percent(share) if share >= 5e-4 else "",
            ]
        table.add_row(str(number), *cells, Text(text.expandtabs(4)[:left]))
    return table

"""What limits a program, in words and bars: the causes of its time, and of its hottest line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convolver.analyzing.core_causes import PORT
from convolver.convolution.limit_shares import BANDWIDTH, KERNEL, LATENCY, LIMIT, PORTS, WAITING, busy_ports, grouped
from convolver.heavy import pl
from convolver.reporting.grid import Table, grid, percent
from convolver.units import counted, format_seconds

if TYPE_CHECKING:
    from convolver.convolution.block_times import BlockTimes

LABELS = {
    "front_end": "front end",
    "branches": "mispredicted branches",
    "width": "issue width",
    "dependent": "dependent arithmetic",
    BANDWIDTH: "memory bandwidth",
    LATENCY: "memory latency",
    "page_walks": "page walks",
    KERNEL: "kernel",
    WAITING: "waiting (measured)",
}
"""By name of a cause; levels have their own names, ports are listed."""
LEAST = 0.005
"""Share of the time below which a cause is not shown."""
LEAST_GAIN = 0.05
"""Share of the elapsed time that more cores must save to be worth a word."""
HOT = 0.1
"""Share of the time from which a line is worth a sentence."""
WIDTH = 40


def label(cause: str, rows: pl.DataFrame) -> str:
    """Return a cause in words; ``rows`` of block times say which ports."""
    if cause != PORTS:
        return LABELS.get(cause, cause)
    names = busy_ports(rows)
    if {*names} <= {"load", "store"}:
        return f"{' and '.join(names)} ports"
    return f"port{'s' if len(names) > 1 else ''} {', '.join(names)}"


def limited_by(rows: pl.DataFrame) -> str:
    """Return the largest cause of rows of block times with its share of their time; a dash where there is none."""
    found = grouped(rows)
    if not found:
        return "-"
    cause, seconds = next(iter(found.items()))
    return f"{label(cause, rows)} {100 * seconds / sum(found.values()):.0f} %"


def largest_causes(rows: pl.DataFrame) -> list[str]:
    """Return the largest cause of each row of block times in words; empty where they do not say."""
    columns = [name for name in rows.columns if name.startswith(LIMIT)]
    causes = list(dict.fromkeys(PORTS if name.startswith(LIMIT + PORT) else name.removeprefix(LIMIT) for name in columns))
    if not causes or not rows.height:
        return [""] * rows.height
    sums = np.zeros((len(causes), rows.height))
    for name in columns:
        cause = PORTS if name.startswith(LIMIT + PORT) else name.removeprefix(LIMIT)
        sums[causes.index(cause)] += rows[name].fill_null(0.0).to_numpy()
    names = [LABELS.get(cause, cause) for cause in causes]
    return [names[most] if total > 0 else "" for most, total in zip(sums.argmax(axis=0), sums.sum(axis=0), strict=True)]


def _does(cause: str, rows: pl.DataFrame) -> str:
    if cause == "width":
        return "issues as many instructions as the core can"
    if cause == PORTS:
        return f"keeps {label(cause, rows)} busy"
    return f"waits for {label(cause, rows)}"


def sentence(times: BlockTimes) -> str:
    """Return what limits the hottest line, function or all of a program; empty where block times do not say."""
    causes = times.limits
    whole = sum(causes.values())
    if not whole or not grouped(times.table):
        return ""
    if (waited := causes.get(WAITING, 0.0)) > 0.5 * whole:
        return f"The program waits for {percent(waited / whole)} of the elapsed time: for files, devices or other processes."
    if (kernel := causes.get(KERNEL, 0.0)) > 0.5 * whole:
        return f"The kernel takes {percent(kernel / whole)} of the time: page faults and system calls."
    for keys in (("file", "line"), ("module", "function")):
        sums = times.table.group_by(keys, maintain_order=True).agg(pl.col("seconds").sum())
        known = sums.filter(pl.col(keys[0]) != "", pl.col(keys[1]).is_not_null()).filter(
            pl.col(keys[1]).cast(pl.String).is_in(["", "0"]).not_()
        )
        if not known.height:
            continue
        first, second, seconds = known.sort("seconds", descending=True).row(0)
        if seconds < HOT * whole:
            continue
        rows = times.table.filter((pl.col(keys[0]) == first) & (pl.col(keys[1]) == second))
        where = f"Line {second} of {Path(first).name}" if keys[1] == "line" else f"Function {second}"
        own = grouped(rows)
        cause = next(iter(own))
        share = f"{100 * own[cause] / sum(own.values()):.0f} % of it"
        return f"{where} ({100 * seconds / whole:.0f} % of the time) {_does(cause, rows)} ({share})."
    cause, seconds = next(iter(causes.items()))
    return f"No line stands out; {100 * seconds / whole:.0f} % of the time goes to {label(cause, times.table)}."


def threads_sentence(elapsed: Mapping[str, Any]) -> str:
    """Return how many threads ran on how many cores, and what keeps more cores from being used."""
    cores = counted(elapsed["cores"], "core")
    return f"{elapsed['threads']} threads on {cores} use {elapsed['speedup']:.2f} of them; limited by {elapsed['limit']}."


def cores_sentence(machine: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return up to how many cores a program gains from more of them, and what limits it then; ``rows`` are its elapsed times."""
    rising = sorted(rows, key=lambda row: int(row["cores"]))
    for number, row in enumerate(rising[:-1]):
        if min(one["seconds"] for one in rising[number + 1 :]) > (1 - LEAST_GAIN) * row["seconds"]:
            return f"On {machine} nothing is gained beyond {counted(row['cores'], 'core')}: {rising[number + 1]['limit']}."
    return f"On {machine} more cores still help at {rising[-1]['cores']}, the most that were asked for."


def limits_chart(times: BlockTimes) -> Table:
    """Return bars of the causes, which add up to the predicted time and, where it was measured, the program's waiting."""
    causes = times.limits
    whole = sum(causes.values())
    table = grid(["limited by"], ["seconds", "share"], f"What limits it on {times.machine}")
    table.add_column("", no_wrap=True)
    most = max(causes.values(), default=1.0)
    for cause, seconds in causes.items():
        if seconds >= LEAST * whole:
            bar = "█" * max(1, round(WIDTH * seconds / most))
            table.add_row(label(cause, times.table), format_seconds(seconds), percent(seconds / whole), bar)
    return table

"""A ranking of machines, and what would help on one, as charts on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from convolver.convolution.choice import BEST, RankedMachine
from convolver.convolution.machine_changes import WhatIf
from convolver.convolution.verdict import CANNOT_TELL, FASTER, seconds_from_to
from convolver.plotting.labels import machine_label
from convolver.reporting.grid import Table, grid
from convolver.units import format_seconds, listed

MOST_NAMED = 3
"""Machines like the best that a sentence names; the table has all."""
WIDTH = 40
"""Columns of the chart, from 0 to the largest end of an interval."""


def bar(value: float, ends: tuple[float, float], most: float) -> str:
    """Return a dot at a value with its interval, 0 at the left edge and ``most`` at the right."""
    low, dot, high = (round(min(one, most) / most * (WIDTH - 1)) for one in (ends[0], value, ends[1]))
    cells = [" "] * WIDTH
    for cell in range(low, high + 1):
        cells[cell] = "─"
    cells[dot] = "●"
    return "".join(cells).rstrip()


def chart(choices: Sequence[RankedMachine]) -> Table:
    """Return the machines by rising time, those that the intervals cannot tell from the best grayed."""
    priced = any(one.price is not None for one in choices)
    threads = any(one.processor_seconds is not None for one in choices)
    heads = ["elapsed", "90 % interval", "cores", "CPU time"] if threads else ["time", "90 % interval"]
    heads.append("than the best")
    table = grid(["machine"], [*heads, *(["cost of 1000 runs", "cost is"] if priced else [])], "Machines by time")
    table.add_column("", no_wrap=True)
    most = max(one.interval[1] for one in choices)
    for one in choices:
        certain = one.interval[0] == one.interval[1]
        cells = [format_seconds(one.seconds), "measured" if certain else seconds_from_to(one.interval)]
        if one.processor_seconds is not None:
            cells += [str(one.cores), format_seconds(one.processor_seconds)]
        cells.append(than_the_best(one))
        if priced:
            costs = "-" if one.cost is None else f"{1000 * one.cost:.3g}"
            front = " (efficient)" if one.efficient else ""
            cells += [costs, "-" if one.cost_verdict is None else one.cost_verdict + front]
        style = "bold" if one.verdict == BEST else "dim" if one.verdict == CANNOT_TELL else None
        table.add_row(machine_label(one.machine, one.projected), *cells, bar(one.seconds, one.interval, most), style=style)
    return table


def than_the_best(one: RankedMachine) -> str:
    """Return what a machine is beside the best one, in words."""
    if one.verdict in (BEST, CANNOT_TELL):
        return one.verdict
    return f"{100 * (1 / one.ratio - 1):.0f} % {one.verdict}"


def conclusion(choices: Sequence[RankedMachine]) -> str:
    """Return one sentence: the machine to take, and what it cannot be distinguished from."""
    best, *others = choices
    near = [one.machine for one in others if one.verdict == CANNOT_TELL]
    text = f"Fastest: {best.machine}, {format_seconds(best.seconds)} a run"
    if near:
        those = listed(near) if len(near) <= MOST_NAMED else f"{len(near)} others"
        text += f"; the errors of the prediction cannot tell {those} from it"
    cheapest = next((one for one in choices if one.cost_verdict == BEST), None)
    if cheapest is not None:
        text += f". Cheapest a run: {cheapest.machine}"
    return text + "."


BAR_WIDTH = 30
LEAST = 0.02
"""Share of the time that a change must save to be worth a sentence."""


def what_if_chart(found: Sequence[WhatIf], machine: str) -> Table:
    """Return the changes as bars of time, those grayed whose errors cannot tell them from the machine as it is."""
    threads = any(one.processor_seconds is not None for one in found)
    heads = ["elapsed" if threads else "time", "90 % interval", *(["CPU time"] if threads else []), "saves", "is"]
    table = grid([f"{machine} with"], heads, "What would help")
    table.add_column("", no_wrap=True)
    most = max(one.seconds for one in found if one.seconds is not None)
    for one in found:
        if one.seconds is None or one.ratio is None:
            table.add_row(one.change, "-", "-", "-", "needs the trace", "", style="dim")
            continue
        bar = "█" * max(1, round(BAR_WIDTH * one.seconds / most)) if most else ""
        saved = f"{100 * (1 - 1 / one.ratio):z.1f} %" if one.verdict else "-"
        style = "dim" if one.verdict == CANNOT_TELL else None
        cells = [format_seconds(one.seconds), seconds_from_to(one.interval)]
        cells += [] if one.processor_seconds is None else [format_seconds(one.processor_seconds)]
        table.add_row(one.change, *cells, saved, one.verdict or "-", bar, style=style)
    return table


def what_if_conclusion(found: Sequence[WhatIf]) -> str:
    """Return one sentence: the change that saves most."""
    known = [one for one in found if one.ratio is not None and one.verdict is not None]
    if not known or (best := max(known, key=lambda one: one.ratio or 0.0)).ratio is None or best.ratio < 1 / (1 - LEAST):
        return f"None of these changes saves {100 * LEAST:.0f} % of the time."
    sure = "" if best.verdict == FASTER else ", though the errors of the prediction cannot tell"
    return f"{best.change[0].upper()}{best.change[1:]} helps most: it saves {100 * (1 - 1 / best.ratio):.0f} % of the time{sure}."

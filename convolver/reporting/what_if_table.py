"""What would help, on a terminal: a bar for each change of the machine."""

from __future__ import annotations

from collections.abc import Sequence

from convolver.convolution.machine_changes import WhatIf
from convolver.convolution.verdict import CANNOT_TELL, FASTER, seconds_from_to
from convolver.reporting.grid import Table, grid
from convolver.units import format_seconds

WIDTH = 30
LEAST = 0.02
"""Share of the time that a change must save to be worth a sentence."""


def chart(found: Sequence[WhatIf], machine: str) -> Table:
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
        bar = "█" * max(1, round(WIDTH * one.seconds / most)) if most else ""
        saved = f"{100 * (1 - 1 / one.ratio):z.1f} %" if one.verdict else "-"
        style = "dim" if one.verdict == CANNOT_TELL else None
        cells = [format_seconds(one.seconds), seconds_from_to(one.interval)]
        cells += [] if one.processor_seconds is None else [format_seconds(one.processor_seconds)]
        table.add_row(one.change, *cells, saved, one.verdict or "-", bar, style=style)
    return table


def conclusion(found: Sequence[WhatIf]) -> str:
    """Return one sentence: the change that saves most."""
    known = [one for one in found if one.ratio is not None and one.verdict is not None]
    if not known or (best := max(known, key=lambda one: one.ratio or 0.0)).ratio is None or best.ratio < 1 / (1 - LEAST):
        return f"None of these changes saves {100 * LEAST:.0f} % of the time."
    sure = "" if best.verdict == FASTER else ", though the errors of the prediction cannot tell"
    return f"{best.change[0].upper()}{best.change[1:]} helps most: it saves {100 * (1 - 1 / best.ratio):.0f} % of the time{sure}."

"""The page's section of threads: elapsed time over cores, and parallel regions, locks and shared lines on the base."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from convolver.plotting.elapsed_curves import core_curves
from convolver.reporting.grid import percent
from convolver.reporting.html.core_curves import curves_picture
from convolver.reporting.tables import ELAPSED, elapsed_cells
from convolver.units import counted, format_count, format_seconds

if TYPE_CHECKING:
    from convolver.reporting.report_input import Bundle


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first column is a name; nothing where there are no rows."""
    if not rows:
        return ""
    head = "".join(f"<th scope=col{'' if number else ' class=text'}>{escape(name)}</th>" for number, name in enumerate(heads))
    body = "".join(
        f"<tr><th scope=row class=text>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for name, *cells in rows
    )
    return (
        f"<div class=scroll tabindex=0 role=region aria-label='{escape(caption)}, scrolls'><table class=grid>"
        f"<caption class=muted>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _over_cores(bundle: Bundle) -> str:
    """Return the curves over cores and their table; without any how to get them."""
    curves = core_curves(bundle.predictions)
    if not curves:
        return "<p class=muted>Elapsed time over cores: predict with <code>--scaling all</code>.</p>"
    return curves_picture(curves) + _table("Elapsed time over cores", ELAPSED, elapsed_cells(curves.values()))


def threads_section(bundle: Bundle) -> str:
    """Return the heading, the curves over cores and the tables; nothing for a program with one thread."""
    times = bundle.base
    if times.elapsed is None:
        return ""
    elapsed = times.elapsed
    regions = [
        [
            str(one["name"]),
            format_count(one["times"]),
            str(one["threads"]),
            format_seconds(one["seconds"]),
            percent(one["efficiency"]),
            str(one["limit"]),
        ]
        for one in elapsed.get("regions", ())
    ]
    locks = [
        [
            str(one["name"]),
            *(format_count(one[name]) for name in ("taken", "contended")),
            *(format_seconds(one[name]) for name in ("held", "waited")),
        ]
        for one in elapsed["locks"]
    ]
    lines = [[str(one["name"]), format_seconds(one["lost"])] for one in elapsed["lines"]]
    spins = [[str(one["name"]), format_seconds(one["seconds"])] for one in elapsed.get("spin_loops", ())]
    tables = [
        _over_cores(bundle),
        _table("Parallel regions", ["begins at", "times", "threads", "elapsed", "cores at work", "limited by"], regions),
        _table("Locks", ["lock", "taken", "had to wait", "held", "waited, all threads"], locks),
        _table("Cache lines that several threads write", ["line", "lost, all threads"], lines),
        _table("Loops in which threads wait for others: not counted as work", ["loop", "CPU time"], spins),
    ]
    about = f"{counted(elapsed['threads'], 'thread')} on {counted(elapsed['cores'], 'core')} of {times.machine}."
    return (
        f"<section id=threads aria-labelledby=h-threads><h2 id=h-threads>Threads</h2><p class=muted>{escape(about)}</p>"
        f"{''.join(tables)}</section>"
    )

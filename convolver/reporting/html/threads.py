"""The page's section of threads: elapsed time over cores, and parallel regions, locks and shared lines on the base."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from convolver.plotting.elapsed_curves import core_curves, ideal_seconds
from convolver.plotting.labels import machine_label
from convolver.reporting.grid import percent
from convolver.reporting.limiters import cores_sentence
from convolver.reporting.tables import ELAPSED, elapsed_cells
from convolver.units import counted, format_count, format_seconds

if TYPE_CHECKING:
    from convolver.reporting.report_input import Bundle


WIDE, HIGH = 1060, 340
LEFT, RIGHT, TOP, BOTTOM = 80, 720, 16, 290
"""Edges of the curves; their names stand right of them."""
COLORS = 6
DASHES = ("none", "7 3", "2 3")
MOST_TICKS = 8


class _Axis:
    """A logarithmic axis from ``low`` to ``high``, drawn between two edges."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        self._low, self._octaves = math.log2(low), max(math.log2(high / low), 1e-9)
        self._first, self._length = first, last - first

    def at(self, value: float) -> float:
        """Return where a value is."""
        return round(self._first + (math.log2(value) - self._low) / self._octaves * self._length, 1)


def curves_picture(curves: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the picture of predictions by machine that have several numbers of cores, and for each why it stops gaining."""
    rows = {name: sorted(side["scaling"], key=lambda row: int(row["cores"])) for name, side in curves.items()}
    every = [row for one in rows.values() for row in one]
    cores = sorted({int(row["cores"]) for row in every})
    low, high = min(row["interval_seconds"][0] for row in every), max(row["interval_seconds"][1] for row in every)
    x, y = _Axis(cores[0], cores[-1], LEFT, RIGHT), _Axis(low / 1.1, high * 1.1, BOTTOM, TOP)
    parts = [*_grid(x, y, cores, low, high)]
    for index, (name, side) in enumerate(curves.items()):
        parts.append(_curve(rows[name], x, y, index, machine_label(name, bool(side["projected"]))))
    sentences = " ".join(cores_sentence(name, one) for name, one in rows.items())
    about = "Bands: 90 % intervals. Dotted: as many times faster as there are cores. Crosses: measured."
    return (
        f"<p>{escape(sentences)}</p><div id=cores-view><svg viewBox='0 0 {WIDE} {HIGH}' "
        "role='img' aria-label='Elapsed time over cores'>"
        f"{''.join(parts)}</svg></div><p class='muted'>{about}</p>"
    )


def _grid(x: _Axis, y: _Axis, cores: Sequence[int], low: float, high: float) -> list[str]:
    """Return lines at numbers of cores and at powers of two of seconds, with what they stand for."""
    step = -(-math.ceil(math.log2(high / low) + 1) // MOST_TICKS)
    seconds = [2.0**power for power in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1, step)] or [high]
    parts = [f"<line x1='{x.at(one)}' x2='{x.at(one)}' y1='{TOP}' y2='{BOTTOM}' class='gridline' />" for one in cores]
    parts += [f"<text x='{x.at(one)}' y='{BOTTOM + 18}' text-anchor='middle'>{one}</text>" for one in cores]
    parts += [f"<line x1='{LEFT}' x2='{RIGHT}' y1='{y.at(one)}' y2='{y.at(one)}' class='gridline' />" for one in seconds]
    parts += [f"<text x='{LEFT - 8}' y='{y.at(one) + 4}' text-anchor='end'>{format_seconds(one)}</text>" for one in seconds]
    parts.append(f"<text x='{(LEFT + RIGHT) / 2}' y='{BOTTOM + 40}' text-anchor='middle' class='muted'>cores</text>")
    return parts


def _line(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{one},{other}" for one, other in points)


def _curve(rows: Sequence[Mapping[str, Any]], x: _Axis, y: _Axis, index: int, name: str) -> str:
    """Return a machine's curve, its band, its ideal, what was measured and its name."""
    color = f"var(--s{index % COLORS})"
    line = f"stroke:{color};stroke-width:2.5;stroke-dasharray:{DASHES[index % len(DASHES)]}"
    places = [x.at(row["cores"]) for row in rows]
    low, high = ([y.at(row["interval_seconds"][end]) for row in rows] for end in (0, 1))
    band = [*zip(places, low, strict=True), *zip(reversed(places), reversed(high), strict=True)]
    curve = list(zip(places, (y.at(row["seconds"]) for row in rows), strict=True))
    inside = [(place, y.at(one)) for place, one in zip(places, ideal_seconds(rows), strict=True) if y.at(one) <= BOTTOM]
    crosses = [(x.at(row["cores"]), y.at(row["measured_seconds"])) for row in rows if row.get("measured_seconds")]
    named = TOP + 14 + 20 * index
    return "".join(
        [
            f"<polygon points='{_line(band)}' style='fill:{color};fill-opacity:.16' />",
            f"<polyline points='{_line(inside)}' style='fill:none;stroke:{color};stroke-dasharray:1 4' />",
            f"<polyline points='{_line(curve)}' style='fill:none;{line}' />",
            *(f"<circle cx='{one}' cy='{other}' r='4' style='fill:{color}' />" for one, other in curve),
            *(f"<text x='{one}' y='{other + 5}' text-anchor='middle'>×</text>" for one, other in crosses),
            f"<line x1='{RIGHT + 14}' x2='{RIGHT + 44}' y1='{named - 4}' y2='{named - 4}' style='{line}' />",
            f"<text x='{RIGHT + 52}' y='{named}'>{escape(name)}</text>",
        ]
    )


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

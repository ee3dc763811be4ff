"""Rank timeline: what every rank of a replayed run does, over time."""

from __future__ import annotations

from convolver.errors import PredictionError
from convolver.heavy import pl
from convolver.mpi.timeline import STATES, Timeline
from convolver.plotting import style
from convolver.plotting.style import Axes, Figure, Look
from convolver.units import counted, format_seconds

MESSAGES = 400
"""Messages are drawn as lines up to this number; more would hide the states."""

BARS = 40_000
"""Bars are drawn up to this number; the shortest intervals are left out beyond it."""


def draw(timeline: Timeline, look: Look) -> Figure:
    """Return the picture; raises :class:`PredictionError` when the replay recorded no intervals."""
    if timeline.intervals.is_empty():
        raise PredictionError("This timeline has no intervals: replay with -o FILE or --prv, which record them.")
    table = timeline.intervals.with_columns(length=pl.col("end") - pl.col("begin")).filter(pl.col("length") > 0)
    left_out = max(0, table.height - BARS)
    if left_out:
        table = table.sort("length", descending=True).head(BARS)
    ranks = timeline.ranks.height
    drawn, axes = style.figure(11, min(9.0, 2.2 + 0.32 * ranks))
    _states(axes, table, look)
    drawn_messages = _messages(axes, timeline, look)
    axes.set_ylim(ranks - 0.4, -0.6)
    axes.set_xlim(0, timeline.predicted_seconds)
    step = max(1, ranks // 16)
    axes.set_yticks(range(0, ranks, step))
    axes.set_ylabel(timeline.each)
    axes.set_xlabel("predicted time")
    axes.xaxis.set_major_formatter(lambda value, _: format_seconds(value) if value else "0")
    axes.grid(axis="y", visible=False)
    axes.set_title(f"{counted(ranks, timeline.each)}, {format_seconds(timeline.predicted_seconds)} predicted")
    shares = timeline.summary()
    words = ", ".join(f"{name} {shares[f'{name}_share']:.1%}" for name in ("compute", "transfer", "wait"))
    remarks = [f"All {timeline.each}s together: {words}."]
    remarks += [f"Lines: {drawn_messages} messages."] if drawn_messages else []
    remarks += [f"The {left_out} shortest intervals are left out."] if left_out else []
    style.note(axes, look, " ".join(remarks))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    return drawn


def _states(axes: Axes, table: pl.DataFrame, look: Look) -> None:
    order = {4: 0, 3: 3, 6: 1, 7: 2, 2: 4, 5: 6, 8: 6, 9: 0, 10: 1, 11: 3, 12: 2, 13: 4}
    for state, name in STATES.items():
        rows = table.filter(pl.col("state") == state)
        if rows.is_empty():
            continue
        axes.barh(
            rows["rank"].to_numpy(),
            rows["length"].to_numpy(),
            0.78,
            left=rows["begin"].to_numpy(),
            color=look.color(order[state]) if state in order else look.grid,  # computation is the pale background, in gray, too
            hatch=style.HATCHES[(state - 1) % len(style.HATCHES)] if rows.height <= 2000 else None,
            linewidth=0,
            label=name,
        )


def _messages(axes: Axes, timeline: Timeline, look: Look) -> int:
    """Draw a line from send to receive for every message where there are few enough; return how many were drawn."""
    from matplotlib.collections import LineCollection

    if not 0 < timeline.messages.height <= MESSAGES:
        return 0
    rows = timeline.messages.select("logical_send", "source", "logical_receive", "destination").iter_rows()
    lines = [[(begin, source), (end, destination)] for begin, source, end, destination in rows]
    axes.add_collection(LineCollection(lines, colors=look.ink, linewidths=0.7, alpha=0.7, zorder=5))
    return len(lines)

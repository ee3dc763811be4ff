"""Miss ratios by cache: what each level of each simulated machine lets through, over its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from convolver.plotting import style
from convolver.plotting.style import Look
from convolver.units import format_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from convolver.simulation.hit_rates import HitRates


def points(rates: HitRates) -> dict[str, list[dict[str, Any]]]:
    """Return by machine its levels with ``size_bytes`` and ``miss_ratio``, the share of accesses that no level up to it serves.

    Levels may have been sampled differently, so local miss rates are multiplied.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for document in rates.header["machines"]:
        ratio, rows = 1.0, []
        for level, total in zip(document["hierarchy"], rates.totals(document["machine"]), strict=True):
            ratio *= total["misses"] / total["accesses"] if total["accesses"] else 0.0
            rows.append({"level": level["level"], "size_bytes": level["size_bytes"], "miss_ratio": ratio})
        found[document["machine"]] = rows
    return found


def draw(rates: HitRates, look: Look) -> Figure:
    """Return the picture: one line a machine, one point a level."""
    drawn, axes = style.figure()
    lines = points(rates)
    for index, (name, rows) in enumerate(lines.items()):
        sizes, ratios = [row["size_bytes"] for row in rows], [row["miss_ratio"] for row in rows]
        axes.plot(
            sizes,
            ratios,
            color=look.colour(index),
            linestyle=style.LINES[index % len(style.LINES)],
            marker=style.MARKERS[index % len(style.MARKERS)],
            label=name,
        )
        for row in rows:
            axes.annotate(
                row["level"],
                (row["size_bytes"], row["miss_ratio"]),
                xytext=(4, 5 + 9 * (index % 2)),
                textcoords="offset points",
                fontsize=8.5,
                color=look.colour(index),
            )
    sizes = [row["size_bytes"] for rows in lines.values() for row in rows]
    style.log_bytes(axes, min(sizes) / 2, max(sizes) * 2)
    axes.set_ylim(0, 1.15 * max([1e-4, *(row["miss_ratio"] for rows in lines.values() for row in rows)]))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    axes.set_xlabel("size of the level")
    axes.set_ylabel("accesses that miss this level and all before it")
    axes.set_title("Miss ratios of the simulated caches")
    axes.legend()
    simulated = format_count(rates.references)
    style.note(axes, look, f"{simulated} simulated references. Levels differ in associativity as well as in size.")
    return drawn

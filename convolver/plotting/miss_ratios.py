"""Miss ratios by cache: what each level of each simulated machine lets through, over its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from convolver.plotting import style
from convolver.plotting.labels import place_labels
from convolver.plotting.style import Axes, Figure, Look
from convolver.units import format_count

if TYPE_CHECKING:
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


def varied_level(rates: HitRates) -> str | None:
    """Return the one level in which three or more machines differ (what ``convolver explore`` simulates), else None."""
    hierarchies = [document["hierarchy"] for document in rates.header["machines"]]
    if len(hierarchies) < 3 or len({tuple(level["level"] for level in levels) for levels in hierarchies}) > 1:
        return None
    differing = [levels[0]["level"] for levels in zip(*hierarchies, strict=True) if any(level != levels[0] for level in levels)]
    return differing[0] if len(differing) == 1 else None


def variants(rates: HitRates, name: str) -> dict[str, list[dict[str, Any]]]:
    """Return miss-ratio curves of one level: its rows by ways and policy, in order of size."""
    found: dict[str, list[dict[str, Any]]] = {}
    for document, rows in zip(rates.header["machines"], points(rates).values(), strict=True):
        for level, row in zip(document["hierarchy"], rows, strict=True):
            if level["level"] == name:
                words = [f"{level['ways']} ways", level.get("policy", "lru"), level.get("inclusion", "")]
                words.append((level.get("prefetcher") or {}).get("kind", ""))
                found.setdefault(", ".join(word for word in words if word), []).append(row)
    return {label: sorted(rows, key=lambda row: row["size_bytes"]) for label, rows in found.items()}


def draw(rates: HitRates, look: Look) -> Figure:
    """Return the picture: one line a machine, one point a level; of variants of one level, its miss-ratio curves."""
    drawn, axes = style.figure()
    varied = varied_level(rates)
    lines = points(rates) if varied is None else variants(rates, varied)
    _lines(axes, lines, look)
    sizes = [row["size_bytes"] for rows in lines.values() for row in rows]
    style.log_bytes(axes, min(sizes) / 2, max(sizes) * 2)
    axes.set_ylim(0, 1.15 * max([1e-4, *(row["miss_ratio"] for rows in lines.values() for row in rows)]))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    axes.set_xlabel(f"size of {varied or 'the level'}")
    axes.set_ylabel("accesses that miss this level and all before it")
    machine = rates.machines[0].partition(":")[0]
    axes.set_title(f"Miss ratios of {varied} of {machine}" if varied else "Miss ratios of the simulated caches")
    axes.legend()
    simulated = f"{format_count(rates.references)} simulated references."
    if varied is None:
        named = [
            (row["size_bytes"], row["miss_ratio"], row["level"], look.color(index))
            for index, rows in enumerate(lines.values())
            for row in rows
        ]
        place_labels(axes, named, look, size=8.5)
    style.note(axes, look, simulated if varied else f"{simulated} Levels differ in associativity as well as in size.")
    return drawn


def _lines(axes: Axes, lines: dict[str, list[dict[str, Any]]], look: Look) -> None:
    for index, (name, rows) in enumerate(lines.items()):
        axes.plot(
            [row["size_bytes"] for row in rows],
            [row["miss_ratio"] for row in rows],
            color=look.color(index),
            linestyle=style.LINES[index % len(style.LINES)],
            marker=style.MARKERS[index % len(style.MARKERS)],
            label=name,
        )

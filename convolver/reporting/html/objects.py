"""The page's section of data objects: a table that can be read without a script, which the script lets sort."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from convolver.reporting.grid import percent
from convolver.signature.data_objects import HOW_TO
from convolver.units import format_bytes, format_count

if TYPE_CHECKING:
    from convolver.reporting.report_input import Bundle

ROWS = 200
"""Data objects shown at most."""


def _cell(value: float | None, shown: str) -> str:
    return f"<td data-value={-1 if value is None else value:.10g}>{escape(shown)}</td>"


def _hits(bundle: Bundle) -> tuple[list[tuple[str, str]], dict[tuple[str, str, str], dict[str, Any]]]:
    """Return the machines' levels, and the counts by label, machine and level."""
    if bundle.object_hits is None:
        return [], {}
    hits = bundle.object_hits
    rows = hits.by_object().iter_rows(named=True)
    levels = [(machine, level) for machine in hits.machines for level in hits.levels(machine)]
    return levels, {(row["label"], row["machine"], row["level"]): row for row in rows}


def objects_section(bundle: Bundle) -> str:
    """Return the heading, a sentence and the table; without data objects a sentence that says how to get them."""
    start = "<section id=objects aria-labelledby=h-objects><h2 id=h-objects>Data objects</h2>"
    if bundle.objects is None:
        return f"{start}<p class=muted>Not known. {escape(HOW_TO)}</p></section>"
    levels, hits = _hits(bundle)
    heads = ["data object", "kind", "peak", "placed", "accesses", "share"]
    heads += [f"{level} misses, {machine}" for machine, level in levels]
    table = bundle.objects.by_object()
    rows = []
    for row in table.head(ROWS).iter_rows(named=True):
        cells = [
            _cell(row["peak_bytes"], format_bytes(row["peak_bytes"])),
            _cell(row["places"], format_count(row["places"])),
            _cell(row["memops"], format_count(round(row["memops"]))),
            _cell(row["share"], percent(row["share"])),
        ]
        for machine, level in levels:
            found = hits.get((row["label"], machine, level))
            rate, share = (None, None) if found is None else (found["miss_rate"], found["miss_share"])
            cells.append(_cell(share, percent(share) + ("" if rate is None else f" ({percent(rate)})")))
        label, kind = escape(row["label"]), escape(row["kind"])
        rows.append(f"<tr><th scope=row class=text title='{label}'>{label}</th><td class=text>{kind}</td>{''.join(cells)}</tr>")
    text = ("data object", "kind")
    head = "".join(f"<th scope=col{' class=text' if name in text else ''}>{escape(name)}</th>" for name in heads)
    shown = f"{min(ROWS, table.height)} of {table.height} data objects"
    share = percent(bundle.objects.attributed_share)
    return (
        f"{start}<p class=muted>What the recorded references touch: blocks by the place that allocated them, variables, stacks, "
        f"mappings. {shown}; {share} of the accesses are in blocks with a recorded one. Misses are shares of all misses "
        "of the level, in brackets of the object's own accesses.</p>"
        "<div class=scroll tabindex=0 role=region aria-label='Table of data objects, scrolls'>"
        f"<table class=grid id=objects-table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )

"""The look that all tables on a terminal share: no frame, words to the left, numbers to the right, the title on one line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from convolver.units import format_share

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Column, Table
else:
    Table = Any  # for annotations only: rich is imported by what prints

WIDEST = 40
"""Columns of names (functions, files) are cut here."""
LEAST = 12
"""They are cut no shorter than this where a terminal is too narrow."""


def grid(left: Sequence[str], right: Sequence[str] = (), title: str = "", widest: int | None = None) -> Table:
    """Return an empty table: columns of words, then columns of numbers, which are never cut.

    Words are cut after ``widest`` characters; None: they are wrapped where the terminal is too narrow.
    """
    import rich.table
    from rich.text import Text

    shown = Text(title, style="bold", no_wrap=True, overflow="ignore") if title else None
    table = rich.table.Table(
        title=shown, title_justify="left", caption_justify="left", box=None, pad_edge=False, header_style="dim"
    )
    for name in left:
        table.add_column(name, overflow="fold" if widest is None else "ellipsis", no_wrap=widest is not None, max_width=widest)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def fit(table: Table, console: Console) -> int:
    """Cut the words of a :func:`grid` as far as a console is too narrow, the longest first; return the width that it needs.

    On a terminal a last column without heading, which is a picture of the others, is left out first.
    """
    needs = [_need(column, console) for column in table.columns]
    gap = table.padding[1] + table.padding[3]
    too_wide = sum(needs) + gap * (len(needs) - 1) > console.width
    if too_wide and console.is_terminal and not table.columns[-1].header:
        table.columns.pop()
        needs.pop()
    gaps = gap * (len(needs) - 1)
    words = [number for number, column in enumerate(table.columns) if column.max_width is not None]
    for widest in range(max(needs, default=0), LEAST - 1, -1):
        if sum(needs) + gaps <= console.width:
            break
        for number in words:
            needs[number] = table.columns[number].max_width = min(needs[number], widest)
    return sum(needs) + gaps


def _need(column: Column, console: Console) -> int:
    """Return the width of a column that is not cut, or the least one where its words are wrapped."""
    if column.width is not None:
        return column.width
    anything = console.options.update(max_width=sys.maxsize)
    sizes = [console.measure(cell, options=anything) for cell in (column.header, *column.cells)]
    need = max(size.maximum if column.no_wrap else min(size.minimum, WIDEST) for size in sizes)
    return min(need, column.max_width or need)


def percent(share: float | None) -> str:
    """Return ``12.3 %``, or a dash for None; shares that round to 100 % without being it show as 99.9 %."""
    if share is None:
        return "-"
    return format_share(min(share, 0.999) if share < 1 else share, 1)

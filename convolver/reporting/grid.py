"""The look that all tables on a terminal share: no frame, words to the left, numbers to the right, the title on one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from convolver.units import format_share

if TYPE_CHECKING:
    from rich.table import Table

WIDEST = 40
"""Columns of names (functions, files) are cut here."""


def grid(left: Sequence[str], right: Sequence[str] = (), title: str = "", widest: int | None = None) -> Table:
    """Return an empty table: columns of words, then columns of numbers, which are never cut.

    Words are cut after ``widest`` characters; None: they are wrapped where the terminal is too narrow.
    """
    from rich.table import Table
    from rich.text import Text

    shown = Text(title, style="bold", no_wrap=True, overflow="ignore") if title else None
    table = Table(title=shown, title_justify="left", caption_justify="left", box=None, pad_edge=False, header_style="dim")
    for name in left:
        table.add_column(name, overflow="fold" if widest is None else "ellipsis", no_wrap=widest is not None, max_width=widest)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def percent(share: float | None) -> str:
    """Return ``12.3 %``, or a dash for None; shares that round to 100 % without being it show as 99.9 %."""
    if share is None:
        return "-"
    return format_share(min(share, 0.999) if share < 1 else share, 1)

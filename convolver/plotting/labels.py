"""Words in pictures: how a block, a command and a machine are called, and labels beside points so that none hides another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from convolver.foreign_text import visible
from convolver.machine.states import is_another
from convolver.plotting.style import Axes, Look

LONGEST = 30


def shorten(text: str, longest: int = LONGEST) -> str:
    """Return the text, cut in its middle where it is too long."""
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"


def place(row: Mapping[str, Any]) -> str:
    """Return ``file:line`` of a block, else its module and, where that is known, its offset there."""
    if row.get("file"):
        return f"{Path(row['file']).name}:{row['line']}"
    module = Path(row.get("module") or "").name or "?"
    return module if row.get("offset") is None else f"{module}+{row['offset']:#x}"


def block_label(row: Mapping[str, Any]) -> str:
    """Return function and place of a block, short enough for a picture."""
    return f"{shorten(row['function'] or '?', 22)}  {shorten(place(row), 22)}"


def command_label(command: Sequence[str] | None) -> str:
    """Return a traced command with the folder of its program left out."""
    words = [visible(str(word)) for word in command or []]
    return shorten(" ".join([Path(words[0]).name, *words[1:]]), 40) if words else "the program"


def machine_label(name: str, projected: bool) -> str:
    """Return the name of a machine, marked where it was not measured; a name with a state says what was changed."""
    return f"{name} (projected)" if is_another(name, projected) else name


_DIRECTIONS = ((1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0))
_DISTANCES = (5.0, 13.0, 21.0, 29.0)
"""Places that are tried for a label, in points from its point, nearest first."""
_LETTER, _LINE = 0.62, 1.25
"""Width of a letter and height of a line in units of the font size, a little more than they take."""
CIRCLE_POINTS2 = 3000
"""Area of the circle of a block with all of the time, in points squared."""

Label = tuple[float, float, str, str]
"""Where a label belongs (in data), its text and its color."""


def place_labels(axes: Axes, labels: Sequence[Label], look: Look, *, size: float = 9.0, bold: bool = False) -> None:
    """Write each label near its point where no earlier label and no point is, with a thin line where that is not beside it.

    Scales and limits of the axes have to be final.
    """
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]  # fixes the layout, and with it where data lie
    scale = 72 / axes.figure.dpi
    points = [tuple(scale * axes.transData.transform((x, y))) for x, y, _, _ in labels]
    taken = [(x - 2, y - 2, x + 2, y + 2) for x, y in points]
    for (x, y, text, color), at in zip(labels, points, strict=True):
        wide, high = _LETTER * size * len(text), _LINE * size
        offset = next(
            (offset for offset in _offsets(wide, high) if not any(_meet(_box(at, offset, wide, high), box) for box in taken)),
            (5.0, 4.0),
        )
        taken.append(_box(at, offset, wide, high))
        far = abs(offset[1] + high / 2) > high or abs(offset[0] + wide / 2) > wide + 6
        axes.annotate(
            text,
            (x, y),
            xytext=offset,
            textcoords="offset points",
            fontsize=size,
            fontweight="bold" if bold else "normal",
            color=color,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": look.paper, "edgecolor": "none", "alpha": 0.75},
            arrowprops={"arrowstyle": "-", "color": look.muted, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 2} if far else None,
            zorder=6,
        )


def _offsets(wide: float, high: float) -> list[tuple[float, float]]:
    """Return the lower left corners to try, relative to the point."""
    found = []
    for distance, (right, up) in product(_DISTANCES, _DIRECTIONS):
        x = distance if right > 0 else -distance - wide if right < 0 else -wide / 2
        y = distance - 1 if up > 0 else -distance - high + 1 if up < 0 else -high / 2
        found.append((x, y))
    return found


def _box(at: Sequence[float], offset: tuple[float, float], wide: float, high: float) -> tuple[float, float, float, float]:
    x, y = at[0] + offset[0], at[1] + offset[1]
    return x, y, x + wide, y + high


def _meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def circles(axes: Axes, points: Sequence[dict[str, Any]], across: str, up: str, look: Look, top: int) -> None:
    """Draw blocks as circles, area = ``share``, at two of their fields, and number the first ones.

    A key beside the axes says which they are.
    """
    sizes = [CIRCLE_POINTS2 * point["share"] for point in points]
    xs, ys = [point[across] for point in points], [point[up] for point in points]
    axes.scatter(xs, ys, s=sizes, color=look.ink, alpha=0.16, linewidths=0, zorder=3)
    axes.scatter(xs, ys, s=sizes, facecolors="none", edgecolors=look.ink, linewidths=1.1, zorder=4)
    axes.scatter(xs, ys, s=5, color=look.ink, linewidths=0, zorder=5)
    key = [f"{number:>2}  {block_label(point)}  {point['share']:.1%}" for number, point in enumerate(points[:top], 1)]
    axes.text(1.02, 1.0, "\n".join(key), transform=axes.transAxes, va="top", fontsize=8.5, linespacing=1.7)
    numbered = [(point[across], point[up], str(number), look.ink) for number, point in enumerate(points[:top], 1)]
    place_labels(axes, numbered, look, bold=True)

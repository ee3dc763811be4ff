"""What all pictures share: a light and a dark look that stay readable in gray, text sizes, saving without a trace of the moment.

Series differ in lightness, line style and marker or hatch as well as in hue, so that a gray print and a color-blind reader lose
nothing. matplotlib is imported lazily and without pyplot: drawing touches no global state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver.errors import ToolNotFoundError, UsageError
from convolver.outputs import write_atomically
from convolver.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    Axes = Figure = Any  # for annotations only: matplotlib is imported by what draws

FORMATS = (".png", ".svg", ".pdf")
LINES = ("-", "--", "-.", ":", (0, (7, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oooo")
DPI = 160


@dataclass(frozen=True)
class Look:
    """Colors of a picture; ``series`` alternate in lightness."""

    paper: str
    ink: str
    muted: str
    grid: str
    series: tuple[str, ...]

    def color(self, index: int) -> str:
        """Return the color of the series of this number."""
        return self.series[index % len(self.series)]


LIGHT = Look(
    paper="#ffffff",
    ink="#1d2433",
    muted="#5b6473",
    grid="#e2e5ea",
    series=("#16366b", "#d9822b", "#2f7f68", "#b0303c", "#8c6fc0", "#a3a9b3", "#3a8fc4"),
)
DARK = Look(
    paper="#14181f",
    ink="#e8ebf0",
    muted="#a4adba",
    grid="#2c333e",
    series=("#a8ccff", "#e09a48", "#8fd9bf", "#e0707a", "#c3abf0", "#7f8794", "#5fb0e0"),
)


def need_matplotlib() -> None:
    """Raise :class:`ToolNotFoundError` with the command that gets matplotlib where it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ToolNotFoundError("Pictures need matplotlib, which is not here; run `pip install 'convolver[plot]'`.") from error


def _settings(look: Look) -> Any:
    ink = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), look.ink)
    paper = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor"), look.paper)
    return {
        **ink,
        **paper,
        "axes.edgecolor": look.muted,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.titlesize": 12,
        "grid.color": look.grid,
        "grid.linewidth": 0.7,
        "font.size": 10,
        "legend.frameon": False,
        "hatch.color": look.paper,
        "hatch.linewidth": 0.8,
        "svg.fonttype": "none",
        "svg.hashsalt": "convolver",
    }


@contextmanager
def drawing(look: Look) -> Iterator[None]:
    """Apply a look to everything drawn and saved inside; raises :class:`ToolNotFoundError` without matplotlib."""
    need_matplotlib()
    import matplotlib

    with matplotlib.rc_context(_settings(look)):
        yield


def figure(width: float = 9.0, height: float = 5.4) -> tuple[Figure, Axes]:
    """Return an empty figure of this size in inches and its axes."""
    drawn, ((axes,),) = panels(width, height)
    return drawn, axes


def panels(width: float, height: float, rows: int = 1, columns: int = 1, **how: Any) -> tuple[Figure, Any]:
    """Return an empty figure of this size in inches and its axes by row and column; ``how``: as ``Figure.subplots`` takes it."""
    from matplotlib import figure

    drawn = figure.Figure(figsize=(width, height), layout="constrained")
    return drawn, drawn.subplots(rows, columns, squeeze=False, **how)


def check_format(path: Path) -> Path:
    """Return the path when its suffix names a format that can be written; raises :class:`UsageError` otherwise."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path} names no picture; end the name in one of {', '.join(FORMATS)}.")
    return path


def save(drawn: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix; the same input gives the same bytes (no date inside)."""
    kind = check_format(path).suffix.lower().removeprefix(".")
    metadata: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    write_atomically(path, lambda temporary: drawn.savefig(temporary, format=kind, dpi=DPI, metadata=metadata))


def picture(path: Path, draw: Callable[[Look], Figure], *, dark: bool = False) -> None:
    """Write what ``draw`` returns for the light look, or for the dark one; raises as :func:`drawing` and :func:`save` do."""
    look = DARK if dark else LIGHT
    with drawing(look):
        save(draw(look), path)


def note(axes: Axes, look: Look, text: str) -> None:
    """Write a small remark below the axes: what the picture rests on."""
    axes.figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color=look.muted)


def log_bytes(axes: Axes, low: float, high: float) -> None:
    """Make the x axis a logarithmic one in bytes, with ticks at powers of eight or four."""
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    step = 2 if math.log2(high / low) <= 18 else 3
    first = math.ceil(math.log2(low) / step) * step
    ticks = [2.0**power for power in range(first, math.floor(math.log2(high)) + 1, step)]
    axes.set_xticks(ticks, [format_bytes(tick) for tick in ticks])
    axes.minorticks_off()


def log_values(axes: Axes) -> None:
    """Make the y axis logarithmic, with ticks at 1, 2 and 5 written as plain numbers where it spans few decades."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high / low < 1e3:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())

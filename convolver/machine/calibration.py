"""What a machine's probe kernels, simulated like any program, say of the costs beyond its first cache level.

Each measured point of a curve is a row: the lines that the simulated caches move for it, and its time. The coefficients of the
rate model (:mod:`convolver.convolution.rates`) are fitted on these rows and kept in the profile, with the error that they have
on kernels left out of the fit.
"""

from __future__ import annotations

import msgspec

from convolver.machine.hierarchy import Level

PAGE = 4096
PAGES = "pages"
"""Level of hit rates that says which references find the translation of their page near."""


def page_cache(entries: int) -> tuple[Level, ...]:
    """Return the last level of a TLB with so many entries as a cache whose lines are pages."""
    ways = 12 if entries % 16 or entries % 12 == 0 else 16
    return (Level(level=PAGES, size_bytes=entries * PAGE, ways=ways, line_bytes=PAGE),)


class Residual(msgspec.Struct, frozen=True, kw_only=True):
    """Error of a point when its kernel was left out of the fit: log(model / measured).

    ``place`` is the level that serves most of its lines.
    """

    kernel: str
    working_set_bytes: int
    place: str
    error: float


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Coefficients of the rate model in seconds; tuples run over the farther levels: caches 2..n, then memory.

    ``sequential`` and ``random`` are costs of a line by how it is asked for, ``write_back`` of a dirty line that arrives at
    the level; a line of a strided stream costs ``sequential`` x (1 + ``between`` x lines left out before it), one from memory
    of a stream that comes alone up to ``sequential`` x (1 + ``alone``). ``coming`` is what a reference to a line on its way costs
    on top. ``latency`` is that of a dependent load, ``first_latency`` in the first level; ``window`` loads fit into the core's
    window, so one such latency is paid a window. ``page_entries`` translations are kept near (0: no page was seen to cost
    anything); another page, asked for out of order, costs ``walk`` where several are asked for at once, and ``walk_latency`` on
    top of its level's where a load waits for it. ``huge_walk`` is the part of these that the same page costs where it lies in a
    huge one (0: not measured).
    ``scattered_share`` is the part of the last level that lines out of order find, where it is less than streams do (0: all).
    ``assumed`` are deviations of the logarithm of each level's costs that the factors of a projection add (empty: measured).
    ``blocked`` is the share of the time in which the nearest farther level delivers lines of loads that loads cannot use the
    first level; in the rest lines enter it beside them. ``near_exponent`` joins what core and loads take with the lines of
    stores and those that enter beside, ``exponent`` the rest of the parts of a block's time
    (:mod:`convolver.convolution.rates`).
    """

    simulator: str
    exponent: float
    sequential: tuple[float, ...]
    random: tuple[float, ...]
    write_back: tuple[float, ...]
    latency: tuple[float, ...]
    first_latency: float
    between: float
    coming: float
    window: float
    points: int
    median_error: float
    mean_error: float
    intervals: dict[str, tuple[float, float]]
    residuals: tuple[Residual, ...] = ()
    page_entries: int = 0
    walk: float = 0.0
    walk_latency: float = 0.0
    huge_walk: float = 0.0
    scattered_share: float = 0.0
    near_exponent: float = 8.0
    blocked: float = 1.0
    assumed: tuple[float, ...] = ()
    alone: float = 0.0

    @property
    def translation(self) -> tuple[Level, ...]:
        """What keeps the translations, as a cache of pages that can be simulated; empty where none was seen to matter."""
        return page_cache(self.page_entries) if self.page_entries else ()

"""What a machine's probe kernels, simulated like any program, say of the costs behind its first cache level.

Each measured point of a curve is a row: the lines that the simulated caches move for it, and its time. The coefficients of the
rate model (:mod:`convolver.convolution.rates`) are fitted on these rows and kept in the profile, with the error that they have
on kernels left out of the fit.
"""

from __future__ import annotations

import msgspec


class Residual(msgspec.Struct, frozen=True, kw_only=True):
    """Error of a point when its kernel was left out of the fit: log(model / measured). ``place`` serves most of its lines."""

    kernel: str
    working_set_bytes: int
    place: str
    error: float


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Coefficients of the rate model in seconds; tuples run over the farther places: levels 2..n, then memory.

    ``sequential`` and ``random`` are costs of a line by how it is asked for, ``write_back`` of a dirty line that arrives at
    the place; a line of a strided stream costs ``sequential`` x (1 + ``between`` x lines left out before it). ``coming`` is
    what a reference to a line on its way costs on top. ``latency`` is that of a dependent load, ``first_latency`` in the first
    level; ``window`` loads fit into the core's window, so one such latency is paid a window. ``exponent`` joins the parts of a
    block's time.
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

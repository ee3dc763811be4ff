"""Seconds of each block on the core, from executed paths."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver.convolution.falls import Array


class CoreSeconds(NamedTuple):
    """Seconds per block along executed paths: ``near`` with all data in the first level, ``waiting`` with lines that come out of
    order as far away as they are (where that is not known: the same). ``errors``: relative standard error of each block's,
    between the windows that were walked (None: not known); ``error``: that of the whole program's."""

    near: Array
    waiting: Array
    errors: Array | None = None
    error: float | None = None

    @classmethod
    def of(cls, near: Array) -> CoreSeconds:
        """Return seconds of which only those with all data near are known."""
        return cls(near, near)

    def faster(self, clock: float) -> CoreSeconds:
        """Return the seconds on a core whose clock is so many times as fast; what is waited for does not change."""
        return self._replace(near=self.near / clock, waiting=self.near / clock + (self.waiting - self.near))

    def of_rows(self, rows: NDArray[np.intp], factor: Array) -> CoreSeconds:
        """Return the seconds of these blocks, each times its factor."""
        errors = None if self.errors is None else self.errors[rows]
        return CoreSeconds(self.near[rows] * factor, self.waiting[rows] * factor, errors, self.error)

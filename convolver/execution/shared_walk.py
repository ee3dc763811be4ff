"""A walk that several machines share, as far as it is the same for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.path_sample import SampleWalk


class SharedWalk:
    """A walk of windows through a core that another one may have walked before: what ``first`` found is taken from there as long
    as the same windows are asked for in the same order. Only then is all the same: what a core has near depends on what came.
    """

    def __init__(self, make: Callable[[], SampleWalk], first: SharedWalk | None = None) -> None:
        """``make`` begins the walk; ``first``: one of the same core and code, which walks no more."""
        self._make, self._first = make, first
        self._own: SampleWalk | None = None
        self._asked: list[NDArray[np.uint32]] = []
        self._rows: list[int] = []

    def walk(self, windows: NDArray[np.uint32]) -> None:
        """Walk these windows."""
        if self._own is None and not self._goes_on_alike(windows):
            self._walk_again()
        self._asked.append(windows)
        if self._own is not None:
            self._own.walk(windows)
            self._rows.append(len(self._own.found()))

    def found(self) -> NDArray[Any]:
        """Return what all windows walked so far show of blocks: :meth:`SampleWalk.found`."""
        if self._own is None and self._first is not None and self._asked:
            return self._first.found()[: self._first._rows[len(self._asked) - 1]]
        return self._alone().found()

    @property
    def causes(self) -> NDArray[np.uint64]:
        """What the cycles of blocks in all windows walked so far were spent on: :attr:`SampleWalk.causes`."""
        if self._own is None and self._first is not None and len(self._asked) == len(self._first._asked):
            return self._first.causes
        return self._alone().causes

    def _goes_on_alike(self, windows: NDArray[np.uint32]) -> bool:
        number = len(self._asked)
        return (
            self._first is not None and number < len(self._first._asked) and np.array_equal(windows, self._first._asked[number])
        )

    def _alone(self) -> SampleWalk:
        return self._own if self._own is not None else self._walk_again()

    def _walk_again(self) -> SampleWalk:
        """Walk by itself from now on, and first what it was asked for before."""
        self._own = self._make()
        for windows in self._asked:
            self._own.walk(windows)
            self._rows.append(len(self._own.found()))
        return self._own

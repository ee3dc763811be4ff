"""Checks of user arrays before they go to the C core by address."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver.errors import SimulationError


class References(NamedTuple):
    """A stream of references as contiguous arrays of one length."""

    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint16] | None
    writes: NDArray[np.bool_] | None
    blocks: NDArray[np.uint32] | None


def _check(name: str, array: Any, dtypes: tuple[str, ...], length: int | None) -> NDArray[Any]:
    wanted = " or ".join(dtypes)
    if not isinstance(array, np.ndarray):
        raise SimulationError(f"{name} is {type(array).__name__}; give a numpy array of {wanted}.")
    if array.dtype not in [np.dtype(dtype) for dtype in dtypes]:
        raise SimulationError(f"{name} has the type {array.dtype}; convert it to {wanted} first.")
    if array.ndim != 1 or (length is not None and len(array) != length):
        shape = "a one-dimensional array" if length is None else f"{length} elements, one per address"
        raise SimulationError(f"{name} has the shape {array.shape}; {shape} is needed.")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise SimulationError(f"{name} is a strided or unaligned view; pass numpy.ascontiguousarray of it.")
    return array


def check_references(addresses: Any, sizes: Any = None, writes: Any = None, blocks: Any = None) -> References:
    """Return the arrays unchanged; only 8-bit sizes are widened.

    Raises :class:`SimulationError` for a wrong type, length or layout, and for a size of 0.
    """
    addresses = _check("addresses", addresses, ("uint64",), None)
    n = len(addresses)
    if sizes is not None:
        sizes = _check("sizes", sizes, ("uint8", "uint16"), n).astype(np.uint16, copy=False)
        if n and not sizes.min():
            raise SimulationError(f"sizes has a 0 at position {int(sizes.argmin())}; a reference touches at least one byte.")
    if writes is not None:
        writes = _check("writes", writes, ("bool",), n)
    if blocks is not None:
        blocks = _check("blocks", blocks, ("uint32",), n)
    return References(addresses, sizes, writes, blocks)

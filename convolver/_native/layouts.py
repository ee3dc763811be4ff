"""numpy layouts of the C core's structures, from what the compiler says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import ffi


def layout(name: str) -> np.dtype[Any]:
    """Return the dtype of a C structure of numbers, arrays of numbers and such structures, with its field names."""
    structure = ffi.typeof(name)
    fields = [(field.rstrip("_"), _format(about.type), about.offset) for field, about in structure.fields]
    names, formats, offsets = zip(*fields, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": ffi.sizeof(structure)})


def packed(name: str, **fields: int) -> bytes:
    """Return a C structure of numbers as bytes; fields that are not given are 0."""
    return bytes(ffi.buffer(ffi.new(f"{name} *", fields)))


def pointer(array: NDArray[Any] | None, ctype: str) -> Any:
    """Return a pointer to an array's memory, without a copy, read-only arrays included; the caller keeps the array alive."""
    return ffi.NULL if array is None else ffi.cast(ctype, array.__array_interface__["data"][0])


def copied(pointer: Any, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a copy of a C array."""
    if not count:
        return np.zeros(0, dtype=dtype)
    return np.frombuffer(ffi.buffer(pointer, count * dtype.itemsize), dtype=dtype).copy()


def _format(ctype: Any) -> Any:
    if ctype.kind == "array" and ctype.item.cname == "char":
        return f"S{ctype.length}"
    if ctype.kind == "array":
        return (_format(ctype.item), (ctype.length,))
    if ctype.kind == "struct":
        return layout(ctype.cname)
    letter = "f" if ctype.cname in ("double", "float") else "u" if ctype.cname.startswith("u") else "i"
    return f"{letter}{ffi.sizeof(ctype)}"

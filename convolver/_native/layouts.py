"""numpy layouts of the C core's structures, from what the compiler says of them."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def _format(ctype: Any) -> Any:
    if ctype.kind == "array" and ctype.item.cname == "char":
        return f"S{ctype.length}"
    if ctype.kind == "array":
        return (_format(ctype.item), (ctype.length,))
    if ctype.kind == "struct":
        return layout(ctype.cname)
    letter = "f" if ctype.cname in ("double", "float") else "u" if ctype.cname.startswith("u") else "i"
    return f"{letter}{ffi.sizeof(ctype)}"

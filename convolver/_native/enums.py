"""Names of the C core's enums; without numpy, for modules that every verb imports."""

from __future__ import annotations

from convolver._native._core import ffi


def enum_names(enum: str, prefix: str, between: str = "-") -> tuple[str, ...]:
    """Return the names in a C enum in the order of their numbers: without the prefix, lower case, words joined by ``between``."""
    names = (name for _, name in sorted(ffi.typeof(f"enum {enum}").elements.items()))
    return tuple(name.removeprefix(prefix).lower().replace("_", between) for name in names)

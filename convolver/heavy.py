"""Polars, loaded when something of it is first asked for: that takes longer than a verb may take to start."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any


class _LoadedLater:
    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._module), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import polars as pl
else:
    pl = _LoadedLater("polars")

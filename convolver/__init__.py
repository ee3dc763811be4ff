"""Convolver: a binary memory-trace convolver.

How fast will this program run on that machine? Profile the machine, trace the program once, analyze, convolve, predict::

    import convolver as cv

    host = cv.probe()
    trace = cv.trace(["./cg", "60"], output="cg.cvt")
    print(cv.predict(trace, base=host, target="desktop-32m").cpu_ratio)

Names are loaded on first use, so that importing the package costs nothing; ``__init__.pyi`` lists them, typed.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    line.split()[-1]: line.split()[1]
    for line in Path(__file__).with_suffix(".pyi").read_text().splitlines()
    if line.startswith("from ")
}
"""Public name -> its module: what the stub says, so that type checkers and the first use agree."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'convolver' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

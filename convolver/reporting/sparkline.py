"""A curve in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float]) -> str:
    """Return positive values as bars of their logarithm, the smallest value lowest; longer curves are thinned to 16 bars."""
    step = max(1, math.ceil(len(values) / 16))
    logs = [math.log(value) for value in values[::step]]
    low, high = min(logs), max(logs)
    if high - low < math.log(1.1):  # a flat curve shows no noise
        return BARS[0] * len(logs)
    return "".join(BARS[round((value - low) / (high - low) * (len(BARS) - 1))] for value in logs)

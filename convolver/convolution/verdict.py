"""What a comparison says in words: faster, slower, or cannot tell; and whether a prediction passes the check of its own base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from convolver.units import format_seconds

FASTER, SLOWER, CANNOT_TELL = "faster", "slower", "cannot tell"


def verdict(ends: Sequence[float] | None) -> str:
    """Return what the 90 % interval of a CPU ratio says of the target; without an interval nothing can be told."""
    if ends is None:
        return CANNOT_TELL
    low, high = ends
    return FASTER if low > 1 else SLOWER if high < 1 else CANNOT_TELL


def from_to(ends: Sequence[float] | None) -> str:
    """Return the ends of a ratio's interval."""
    return "-" if ends is None else f"{ends[0]:.3g} to {ends[1]:.3g}"


def seconds_from_to(ends: Sequence[float] | None) -> str:
    """Return the ends of a time's interval."""
    return "-" if ends is None else f"{format_seconds(ends[0])} to {format_seconds(ends[1])}"


class BaseCheck(NamedTuple):
    """Whether the measured time of the base lies in the predicted interval, and one sentence about it."""

    passed: bool
    sentence: str


def base_check(document: Mapping[str, Any]) -> BaseCheck | None:
    """Return the check of a prediction (docs/formats/prediction.md) on its base; None where nothing was measured."""
    measured, base = document["measured_seconds"], document["base"]
    if not measured:
        return None
    low, high = base["interval_seconds"]
    passed = low <= measured <= high
    error = (base["seconds"] - measured) / measured
    found = f"predicted {format_seconds(base['seconds'])} ({seconds_from_to((low, high))}), measured {format_seconds(measured)}"
    if passed:
        return BaseCheck(True, f"Check on {base['machine']}: {found} ({100 * error:+.1f} %), within the interval.")
    cause = "the machine was busy while it was profiled or measured, or the program waits, uses threads or starts other programs"
    return BaseCheck(
        False,
        f"Check failed on {base['machine']}: {found} ({100 * error:+.1f} %). Probably {cause}. "
        "Profile and measure it again on a quiet machine before you believe the rest.",
    )

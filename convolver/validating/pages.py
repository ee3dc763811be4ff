"""What a program gets of the pages that a condition asks for.

A huge page takes the place of 512 aligned ones in one mapping, and such a condition gives them only where the program's allocator
asks for them: so a program whose arrays are small, or static, gets none and runs as with the base's pages. In between, each page
is taken to be used as much as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from convolver.convolution.block_times import BlockTimes
from convolver.convolution.system_time import allocated_huge
from convolver.signature.signature import Signature
from convolver.validating.campaign import Condition


class PredictedSeconds(NamedTuple):
    """Seconds, the ends of their interval, and the system time among them."""

    total: tuple[float, float, float]
    system_seconds: float | None

    @classmethod
    def of(cls, times: BlockTimes) -> PredictedSeconds:
        """Return what block times predict in total: elapsed seconds where a second thread ran."""
        return cls(times.awaited, None if times.system is None else times.system.seconds)


def differ_in_pages(condition: Condition, base: Condition) -> bool:
    """Tell whether a condition is the base but for huge pages, which a program may get or not."""
    same = (condition.loaded_cpus, condition.profile) == (base.loaded_cpus, base.profile)
    return same and condition.pages == "thp" and base.pages != "thp"


def huge_share(system: Mapping[str, Any] | None) -> float:
    """Return which part of a program's own pages its allocator gets as huge ones, from what its signature says of the kernel's
    work; 1 where that says nothing."""
    pages = (system or {}).get("pages")
    if not pages or not pages["anonymous"]:
        return 1.0
    return min(allocated_huge(pages)[0] / pages["anonymous"], 1.0)


def of_both(huge: BlockTimes, small: BlockTimes, share: float) -> PredictedSeconds:
    """Return the time of a program that gets huge pages for a share, from its times with them alone and without any."""
    system, other = PredictedSeconds.of(huge).system_seconds, PredictedSeconds.of(small).system_seconds
    # The kernel's work counts the huge pages that the program gets already.
    shift = 0.0 if system is None or other is None else (1 - share) * (system - other)
    predicted, low, high = (share * one + (1 - share) * two + shift for one, two in zip(huge.awaited, small.awaited, strict=True))
    return PredictedSeconds((predicted, low, high), system)


def with_its_pages(
    condition: Condition, base: Condition, times: Mapping[str, BlockTimes], signature: Signature
) -> PredictedSeconds | None:
    """Return the time under a condition with huge pages of a program that gets them for a part of its memory, given its times by
    condition; None where the condition is none of huge pages, or differs from the base in more."""
    if base.name not in times or not differ_in_pages(condition, base):
        return None
    return of_both(times[condition.name], times[base.name], huge_share(signature.header.get("system")))

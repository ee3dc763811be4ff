"""What a calibration found, for terminals and as JSON."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from convolver.machine.maps import MEMORY
from convolver.reporting.console import out
from convolver.reporting.grid import grid

if TYPE_CHECKING:
    from convolver.machine.profile import MachineProfile


def calibration_document(profile: MachineProfile) -> dict[str, Any]:
    """Return the calibration without the residuals of single points; empty for a profile without one."""
    if profile.calibration is None:
        return {}
    document = msgspec.to_builtins(profile.calibration)
    document.pop("residuals")
    return {**document, "places": _levels(profile), "left_out_error": _by(profile, "place"), "kernels": _by(profile, "kernel")}


def _levels(profile: MachineProfile) -> list[str]:
    return [*(level.level for level in profile.hierarchy[1:]), MEMORY]


def _by(profile: MachineProfile, field: str) -> dict[str, float]:
    assert profile.calibration is not None
    groups: dict[str, list[float]] = {}
    for one in profile.calibration.residuals:
        groups.setdefault(getattr(one, field), []).append(abs(math.expm1(one.error)))
    return {name: round(median(values), 4) for name, values in groups.items()}


def print_calibration(profile: MachineProfile) -> None:
    """Print the coefficients and how far the model errs on kernels left out of the fit."""
    found = profile.calibration
    assert found is not None
    table = grid(["level"], ["sequential line", "random line", "write-back", "latency"])
    columns = (found.sequential, found.random, found.write_back, found.latency)
    for name, *values in zip(_levels(profile), *columns, strict=True):
        table.add_row(name, *(f"{1e9 * value:.3g} ns" for value in values))
    console = out()
    console.print(table)
    console.print(
        f"A line left out of a strided stream costs {100 * found.between:.0f} % of one, a line from memory in a stream that "
        f"comes alone up to {100 * found.alone:.0f} % more, a line on its way {1e9 * found.coming:.2g} ns; "
        f"{found.window:.0f} loads a window; exponent {found.exponent:.2f}."
    )
    last = profile.hierarchy[-1]
    if found.page_entries:
        console.print(
            f"{found.page_entries} translations of pages are kept; another costs {1e9 * found.walk:.2g} ns beside others, "
            f"{1e9 * found.walk_latency:.3g} ns in a chain."
        )
    if found.scattered_share:
        size = found.scattered_share * last.size_bytes / 2**20
        console.print(f"Lines out of order find {size:.3g} MiB of the last level {last.level}.")
    console.print(
        f"{found.points} points, last level {last.level} of {last.size_bytes / 2**20:.3g} MiB. With each kernel left out in "
        f"turn, the median error is {100 * found.median_error:.1f} %, the mean {100 * found.mean_error:.1f} %."
    )
    for title, field in (("level", "place"), ("kernel", "kernel")):
        parts = ", ".join(f"{name} {100 * value:.0f}" for name, value in _by(profile, field).items())
        console.print(f"Median error in % by {title}: {parts}.")

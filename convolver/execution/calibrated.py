"""A core table with what the machine's own probes measured in place of what was published.

Probe kernels that are chains give latencies, those that are independent say how long a unit is busy, and the chase in the first
level gives the load latency; all over the kernel of one-cycle additions. A measured value replaces the table's when it is a
whole number of cycles: a disturbed probe must not undo a published figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from convolver.errors import PredictionError
from convolver.machine.cores import CoreTable

if TYPE_CHECKING:
    from convolver.machine.profile import MachineProfile

LATENCIES = {
    "add_latency": ("fp_add", "chained_latency"),
    "multiply_latency": ("fp_multiply", "latency"),
    "fma_latency": ("fp_fma", "latency"),
}
BUSY = {8: "divide_double", 16: "divide_double_16", 32: "divide_double_32"}
ROUNDING = 0.15
"""A measured time must lie so near a whole number of cycles, in cycles (or this share of it, where that is more)."""


def _cycles(seconds: float, cycle: float) -> int | None:
    """Return a time as a whole number of cycles, or None where it is none."""
    exact = seconds / cycle
    whole = round(exact)
    return whole if whole >= 1 and abs(exact - whole) <= max(ROUNDING, ROUNDING / 4 * whole) else None


def _measured(machine: MachineProfile, operation: str, width_bytes: int = 8) -> float | None:
    found = [one for one in machine.floating_point if one.operation == operation and one.width_bytes == width_bytes]
    return found[0].seconds if found else None


def calibrated_core(table: CoreTable, machine: MachineProfile) -> tuple[CoreTable, dict[str, Any]]:
    """Return the table with the machine's measured values, and those values by name; unchanged without probes."""
    try:
        cycle = machine.throughput("cycle").seconds
    except PredictionError:
        return table, {}
    used: dict[str, Any] = {}

    def take(kind: str, field: str, seconds: float | None) -> None:
        nonlocal table
        value = None if seconds is None else _cycles(seconds, cycle)
        if value is not None:
            table = table.with_kind(kind, **{field: value})
            used[f"{kind}.{field}"] = value

    for operation, (kind, field) in LATENCIES.items():
        take(kind, field, _measured(machine, operation))
    for width, kind in BUSY.items():
        take(kind, "busy", _measured(machine, "divide", width))
    if "fp_add.chained_latency" in used and table.kind("fp_add").latency < used["fp_add.chained_latency"]:
        take("fp_add", "latency", _measured(machine, "add_latency"))
    load = _first_level_latency(machine, cycle)
    if load is not None:
        vector = table.params["vector_load_latency"] + load - table.params["load_latency"]
        table = table.with_params(load_latency=load, vector_load_latency=vector)
        used["load_latency"] = load
    return table, used


def _first_level_latency(machine: MachineProfile, cycle: float) -> int | None:
    try:
        return _cycles(machine.plateau("chase", "load", machine.hierarchy[0].level).seconds_per_reference, cycle)
    except PredictionError:
        return None

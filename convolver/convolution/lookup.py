"""The machine's side of Equation 1: which costs stand for which kind of reference, with what is missing replaced and named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from convolver.convolution.costs import PatternCost, pattern_cost
from convolver.errors import PredictionError
from convolver.machine.maps import plateau

if TYPE_CHECKING:
    from convolver.machine.profile import Curve, MachineProfile


@dataclass(frozen=True)
class MachineCosts:
    """Costs of every kind of reference on one machine, in seconds.

    ``loads`` and ``stores`` hold the unit-stride costs by width in bytes; ``write_back`` the extra cost of a dirty line that
    leaves level k (one entry a level); ``shared_ports`` says how much of the shorter of a block's load and store time comes on
    top of the longer (0: they run side by side, 1: they add up); ``assumptions`` has one sentence for each number that had to be
    replaced.
    """

    loads: dict[int, PatternCost]
    strided: PatternCost
    random: PatternCost
    dependent: PatternCost
    stores: dict[int, PatternCost]
    write_back: tuple[float, ...]
    shared_ports: float
    flop_seconds: dict[int, float]
    instruction_seconds: float
    assumptions: tuple[str, ...] = field(default=())


def machine_costs(machine: MachineProfile) -> MachineCosts:
    """Derive all costs from a profile.

    Raises :class:`PredictionError` when the profile has no unit-stride load curve: nothing can be said then; and when a level has
    a prefetcher, which the curves were measured with. Any other curve that is missing is replaced by the nearest that is there,
    and the replacement is listed among the assumptions.
    """
    notes: list[str] = []
    levels = machine.hierarchy
    fetching = [level.level for level in levels if level.prefetcher]
    if fetching:
        raise PredictionError(
            f"The machine '{machine.name}' has a prefetcher in {', '.join(fetching)}, which times would count twice, since the "
            "curves contain it; use the profile for hit rates, and one without prefetchers for times."
        )
    loads = _by_width(machine, "load")
    if not loads:
        machine.curve("unit", "load")  # raises with the right words
        raise PredictionError(f"The machine '{machine.name}' has no unit-stride load curve; probe it again.")
    scalar = loads[_nearest_to_word(loads)]
    stores = _by_width(machine, "store")
    if not stores:
        notes.append("no store curve: stores cost what loads do, write-backs are free")
        stores = loads
    random = _one(machine, ("random", "chase"), notes) or scalar
    dependent = _one(machine, ("chase", "random"), notes) or random
    strided = _strided(machine, notes) or scalar
    for cost in {scalar, strided, random, dependent}:
        names = [*(level.level for level in levels[1:]), "memory"]
        far = [name for name, guess in zip(names, cost.extrapolated, strict=True) if guess]
        if far:
            notes.append(f"the {cost.kernel} curve has no point in {', '.join(far)}: its nearest end stands for it")
    return MachineCosts(
        loads=loads,
        strided=strided,
        random=random,
        dependent=dependent,
        stores=stores,
        write_back=_write_back(scalar, stores[_nearest_to_word(stores)]),
        shared_ports=_shared_ports(machine, loads, stores, notes),
        flop_seconds=_flop_seconds(machine, notes),
        instruction_seconds=_instruction_seconds(machine, notes),
        assumptions=tuple(sorted(notes)),
    )


def _nearest_to_word(widths: Iterable[int]) -> int:
    return min(widths, key=lambda width: abs(width - 8))


def _shared_ports(
    machine: MachineProfile, loads: dict[int, PatternCost], stores: dict[int, PatternCost], notes: list[str]
) -> float:
    """Return what a copy loop in the first level says: its pair of a load and a store costs the longer of the two alone plus this
    share of the shorter."""
    copies = [c for c in machine.maps if c.pattern == "unit" and c.operation == "copy" and _single(c)]
    if not copies:
        notes.append("no copy curve: loads and stores do not overlap")
        return 1.0
    curve = min(copies, key=lambda one: abs(one.width_bytes - 8))
    pair = 2 * plateau(curve, machine.hierarchy, machine.hierarchy[0].level).seconds_per_reference
    alone = [costs[_nearest_to_word(costs)].reference_seconds for costs in (loads, stores)]
    return min(1.0, max(0.0, (pair - max(alone)) / min(alone)))


def _single(curve: Curve) -> bool:
    return curve.threads == 1 and curve.chains == 1


def _by_width(machine: MachineProfile, operation: str) -> dict[int, PatternCost]:
    found = {}
    for curve in machine.maps:
        if curve.pattern == "unit" and curve.operation == operation and _single(curve) and curve.width_bytes not in found:
            found[curve.width_bytes] = pattern_cost(curve, machine.hierarchy)
    return found


def _one(machine: MachineProfile, patterns: Sequence[str], notes: list[str]) -> PatternCost | None:
    """Return the cost of the first pattern that was measured; note it where that is not the first choice."""
    for pattern in patterns:
        curves = [c for c in machine.maps if c.pattern == pattern and c.operation == "load" and _single(c)]
        if curves:
            if pattern != patterns[0]:
                notes.append(f"no {patterns[0]} curve: {pattern} stands for it")
            return pattern_cost(min(curves, key=lambda curve: abs(curve.width_bytes - 8)), machine.hierarchy)
    notes.append(f"no {patterns[0]} curve: the next better pattern stands for it")
    return None


def _strided(machine: MachineProfile, notes: list[str]) -> PatternCost | None:
    """Return the cost of a stride of one line: the widest step that still touches every line."""
    line_bytes = machine.hierarchy[0].line_bytes
    curves = [c for c in machine.maps if c.pattern == "stride" and c.operation == "load" and _single(c)]
    if not curves:
        notes.append("no strided curve: unit stride stands for it")
        return None
    return pattern_cost(min(curves, key=lambda curve: abs(curve.stride_bytes - line_bytes)), machine.hierarchy)


def _write_back(load: PatternCost, store: PatternCost) -> tuple[float, ...]:
    """Return the extra cost of a dirty line leaving level k: what a store stream pays for a line over a load stream, by step.

    A store stream out of level k fetches each line and later writes it back through every level before k, so what a level takes
    is its difference from the level before.
    """
    steps, before = [], 0.0
    for load_seconds, store_seconds in zip(load.line_seconds, store.line_seconds, strict=True):
        whole = max(before, store_seconds - load_seconds)
        steps.append(whole - before)
        before = whole
    return tuple(steps)


def _flop_seconds(machine: MachineProfile, notes: list[str]) -> dict[int, float]:
    """Return seconds per floating-point operation by operand width (an even mix of additions and multiplications)."""
    widths = sorted({entry.width_bytes for entry in machine.floating_point if entry.flops})
    try:
        return {width: 1.0 / machine.flop_rate("mixed", width_bytes=width) for width in widths}
    except PredictionError:
        widths = []
    finally:
        if not widths:
            notes.append("no floating-point rate: that work costs nothing")
    return {}


def _instruction_seconds(machine: MachineProfile, notes: list[str]) -> float:
    try:
        return machine.instruction_seconds
    except PredictionError:
        notes.append("no instruction rate: instruction issue costs nothing")
        return 0.0

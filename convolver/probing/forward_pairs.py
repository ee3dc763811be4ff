"""How many loads a core renames to the stores that they read from, and how it knows them.

In a loop of so many pairs of a store and a load of it, whose addresses are in two registers, a pair takes a cycle or less while
the core foresees each load's store, and all that forwarding takes once there are more loads than it can keep. Pairs whose address
is named by one register, which stays as it is, may be known by that name, as may those of push and pop, however many there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from convolver.machine.core_figures import CoreFigure

PAIRS = "pairs."
"""What the samples of pairs are called: a number of pairs whose load names another register, or one of these."""
STACK, NAMED = "stack", "named"
RENAMED = 2.0
"""Cycles of a pair below which the load was renamed."""


def pair_figures(pairs: Mapping[str, Sequence[float]]) -> list[CoreFigure]:
    """Return ``forward.pairs``, the most loads that are foreseen, ``forward.named`` (1: push and pop are known by name, 2: any
    register) and ``forward.late``, the cycles of a pair that is not foreseen, from sorted samples; nothing where none is."""
    cycles = {name: samples[len(samples) // 4] for name, samples in pairs.items() if samples}
    counts = sorted(int(name) for name in cycles if name.isdigit())
    late = [count for count in counts if cycles[str(count)] >= RENAMED]
    foreseen = [count for count in counts if count < min(late, default=counts[-1] + 1)] if counts else []
    if not foreseen or not late:
        return []
    exact = [("forward.pairs", foreseen[-1])]
    if cycles.get(STACK, RENAMED) < RENAMED:
        exact.append(("forward.named", 2 if cycles.get(NAMED, RENAMED) < RENAMED else 1))
    found = [CoreFigure.exact(name, value) for name, value in exact]
    late_pairs = CoreFigure.of_samples("forward.late", pairs[str(counts[-1])])
    return found if late_pairs is None else [*found, late_pairs]

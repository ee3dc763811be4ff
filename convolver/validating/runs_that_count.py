"""Which native runs of a program count, and what they would have taken on a core of their own.

While another VM's thread shares the core, a program goes on at a part of its speed. So the mean speed of a run falls in
proportion to the share of its time in which the core was shared, which the cycles of a taken branch show
(:mod:`convolver.validating.sharing`). A line through the speeds of many runs tells the speed at the cycles of a core alone, even
where no run had the core for itself all the time. The line is Theil's: the median of the slopes between pairs of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median

import msgspec

from convolver.validating.running import NativeRun
from convolver.validating.sharing import SHARED, SHARED_RUN, is_shared

DISTURBED = 0.1
"""Share of all CPUs that others and the hypervisor may take during a run before it counts as disturbed."""
LEAST_UNDISTURBED = 5
"""So many runs on a core alone say more than a line through all of them."""
LEAST_PAIRS = 20
"""Of runs with clearly different sharing, for a line."""


def undisturbed(run: NativeRun, alone: float) -> bool:
    """Tell whether nothing disturbed a run: neither other programs nor a thread on the same core, whose taken branches take
    ``alone`` cycles by themselves (0: unknown)."""
    return _others_rested(run) and not is_shared(run.witness_cycles, alone, SHARED_RUN)


def chosen_runs(runs: Sequence[NativeRun], alone: float = 0.0) -> Sequence[NativeRun]:
    """Return the runs that count: the undisturbed ones; where these are few, all beside which no other program ran, with times
    as on a core alone where a line through their speeds tells them; else the one whose core was shared least.

    Predictions are for a machine as its probe found it, and a probe keeps its quietest samples, too. Among runs that nobody
    looked at, or with the same sharing, the shortest counts, since disturbances only add time.
    """
    kept = [run for run in runs if undisturbed(run, alone)]
    if len(kept) >= LEAST_UNDISTURBED:
        return kept
    return _as_alone(runs, alone) or kept or sorted(runs, key=lambda run: (run.witness_cycles, run.processor_seconds))[:1]


def _others_rested(run: NativeRun) -> bool:
    return run.others + run.steal <= DISTURBED


def _as_alone(runs: Sequence[NativeRun], alone: float) -> list[NativeRun]:
    """Return the runs beside which no other program ran, with their times on a core alone; none where no line tells them."""
    seen = [run for run in runs if _others_rested(run) and run.witness_cycles > 0 and run.processor_seconds > 0]
    slopes = [
        (1 / two.processor_seconds - 1 / one.processor_seconds) / (two.witness_cycles - one.witness_cycles)
        for one, two in combinations(seen, 2)
        if abs(two.witness_cycles - one.witness_cycles) > (SHARED - 1) * alone
    ]
    if not alone or len(slopes) < LEAST_PAIRS:
        return []
    slope = min(median(slopes), 0.0)  # sharing makes nothing faster
    return [_scaled(run, 1 / (1 - slope * (run.witness_cycles - alone) * run.processor_seconds)) for run in seen]


def _scaled(run: NativeRun, factor: float) -> NativeRun:
    times = {name: getattr(run, name) * factor for name in ("wall_seconds", "user_seconds", "system_seconds")}
    return msgspec.structs.replace(run, **times)

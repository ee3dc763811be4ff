"""Campaign: linear models T(P, L, BW) of real traces, one for each process count, swept by this package's own replay.

    python tests/bench/models_linear.py [--shared] [--wire] [--counted] [--critical-path] TRACE_P4 TRACE_P9 ...

Traces of clocks are SMPI's (smpirun -trace-ti --cfg=smpi/host-speed:1Gf), counted ones are made with

    convolver mpi count -o bt.16.txt -- smpirun -np 16 -platform cluster.xml -hostfile hosts ./bt.A.x

Every trace is replayed on 200 random platforms to fit and on 200 others to validate; the locality factor is that of its own total
CPU time. --shared: the work between two MPI calls is the median over all ranks (whose calls must be alike), which takes away the
noise of the machine where SMPI measured it, and any imbalance of the program. --wire: latency in the network, not on the sender.
--counted: traces of `convolver mpi count` with SMPI; the work before the first MPI call is left out, as it is the simulator's,
which loads the program once a rank (38.7 million instructions on one of 25 ranks, where a rank of SP has 179 million).
--critical-path: the factors of the critical path (an ideal network) in place of locality's.
"""

import sys
import warnings
from itertools import pairwise

import numpy as np
from models_p3s import read as read_counted

from convolver.modeling.base import fit
from convolver.modeling.cross_validation import per_group
from convolver.modeling.linear import fit_per_p
from convolver.modeling.model_artifact import Model
from convolver.modeling.storm import critical_path_factors, ideal_seconds, locality_factors, total_cpu_seconds
from convolver.modeling.table import Observations
from convolver.mpi.events import EventKind, Events
from convolver.mpi.sweep import Range, SweepPlan
from convolver.mpi.time_independent import read_ti, to_events
from tests.in_memory_sweep import ReplaySimulator, platforms_of, sweep

LEVELS = (0.8, 0.9, 0.95)
RANGES = {"latency_seconds": Range(1e-6, 1e-4, "log"), "bandwidth_bytes_per_second": Range(2e7, 1e9, "log")}


def shared_work(events: Events) -> Events:
    """Give every rank the median work of all ranks between the same two MPI calls."""
    burst, seconds = events.columns["kind"] == EventKind.BURST, events.columns["seconds"]
    ranks = [slice(*bounds) for bounds in pairwise(events.first.tolist())]
    gaps = [np.cumsum(~burst[rank]) for rank in ranks]
    sums = np.array(
        [np.bincount(gap[burst[rank]], seconds[rank][burst[rank]], gap[-1] + 1) for gap, rank in zip(gaps, ranks, strict=True)]
    )
    work, result = np.median(sums, axis=0), np.zeros_like(seconds)
    for gap, rank in zip(gaps, ranks, strict=True):
        places = np.flatnonzero(burst[rank])
        found, first = np.unique(gap[places], return_index=True)
        result[rank.start + places[first]] = work[found]
    return events.with_columns(seconds=result)


def show_intervals(model: Model, held: Observations) -> None:
    """Print which share of platforms that the fit has not seen lie in its intervals, and how wide these are."""
    for level in LEVELS:
        found = model.predict(held.x, level)
        if np.isnan(found.low).all():
            print(f"  {model.kind}: no intervals")
            return
        inside = (found.low <= held.y) & (held.y <= found.high)
        each = ", ".join(f"P {count:.0f} {inside[held.x['P'] == count].mean():.1%}" for count in np.unique(held.x["P"]))
        half = 50 * np.median((found.high - found.low) / found.values)
        print(f"  {model.kind}, intervals of {level:.0%} hold {inside.mean():.1%} ({each}); median +-{half:.3f} %")


def main(paths: list[str], shared: bool, wire: bool, counted: bool, critical: bool) -> None:
    simulator = ReplaySimulator("wire" if wire else "start-up")
    traces = map(read_counted if counted else read_ti, paths)
    events = {len(trace): to_events(trace, seconds_per_work=1e-9) for trace in traces}
    if shared:
        events = {count: shared_work(trace) for count, trace in events.items()}
    factors = locality_factors({count: total_cpu_seconds(trace) for count, trace in events.items()})
    if critical:
        factors = critical_path_factors({count: ideal_seconds(trace, simulator) for count, trace in events.items()})
    tables = [sweep(events, platforms_of(SweepPlan(RANGES, 200, seed, "random")), simulator) for seed in (0, 1)]
    train, held = (table.observations("time", ["P", "L", "BW"], center="none") for table in tables)
    for count, part in fit_per_p(train).items():
        rows = held.x["P"] == count
        own = part.alpha + part.beta * held.x["L"][rows] + part.gamma / held.x["BW"][rows]
        error = 100 * np.abs(own / held.y[rows] - 1).max()
        print(
            f"P {count:3} alpha {part.alpha:.4g} beta {part.beta:.4g} gamma {part.gamma:.4g} factor {factors[count]:.3f} "
            f"held-out max {error:.3f} %"
        )
    longest = fit("paths", tables[0], target="time", features=["P", "L", "BW"], center="none")
    for row in per_group(held.x["P"], held.y, longest.apply(held.x)):
        number = longest.quality[f"paths_P{row['group']:.0f}"]
        print(f"P {row['group']:3.0f}: longest of {number} paths, held-out max {100 * row['max']:.3f} %")
    show_intervals(longest, held)
    over_p = {f"basis {basis}": ("linear", {"basis": basis}) for basis in ("evidence", "paper")}
    for title, (kind, options) in {**over_p, "scaled paths": ("scaled-paths", {})}.items():
        model = fit(kind, tables[0], target="time", features=["P", "L", "BW"], center="none", locality=factors, **options)
        print(f"{title}: {model.equation(5)}")
        if kind == "scaled-paths":
            print("  " + ", ".join(f"{term.expression} {term.coefficient:.4g}" for term in model.terms))
        rows = per_group(held.x["P"], held.y, model.apply(held.x))
        for row in rows:
            print(f"  equation 2, P {row['group']:.0f}: mean {100 * row['mean']:.2f} % max {100 * row['max']:.2f} %")
        print(f"  equation 2, held out, all P: max {100 * max(row['max'] for row in rows):.2f} %")
        show_intervals(model, held)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    words = set(sys.argv[1:])
    options = [f"--{name}" in words for name in ("shared", "wire", "counted", "critical-path")]
    main([word for word in sys.argv[1:] if not word.startswith("--")], *options)

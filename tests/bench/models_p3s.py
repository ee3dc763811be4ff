"""Campaign: P3S on counted traces (`convolver mpi count`): calls, sizes and time of process counts up to four times the traced.

    python tests/bench/models_p3s.py SIZE TRACE TRACE TRACE -- TRACE...     (train -- targets; SIZE: grid points a side)

Real and predicted trace are replayed on one network (5 us, 1 GB/s, one nanosecond an instruction). Baselines are fitted to the
replayed times of the training traces alone. What runs before the first MPI call is left out on both sides: it is the simulator
that loads the program once a rank.
"""

import sys
import time
from dataclasses import replace

import numpy as np

from convolver.modeling.baseline import baselines
from convolver.modeling.p3s.slt import build
from convolver.modeling.table import Observations
from convolver.mpi.network import flat_configuration
from convolver.mpi.replay import Replayer
from convolver.mpi.time_independent import Trace, read_ti, to_events


def begun(trace: Trace) -> Trace:
    """Return a trace without what runs before the first MPI call."""
    return [[replace(rank[0], work=0.0), *rank[1:]] for rank in trace]


def read(path: str) -> Trace:
    return begun(read_ti(path))


def seconds(trace: Trace) -> float:
    network = flat_configuration(len(trace), latency_seconds=5e-6, bandwidth_bytes_per_second=1e9)
    return float(Replayer(to_events(trace, seconds_per_work=1e-9)).seconds(network).max())


def compare(real: Trace, made: Trace) -> tuple[float, float]:
    """Return the share of calls whose operation and partner are right, and the mean relative error of sizes above 0."""
    pairs = [(a, b) for ours, theirs in zip(made, real, strict=True) for a, b in zip(ours, theirs, strict=False)]
    right = sum((a.name, a.partner) == (b.name, b.partner) for a, b in pairs) / sum(map(len, real))
    sizes = [abs(a.bytes / b.bytes - 1) for a, b in pairs if b.bytes and b.name != "wait"]
    return right if list(map(len, real)) == list(map(len, made)) else 0.0, float(np.mean(sizes))


def main(size: int, train: list[str], targets: list[str]) -> None:
    traces = {len(trace): trace for trace in map(read, train)}
    began = time.perf_counter()
    scalable = build(traces, sizes_to_try=(size,))
    took = time.perf_counter() - began
    print(f"traced {', '.join(map(str, traces))}; related in {took:.1f} s; total work changes by {100 * scalable.drift():.1f} %")
    known = {count: seconds(trace) for count, trace in traces.items()}
    data = Observations("time", "s", {"P": np.array(list(known), dtype=float)}, np.array(list(known.values())))
    errors: dict[str, list[float]] = {}
    for real in map(read, targets):
        count = len(real)
        made = scalable.at(count)
        right, sizes = compare(real, made)
        truth, predicted = seconds(real), seconds(made)
        rows = {"P3S": predicted / truth - 1}
        for one in baselines(data):
            rows[one.name] = float(eval(one.formula.replace("^", "**"), {"P": float(count)})) / truth - 1
        for name, error in rows.items():
            errors.setdefault(name, []).append(100 * abs(error))
        print(f"  P {count:3}: calls right {100 * right:.2f} %, sizes {100 * sizes:.2f} %, time {100 * rows['P3S']:+.2f} %")
    for name, listed in errors.items():
        print(f"  {name:16} mean {np.mean(listed):6.2f} % max {max(listed):6.2f} %")


if __name__ == "__main__":
    words = sys.argv[1:]
    at = words.index("--")
    main(int(words[0]), words[1:at], words[at + 1 :])

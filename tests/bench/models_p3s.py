"""Campaign: P3S on counted traces (`convolver mpi count`): calls, sizes and time of process counts up to four times the traced.

    python tests/bench/models_p3s.py SIZE TRAIN... --target TRACE... [--keep FILE]     (SIZE: grid points a side)

Real and predicted trace are replayed on one network (5 us, 1 GB/s, one nanosecond an instruction). Baselines are fitted to the
replayed times of the training traces alone. What runs before the first MPI call is left out on both sides: it is the simulator
that loads the program once a rank. With --keep the rows of every target go to FILE (JSON) at once: run one program a call, start
it again after an interruption, targets that FILE has are not run again; the means are those of all programs in FILE.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from convolver.modeling.base import baselines
from convolver.modeling.p3s.slt import build
from convolver.modeling.table import Observations
from convolver.mpi.network import flat_configuration
from convolver.mpi.network_replay import Replayer
from convolver.mpi.time_independent import Trace, read_ti, to_events


def begun(trace: Trace) -> Trace:
    """Return a trace without what runs before the first MPI call."""
    return [[replace(rank[0], work=0.0), *rank[1:]] for rank in trace]


def read(path: str) -> Trace:
    return begun(read_ti(path))


def seconds(trace: Trace, *, seconds_per_work: float = 1e-9) -> float:
    network = flat_configuration(len(trace), latency_seconds=5e-6, bandwidth_bytes_per_second=1e9)
    return float(Replayer(to_events(trace, seconds_per_work=seconds_per_work)).seconds(network).max())


def parser_of(description: str | None, *, train: str = "train") -> argparse.ArgumentParser:
    """Return what the campaigns of P3S begin their command lines with: the size and the traces to learn from."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", type=int)
    parser.add_argument(train, nargs="+")
    return parser


def compare(real: Trace, made: Trace) -> tuple[float, float]:
    """Return the share of calls whose operation and partner are right, and the mean relative error of sizes above 0.

    Ranks that make other numbers of calls are compared in neither: 0 and NaN.
    """
    if list(map(len, real)) != list(map(len, made)):
        return 0.0, float("nan")
    pairs = [(a, b) for ours, theirs in zip(made, real, strict=True) for a, b in zip(ours, theirs, strict=True)]
    right = sum((a.name, a.partner) == (b.name, b.partner) for a, b in pairs) / sum(map(len, real))
    sizes = [abs(a.bytes / b.bytes - 1) for a, b in pairs if b.bytes and b.name != "wait"]
    return right, float(np.mean(sizes))


Row = dict[str, float]


def predicted(size: int, train: list[str], targets: list[str], keep: dict[str, Row], save: Path | None) -> None:
    """Add the errors of each target that is not there yet, in percent."""
    missing = [path for path in targets if path not in keep]
    if not missing:
        return
    traces = {len(trace): trace for trace in map(read, train)}
    began = time.perf_counter()
    scalable = build(traces, sizes_to_try=(size,))
    took = time.perf_counter() - began
    print(f"traced {', '.join(map(str, traces))}; related in {took:.1f} s; total work changes by {100 * scalable.drift():.1f} %")
    known = {count: seconds(trace) for count, trace in traces.items()}
    data = Observations("time", "s", {"P": np.array(list(known), dtype=float)}, np.array(list(known.values())))
    for path in missing:
        real = read(path)
        count = len(real)
        made = scalable.at(count)
        right, sizes = compare(real, made)
        truth = seconds(real)
        rows = {"P": float(count), "calls": 100 * right, "sizes": 100 * sizes, "P3S": 100 * (seconds(made) / truth - 1)}
        for one in baselines(data):
            rows[one.name] = 100 * (float(eval(one.formula.replace("^", "**"), {"P": float(count)})) / truth - 1)
        keep[path] = rows
        if save is not None:
            save.write_text(json.dumps(keep, indent=1) + "\n")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--target", nargs="+", required=True)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    keep: dict[str, Row] = json.loads(given.keep.read_text()) if given.keep is not None and given.keep.exists() else {}
    predicted(given.size, given.train, given.target, keep, given.keep)
    for path, row in keep.items():
        print(f"  {path}: calls right {row['calls']:.2f} %, sizes {row['sizes']:.2f} %, time {row['P3S']:+.2f} %")
    for name in [name for name in next(iter(keep.values())) if name not in ("P", "calls", "sizes")]:
        errors = [abs(row[name]) for row in keep.values() if name in row]
        print(f"  {name:16} mean {np.mean(errors):6.2f} % max {max(errors):6.2f} %, {len(errors)} targets")


if __name__ == "__main__":
    main()

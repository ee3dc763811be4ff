"""Campaign: measurable points (P3S): what the seconds of smaller workloads on few real ranks do to the predicted time.

    python tests/bench/models_p3s_points.py SIZE TRAIN... --point COUNTED,TIMED,... --target TIMED,TIMED,...

TRAIN are counted traces of real ranks (`convolver mpi count`), a point is a counted trace and timed ones (`convolver mpi trace`)
of one smaller workload, a target timed recordings of the program on more ranks. Bursts last their processor time, the median of
the recordings, so that other ranks on the same processor only show in its caches. Computation is the mean of the ranks; times
are replays at 5 us and 1 GB/s, of the recorded and of the predicted trace. What runs before the first MPI call is left out on
both sides. `one rate` is the first point's mean (give the training workload itself there).
"""

from dataclasses import replace

import numpy as np
from models_p3s import begun, parser_of, seconds

from convolver.modeling.p3s.p3s_traces import read_trace
from convolver.modeling.p3s.points import NANOSECOND, Rates, measured_rates, medians
from convolver.modeling.p3s.slt import build
from convolver.mpi.time_independent import Trace


def read(path: str) -> Trace:
    return begun(read_trace(path))


def recorded(paths: list[str]) -> Trace:
    """Return one trace in seconds: the median of recordings before each call."""
    traces = [read(path) for path in paths]
    ranks = zip(traces[0], medians(traces), strict=True)
    return [[replace(o, work=work * NANOSECOND) for o, work in zip(rank, works, strict=True)] for rank, works in ranks]


def computed(trace: Trace) -> float:
    return float(np.mean([sum(o.work for o in rank) for rank in trace]))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--point", action="append", required=True)
    parser.add_argument("--target", action="append", required=True)
    given = parser.parse_args()
    traces = {len(trace): trace for trace in map(read, given.train)}
    scalable = build(traces, sizes_to_try=(given.size,))
    points = [[read(name) for name in point.split(",")] for point in given.point]
    base = measured_rates(scalable.root, points[:1])
    rates = {"one rate": Rates(base.points, {}), "first point": base, "all points": measured_rates(scalable.root, points)}
    if len(points) > 1:
        rates["smaller points"] = measured_rates(scalable.root, points[1:])
    for one in rates["all points"].points:
        print(f"  point: {one.ranks} ranks, {one.instructions:.4g} instructions each, {1e9 * one.seconds_per_instruction:.4f} ns")
    for paths in given.target:
        real = recorded(paths.split(","))
        count, truth, whole = len(real), computed(real), seconds(real, seconds_per_work=1.0)
        work = computed(begun(scalable.at(count)))
        spread = ", ".join(f"{1e3 * NANOSECOND * computed(read(path)):.3g}" for path in paths.split(","))
        print(f"P {count}: {work:.4g} instructions a rank, {1e9 * truth / work:.4f} ns each ({spread} ms), {1e3 * whole:.3g} ms")
        for name, known in rates.items():
            made = begun(scalable.at(count, known))
            computation, time = (
                100 * (ours / theirs - 1)
                for ours, theirs in ((computed(made), truth), (seconds(made, seconds_per_work=1.0), whole))
            )
            print(f"  {name:15} computation {computation:+6.1f} %, time {time:+6.1f} %")


if __name__ == "__main__":
    main()

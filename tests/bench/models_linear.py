"""Campaign: linear models T(P, L, BW) of scalable traces of NPB codes, swept by this package's own replay.

    python tests/bench/models_linear.py SIZE TRACE_P9 TRACE_P16 TRACE_P25     (SimGrid SMPI: -trace-ti)

The traces give the scalable trace; it is cut to 20 steps and made for six process counts, each swept with 200 random platforms to
fit and 100 others to validate.
"""

import sys
import warnings

import numpy as np

from convolver.modeling import fit
from convolver.modeling.linear import fit_per_p, validate
from convolver.modeling.p3s.slt import Part, build
from convolver.modeling.p3s.trace import read_ti, to_events
from convolver.modeling.p3s.weight import fit_weight
from convolver.modeling.storm import ReplaySimulator, sample_platforms, sweep

COUNTS = (9, 16, 25, 36, 49, 64)
RANGES = {"latency_seconds": (1e-6, 1e-4), "bandwidth_bytes_per_second": (2e7, 1e9)}


def shorten(part: Part, steps: int) -> None:
    """Cut the longest loop to a number of steps and its work with it."""
    longest = max((child for child in part.body if child.count), key=lambda child: child.count(25))
    ratio = steps / longest.count(25)
    longest.count = fit_weight(dict.fromkeys((9, 16, 25), steps))
    _scale(longest, ratio)


def _scale(part: Part, ratio: float) -> None:
    part.total_work *= ratio
    for child in part.body:
        _scale(child, ratio)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    size, paths = int(sys.argv[1]), sys.argv[2:]
    scalable = build({len(trace): trace for trace in map(read_ti, paths)}, sizes_to_try=(size,))
    shorten(scalable.root, 20)
    simulator = ReplaySimulator()
    events = {count: to_events(scalable.at(count), seconds_per_work=1e-9) for count in COUNTS}
    tables = [sweep(events, sample_platforms(n, **RANGES, seed=s), simulator) for n, s in ((200, 0), (100, 1))]
    train, held = (table.observations("time", ["P", "L", "BW"], centre="none") for table in tables)
    for count, part in fit_per_p(train).items():
        rows = held.x["P"] == count
        own = part.alpha + part.beta * held.x["L"][rows] + part.gamma / held.x["BW"][rows]
        error = 100 * np.abs(own / held.y[rows] - 1).max()
        print(f"P {count:3} alpha {part.alpha:.4g} beta {part.beta:.4g} gamma {part.gamma:.4g} held-out max {error:.3f} %")
    model = fit("linear", tables[0], target="time", features=["P", "L", "BW"], centre="none")
    print(model.equation(5))
    for row in validate(model, held):
        print(f"equation 2, P {row['group']:.0f}: mean {100 * row['mean']:.2f} % max {100 * row['max']:.2f} %")

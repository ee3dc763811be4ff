"""Campaign: P3S trained on counts of real ranks beside counts of SimGrid SMPI, against SMPI's traces of larger counts.

    python tests/bench/models_p3s_ranks.py SIZE REAL... --smpi SMPI... --target SMPI...

REAL and SMPI are traces of `convolver mpi count` of the same program at the same process counts. Replays are those of
models_p3s.py; SMPI's traces, the targets too, hold some 800 instructions of its own a call.
"""

from models_p3s import begun, compare, parser_of, seconds

from convolver.modeling.p3s.p3s_traces import read_trace
from convolver.modeling.p3s.slt import build
from convolver.mpi.time_independent import Trace


def beside(ours: Trace, theirs: Trace) -> None:
    """Print how far the calls and the work of two traces of the same run agree."""
    calls = sum(map(len, ours))
    pairs = [(a, b) for mine, other in zip(ours, theirs, strict=True) for a, b in zip(mine, other, strict=False)]
    same = sum((a.name, a.partner) == (b.name, b.partner) for a, b in pairs)
    sizes = sum(a.bytes != b.bytes for a, b in pairs)
    work, other = (sum(o.work for rank in trace for o in rank) for trace in (ours, theirs))
    print(
        f"P {len(ours):2}: calls {calls} and {sum(map(len, theirs))}, {same} alike in order, {sizes} other sizes; instructions "
        f"{work:.5g} and {other:.5g} ({100 * (work / other - 1):+.2f} %, {(other - work) / calls:.0f} a call)"
    )


def main() -> None:
    parser = parser_of(__doc__, train="real")
    parser.add_argument("--smpi", nargs="+", required=True)
    parser.add_argument("--target", nargs="+", required=True)
    given = parser.parse_args()
    real, simulated = ([begun(read_trace(path)) for path in paths] for paths in (given.real, given.smpi))
    for ours, theirs in zip(real, simulated, strict=True):
        beside(ours, theirs)
    made = [build({len(trace): trace for trace in traces}, sizes_to_try=(given.size,)) for traces in (real, simulated)]
    for path in given.target:
        truth = begun(read_trace(path))
        whole = seconds(truth)
        for name, scalable in zip(("real ranks", "SMPI"), made, strict=True):
            trace = scalable.at(len(truth))
            right, sizes = compare(trace, truth)
            time = 100 * (seconds(trace) / whole - 1)
            print(
                f"  P {len(truth):2} from {name:10}: calls {100 * right:.2f} %, sizes {100 * sizes:.2f} % off, time {time:+.2f} %"
            )


if __name__ == "__main__":
    main()

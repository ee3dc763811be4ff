"""What an answer costs: processor seconds of `convolver predict` of stored traces.

    python tests/bench/predict_cost.py cg.cvt xz.cvt [--rounds 5] [--store]

Cold is with an empty store of analyses, warm the same command once more; then both with one more target. The least of the rounds
counts, since another VM on the core only adds; beside it stands the least witness of a round (a taken branch takes 2 cycles on a
core alone, 4 on a shared one).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from result_file import write_result
from run_length import processor_seconds

from convolver.validating.sharing import witness_cycles

PAIR = ["--base", "cloud-epyc-milan", "--target", "server-hbm"]
ONE_MORE = ["--target", "cloud-server"]


def seconds(trace: Path) -> list[float]:
    """Return processor seconds of one round: cold and warm, for two machines and for three."""
    found = []
    for machines in (PAIR, [*PAIR, *ONE_MORE]):
        with tempfile.TemporaryDirectory() as cache:
            found += [processor_seconds(["predict", str(trace), *machines], Path(cache)) for _ in range(2)]
    return found


def main() -> None:
    """Measure, print, and write the result file where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", action="store_true", help="write benchmarks/results/predict-cost.json")
    options = parser.parse_args()
    columns = ["trace", "cold s", "warm s", "cold, one more machine", "warm, one more machine", "cycles of the witness"]
    rows, values = [], {}
    for trace in options.trace:
        rounds = []
        for _ in range(options.rounds):
            witness = min(witness_cycles(cpu) for cpu in (0, 1))
            rounds.append([*seconds(trace), witness])
            print(trace.name, *(f"{one:.2f}" for one in rounds[-1]), flush=True)
        least = [min(column) for column in zip(*rounds, strict=True)]
        rows.append([trace.name, *(f"{one:.2f}" for one in least)])
        values |= {f"{trace.stem} cold": f"{least[0]:.1f} s", f"{trace.stem} warm": f"{least[1]:.1f} s"}
        values[f"{trace.stem} one more"] = f"{least[2] - least[0]:.1f} s"
    if options.store:
        print(write_result("predict-cost", columns, rows, values))


if __name__ == "__main__":
    main()

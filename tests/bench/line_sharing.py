"""Predicted and measured losses of two threads that want one cache line, in patterns that the probe does not have:
``python tests/bench/line_sharing.py``.

Each round probes what threads cost each other, then runs each pattern (``programs/line_sharing.c``). What counts is how many
times longer than alone they take, and of all rounds the median. The prediction is of a trace, with the costs of that round: hosts
move the CPUs of virtual machines, and near CPUs lose other lines than far ones. A host that does so within a round spoils it.
"""

import argparse
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec
from result_file import write_result

from convolver.analyzing.analyze import analyze
from convolver.convolution.convolve import convolve
from convolver.convolution.elapsed_replay import ThreadReplay
from convolver.machine.catalog import as_machine
from convolver.machine.profile import MachineProfile
from convolver.probing.kernel import measure_kernel
from convolver.tracing.reader import Trace
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace

SOURCE = Path(__file__).parent / "programs" / "line_sharing.c"
PATTERNS = (
    *("count_2", "count_12", "count_40", "count_150", "words_12", "unlike"),
    *("read_12", "store_12", "atomic_2", "atomic_30", "spin_30"),
)
RUNS, LEAST = 60, 6
"""Rounds of a pattern, and how many of them must be undisturbed."""
Times = list[tuple[float, float]]
"""Nanoseconds of one time of each of two threads: alone, then in each round with both."""


def measured(program: Path, pattern: str) -> Times:
    """Return the times of each of the two threads."""
    said = subprocess.run([program, pattern, str(RUNS)], check=True, capture_output=True, text=True).stdout
    return [(float(one), float(other)) for one, other in map(str.split, said.splitlines())]


def slower(times: Times) -> float | None:
    """Return how many times longer one time takes with both, in the mean; None where they were seldom undisturbed."""
    alone, *rounds = times
    found = [2 / (alone[0] / one + alone[1] / other) for one, other in rounds]
    return median(found) if len(found) >= LEAST else None


class Predicted:
    """A pattern's trace, which says how many times longer it takes on machines with different costs of threads."""

    def __init__(self, program: Path, pattern: str, engine: str, machine: MachineProfile) -> None:
        kept = program.with_name(f"{pattern}-{engine}.cvt")
        if not kept.exists():
            trace([str(program), pattern], output=kept, sampling=SamplingPlan(engine=engine))
        found = Trace.load(kept)
        self._times = convolve(analyze(found, [machine]), machine)
        self._replay = ThreadReplay.of(found)

    def slower(self, machine: MachineProfile) -> float:
        """Return how many times longer the threads take than alone."""
        found = self._replay.on(machine, self._times, cores=2)
        lost = found.lost["lines that several threads write"]
        return 1 + lost / found.processor_seconds


def main() -> None:
    """Measure, predict and write ``benchmarks/results/line-sharing.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", default="cloud-epyc-milan")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine", default="native", choices=("native", "valgrind"))
    parser.add_argument("--folder", type=Path, help="Where the program and its traces are kept.")
    options = parser.parse_args()
    machine = as_machine(options.machine)
    with tempfile.TemporaryDirectory() as name:
        program = (options.folder or Path(name)) / "line_sharing"
        if not program.exists():
            subprocess.run(["gcc", "-g", "-O2", "-pthread", "-o", program, SOURCE], check=True)
        known = {pattern: Predicted(program, pattern, options.engine, machine) for pattern in PATTERNS}
        seen: dict[str, list[tuple[float, float]]] = {pattern: [] for pattern in PATTERNS}
        for _ in range(options.rounds):
            here = msgspec.structs.replace(machine, kernel=measure_kernel(0))
            for pattern in PATTERNS:
                took, says = slower(measured(program, pattern)), known[pattern].slower(here)
                if took is not None:
                    seen[pattern].append((took, says))
                    print(pattern, f"{took:.2f} {says:.2f} {says / took - 1:+.0%}", flush=True)
    report({pattern: pairs for pattern, pairs in seen.items() if pairs})


def report(seen: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Print a row a pattern, with the error in the middle of its rounds, and write all of them."""
    errors = {pattern: median(says / took - 1 for took, says in pairs) for pattern, pairs in seen.items()}
    rows = []
    for pattern, pairs in seen.items():
        took, says = (f"{median(column):.2f}" for column in zip(*pairs, strict=True))
        rows.append([pattern, str(len(pairs)), took, says, f"{errors[pattern]:+.0%}".replace("%", " %")])
        print(*rows[-1])
    sizes = [abs(one) for one in errors.values()]
    values = {"patterns": str(len(rows)), "median": f"{median(sizes):.0%}", "worst": f"{max(sizes):.0%}"}
    print(values, write_result("line-sharing", ["pattern", "rounds", "times as long", "predicted", "error"], rows, values))


if __name__ == "__main__":
    main()

"""How far predictions lie apart that start from different probes of one machine's core.

    python tests/bench/core_repeat.py PROBES.json [--probes 3] [--moments 3] [--only-probe] [--calls 100]
        [--seed none|published|CORE ...] [--store core-repeat]

Each probe looks at the core and its ports at so many moments, as `probe --full` does, and is kept in the file, from which the
next run takes it: timings want a quiet machine, predictions do not. The functions of core_time_errors.py are predicted from each;
of every two probes, each function's cycles are compared. Wanted: a median of at most 1 %.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

from core_probes import distances, kept_probes, probed
from core_seeds import NONE, PUBLISHED, label_of, seed_table
from core_time_errors import FOLDER, USUAL, build, predict, trace
from result_file import write_result

from convolver.machine.cores import CoreTable
from convolver.machine.profile import MachineProfile

SETS = ("looked_at", "frozen")
WANTED = 0.01
"""Median distance of two probes' predictions."""


def functions(which: str) -> list[str]:
    """Return the names of a set's functions: programs have others, which start them."""
    return re.findall(r"ENTRY\((\w+)\)", (FOLDER / f"{which}.c").read_text())


def cycles_of(folder: Path, tables: Sequence[CoreTable], calls: int) -> list[dict[str, float]]:
    """Return the predicted cycles of a call of each function, build and set from each table."""
    found: list[dict[str, float]] = [{} for _ in tables]
    for which in SETS:
        for name in USUAL:
            program = build(folder, name)
            once, twice = (predict(trace(program, which, n), tables) for n in (calls, 2 * calls))
            for own, first, second in zip(found, once, twice, strict=True):
                own |= {f"{which} {name} {one}": second.windows[one] - first.windows[one] for one in functions(which)}
    return found


def main() -> None:
    """Probe, predict and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kept", type=Path, help="file of the probes")
    parser.add_argument("--probes", type=int, default=3)
    parser.add_argument("--moments", type=int, default=3, help="of a probe")
    parser.add_argument("--only-probe", action="store_true")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--seed", nargs="+", default=[NONE, PUBLISHED], metavar="none|published|CORE")
    parser.add_argument("--store", metavar="NAME", help="write benchmarks/results/NAME.json for the pages")
    options = parser.parse_args()
    probes = kept_probes(options.kept, options.probes, options.moments)
    if options.only_probe:
        return
    bare = MachineProfile(name="probed", hierarchy=())
    made = [(seed, *probed(seed_table(seed), bare, one)) for seed in options.seed for one in probes]
    with TemporaryDirectory() as folder:
        cycles = cycles_of(Path(folder), [table for _, table, _ in made], options.calls)
    rows = []
    for seed in options.seed:
        own = [one for one, (name, *_) in zip(cycles, made, strict=True) if name == seed]
        numbers = [count for name, _, count in made if name == seed]
        apart = [distances(first, second) for first, second in combinations(own, 2)]
        every = sorted(distance for one in apart for distance in one)
        figures = (median(every), mean(every), every[int(0.9 * len(every))], every[-1])
        widest = max(map(median, apart))
        measured = ", ".join(map(str, numbers))
        rows.append([label_of(seed, probed=True), measured, *(f"{100 * one:.1f} %" for one in (*figures, widest))])
        print(" | ".join(rows[-1]), "| as wanted" if median(every) <= WANTED else "| more than wanted")
    if options.store:
        columns = ["core table", "numbers measured", "median", "mean", "90th percentile", "most", "median of the two farthest"]
        write_result(options.store, columns, rows, {"seconds": ", ".join(str(one["seconds"]) for one in probes)})


if __name__ == "__main__":
    main()

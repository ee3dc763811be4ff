"""``convolver check`` on versions of one program: what it finds, what native runs say, and what an estimate from misses says.

``python tests/bench/regression_check.py``: five minutes. The estimate is ``L1 + 5 L2 + 35 RAM`` of tools based on callgrind: hits
of the first level, of the last, and of memory, as cachegrind simulates this machine's caches. Native runs are this machine's, so
the pinned machine is a bundled one like it (``--machine``).
"""

import argparse
import os
import re
import subprocess
import tempfile
from pathlib import Path

from result_file import ROOT, write_result

from convolver.checking.comparison import compare
from convolver.checking.limits import Limits, ProgramLimits
from convolver.checking.observed import observe, together

SOURCE = ROOT / "tests" / "integration" / "programs" / "stages.c"
VERSIONS = {
    "2 % more steps": "-DMORE=2",
    "a division in a chain": "-DDIVIDE",
    "branches that cannot be predicted": "-DBRANCH",
    "data beyond the caches": "-DFAR",
}
RUNS = 25


def native(binary: Path) -> float:
    """Return the shortest of some runs in processor seconds."""
    seconds = []
    for _ in range(RUNS):
        process = subprocess.Popen([binary], stdout=subprocess.DEVNULL)
        _, _, used = os.wait4(process.pid, 0)
        seconds.append(used.ru_utime + used.ru_stime)
    return min(seconds)


def estimate(binary: Path, folder: Path) -> float:
    """Return ``L1 + 5 L2 + 35 RAM`` of a run under cachegrind."""
    words = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", f"--cachegrind-out-file={folder / 'cg.out'}", str(binary)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder)
    found = re.findall(r"(I *refs|I1 *misses|LLi misses|D *refs|D1 *misses|LLd misses): +([\d,]+)", done.stderr)
    counts = {re.sub(r" +", " ", name): int(value.replace(",", "")) for name, value in found}
    references = counts["I refs"] + counts["D refs"]
    near, far = counts["I1 misses"] + counts["D1 misses"], counts["LLi misses"] + counts["LLd misses"]
    return references - near + 5 * (near - far) + 35 * far


def main() -> None:
    """Measure, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", default="cloud-epyc-genoa")
    machine = Limits(machine=parser.parse_args().machine).pinned()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        binaries = {}
        for number, (what, flag) in enumerate({"": "-DMORE=0", **VERSIONS}.items()):
            binaries[what] = folder / f"{number}" / "stages"
            binaries[what].parent.mkdir()
            subprocess.run(["gcc", "-O1", "-g", flag, "-o", binaries[what], SOURCE], check=True)
        base = together([observe([str(binaries[""])], machine) for _ in range(3)])
        first, counted = native(binaries[""]), estimate(binaries[""], folder)
        rows = []
        for what in VERSIONS:
            found = compare("stages", machine.name, base, observe([str(binaries[what])], machine), ProgramLimits())
            assert found.change is not None
            cause = next((function.partition(" in ")[0] for function, one in found.functions.items() if one.seconds > 0), "none")
            shown = [native(binaries[what]) / first - 1, found.change.relative, estimate(binaries[what], folder) / counted - 1]
            rows.append([what, *(f"{100 * one:+.1f} %" for one in shown), found.verdict, cause])
            print(*rows[-1], sep="\t", flush=True)
    columns = ["change", "native", "check", "L1 + 5 L2 + 35 RAM", "verdict", "named"]
    print(write_result("regression-check", columns, rows, {"machine": machine.name, "base_milliseconds": 1000 * first}))


if __name__ == "__main__":
    main()

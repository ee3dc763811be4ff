"""Print how much longer a program takes when all its references are simulated on three machines while it runs.

``python tests/bench/tracer_online.py [--seconds 1] [--repeats 3] [--only triad,...]``: elapsed time of ``convolver trace --full
-m A -m B -m C -- PROGRAM`` over that of the native run, interleaved, median of the pairs; and million references a second.
The start of Python and of Valgrind and the files are in it. Tracer and simulators run side by side: use two processors.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tracer_slowdown import PROGRAMS, build, calibrate

MACHINES = ("desktop-32m", "server-96m", "server-hbm")
DEFAULT = "triad,spmv,stencil,dgemm,gups"


def wall_seconds(command: list[str]) -> tuple[float, str]:
    """Run a command; return its elapsed time and what it wrote on stderr."""
    began = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
    return time.perf_counter() - began, done.stderr


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="native run time")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default=DEFAULT, help="comma-separated programs; all: every program")
    parser.add_argument("--jobs", type=int, help="threads that simulate [number of processors]")
    parser.add_argument("--machines", default=",".join(MACHINES))
    options = parser.parse_args()
    machines = [word for name in options.machines.split(",") for word in ("-m", name)]
    print(f"{'':12}{'native s':>11}{'online s':>11}{'ratio':>11}{'M refs/s':>11}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tool = [sys.executable, "-m", "convolver", "trace", "--full", "--json", "--force", *machines]
        tool += ["-o", str(folder / "it.cvt")]
        tool += ["--jobs", str(options.jobs)] if options.jobs else []
        for program in PROGRAMS if options.only == "all" else options.only.split(","):
            command = calibrate(build(program, folder), options.seconds)
            rows = []
            for _ in range(options.repeats):
                native, _said = wall_seconds(command)
                online, said = wall_seconds([*tool, "--", *command])
                memops = next(json.loads(line) for line in said.splitlines() if line.startswith("{"))["totals"]["memops"]
                rows.append((native, online, online / native, memops / online / 1e6))
            middle = [statistics.median(column) for column in zip(*rows, strict=True)]
            print(f"{program:12}" + "".join(f"{value:11.2f}" for value in middle), flush=True)


if __name__ == "__main__":
    main()

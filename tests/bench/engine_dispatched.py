"""Predict programs whose libraries choose code by the processor, from traces of both engines, beside their native CPU time.

``python tests/bench/engine_dispatched.py MACHINE [--repeats 7] [--store]``: MACHINE is a full profile of this machine. Valgrind's
processor has neither SHA nor AVX-512 instructions, so that libcrypto and OpenBLAS take other code under it. OpenBLAS has one
thread, as threads that spin take processor time; where the CPU has AVX-512, it is asked for its kernels with that, too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from engine_slowdown import PRODUCT
from result_file import write_result
from tracer_slowdown import cpu_seconds

CONVOLVER = [sys.executable, "-m", "convolver"]
BYTES = 1_000_000_000
WIDEST = "numpy, matrix product with AVX-512"
"""Valgrind cannot run it."""


def predicted(engine: str, command: list[str], machine: Path, folder: Path) -> float:
    """Trace with an engine and predict the seconds on the machine."""
    trace = folder / f"{engine}.cvt"
    tracing = [*CONVOLVER, "trace", "--engine", engine, "--force", "-o", trace, "--", *command]
    subprocess.run(tracing, check=True, capture_output=True)
    said = subprocess.run([*CONVOLVER, "predict", trace, "--base", machine, "--json"], check=True, capture_output=True, text=True)
    return float(json.loads(said.stdout)["base"]["seconds"])


def main() -> None:
    """Measure, predict and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--store", action="store_true", help="write benchmarks/results/engine-dispatched.json")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        zeros = Path(name) / "zeros"
        with zeros.open("wb") as file:
            file.truncate(BYTES)
        product = ["/usr/bin/python3", "-c", PRODUCT.replace("range(8)", "range(80)")]
        programs = {"openssl, SHA-256": ["openssl", "dgst", "-sha256", str(zeros)], "numpy, matrix product": product}
        if "avx512bw" in Path("/proc/cpuinfo").read_text():
            programs[WIDEST] = product
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        for program, command in programs.items():
            if program == WIDEST:
                os.environ["OPENBLAS_CORETYPE"] = "SkylakeX"
            measured = statistics.median(cpu_seconds(command) for _ in range(options.repeats))
            row = [program, f"{measured:.2f}"]
            for engine in ("native", "valgrind")[: 1 if program == WIDEST else 2]:
                seconds = predicted(engine, command, options.machine, Path(name))
                row += [f"{seconds:.2f}", f"{100 * (seconds / measured - 1):+.0f}"]
            rows.append(row + [""] * (6 - len(row)))
            print("  ".join(row), flush=True)
    if options.store:
        columns = ["program", "measured, s", "native engine, s", "native engine, error, %", "Valgrind, s", "Valgrind, error, %"]
        openssl = rows[0]
        values = {"openssl, native": int(openssl[3]), "openssl, Valgrind": int(openssl[5])}
        write_result("engine-dispatched", columns, rows, values)


if __name__ == "__main__":
    main()

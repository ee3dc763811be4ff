"""What tracing costs a long run by the native engine: ``python tests/bench/long_run.py --minutes 60 [--store]``.

The program is the solve of examples/cg.c, repeated for so many minutes of native processor time. Ratios are of processor time,
so that other work matters less: of all that tracing runs (program, controller, reader) over as many solves natively, of which a
few run before, every five minutes meanwhile, and after. The fastest of these counts: other work slows both, so the ratio is the
most that tracing costs.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from result_file import write_result
from run_length import build

SIDE = 60
PIECE = 10
"""Solves of a native piece."""
PAUSE = 300.0


def processor_seconds(words: list[str]) -> float:
    """Run a command; returns the processor time of it and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure, print and, if asked to, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="long-run-") as name:
        folder = Path(name)
        program, cvt = str(build(folder)), folder / "long.cvt"
        natives = [processor_seconds([program, str(SIDE), str(PIECE)]) / PIECE for _ in range(3)]
        solves = round(60 * options.minutes / median(natives))
        print(f"{solves} solves of {median(natives):.3f} s", flush=True)
        words = [sys.executable, "-m", "convolver", "trace", "--engine", "native", "-o", str(cvt), "--", program, str(SIDE)]
        whole = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = whole.ru_utime + whole.ru_stime
        traced = subprocess.Popen([*words, str(solves)], stdout=subprocess.DEVNULL)
        between = 0.0
        while True:
            try:
                status = traced.wait(PAUSE)
                break
            except subprocess.TimeoutExpired:
                piece = processor_seconds([program, str(SIDE), str(PIECE)])
                natives.append(piece / PIECE)
                between += piece
        whole = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = whole.ru_utime + whole.ru_stime - spent - between
        if status:
            sys.exit(status)
        natives += [processor_seconds([program, str(SIDE), str(PIECE)]) / PIECE for _ in range(3)]
        native, size = solves * min(natives), cvt.stat().st_size / 1e6
        spread = max(natives) / min(natives) - 1
        row = [f"{options.minutes:g}", f"{native:.0f}", f"{spent:.0f}", f"{spent / native:.2f}", f"{spread:.0%}", f"{size:.1f}"]
        print(*row)
        if options.store:
            heads = ["minutes", "native, s", "traced, s", "times", "spread of native pieces", "MB"]
            print(write_result("long-run", heads, [row], {"times": round(spent / native, 3), "megabytes": round(size, 2)}))


if __name__ == "__main__":
    main()

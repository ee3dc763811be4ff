"""Predicted and measured elapsed times of 16 programs with one and two threads: ``python tests/bench/thread_times.py``.

Needs two free processors. Each program runs natively ``--rounds`` times with each number of threads, in turn; the median
counts. It is traced once with two threads and predicted from the profile ``--machine``, one of this processor's kind. What
is not installed is left out.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from campaign_inputs import library_text
from result_file import write_result

KERNELS = [
    "triadl3",
    "dgemm",
    "cg",
    "lock",
    "lockhot",
    "imbalance",
    "dynamic",
    "barriers",
    "tasks",
    "amdahl",
    "falsesharing",
    "atomics",
]
SOURCE = Path(__file__).parent / "programs" / "thread_kernels.c"
COLUMNS = ["program", "1 thread", "2 threads", "predicted", "error", "in its interval", "speedup", "predicted speedup"]
CONVOLVER = [sys.executable, "-m", "convolver"]


def commands(threads: int) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return command and environment of each program."""
    found = {one: (["./kernels", one], {"OMP_NUM_THREADS": str(threads)}) for one in KERNELS}
    found["xz"] = (["xz", "-k", "-c", "-1", f"-T{threads}", "--block-size=500KiB", "text"], {})
    found["zstd"] = (["zstd", "-q", "-c", "-6", f"-T{threads}", "-B524288", "text"], {})
    found["pigz"] = (["pigz", "-k", "-c", f"-p{threads}", "text"], {})
    found["sort"] = (["sort", "-n", f"--parallel={threads}", "-S", "64M", "numbers"], {"LC_ALL": "C"})
    return {name: one for name, one in found.items() if name in KERNELS or shutil.which(one[0][0])}


def make_inputs(folder: Path) -> None:
    """Write what the programs read, and build the kernels."""
    (folder / "text").write_bytes(library_text(6_000_000))
    state, numbers = 1, []
    for _ in range(300_000):
        state = (state * 1664525 + 1013904223) % 2**32
        numbers.append(f"{state}\n")
    (folder / "numbers").write_text("".join(numbers))
    subprocess.run(["gcc", "-g", "-O2", "-fopenmp", "-o", folder / "kernels", SOURCE, "-lm"], check=True)


def native(folder: Path, rounds: int) -> dict[tuple[str, int], float]:
    """Return the median elapsed seconds of each program with one and two threads."""
    taken: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for threads in (1, 2):
            for name, (words, more) in commands(threads).items():
                began = time.perf_counter()
                subprocess.run(words, cwd=folder, env=os.environ | more, stdout=subprocess.DEVNULL, check=True)
                taken.setdefault((name, threads), []).append(time.perf_counter() - began)
    return {key: median(all_of_them) for key, all_of_them in taken.items()}


def predicted(folder: Path, name: str, machine: str) -> dict:
    """Trace a program with two threads and return what ``predict --json`` says of the machine."""
    words, more = commands(2)[name]
    environment = os.environ | more
    traced = [*CONVOLVER, "trace", "--force", "-o", f"{name}.cvt", "--", *words]
    subprocess.run(traced, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    asked = [*CONVOLVER, "predict", "--base", machine, f"{name}.cvt", "--cores", "2", "--json"]
    done = subprocess.run(asked, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["base"]


def main() -> None:
    """Measure, predict and write ``benchmarks/results/threads.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", default="cloud-epyc-genoa")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rows, errors, speedups = [], {}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_inputs(folder)
        seconds = native(folder, options.rounds)
        for one in commands(2):
            says = predicted(folder, one, options.machine)
            elapsed, (low, high) = says["elapsed_seconds"], says["elapsed_interval_seconds"]
            alone, both = seconds[one, 1], seconds[one, 2]
            errors[one], speedups[one] = elapsed / both - 1, says["speedup"] / (alone / both) - 1
            held = "yes" if low <= both <= high else "no"
            shown = [f"{alone:.3f} s", f"{both:.3f} s", f"{elapsed:.3f} s", f"{errors[one]:+.0%}".replace("%", " %"), held]
            rows.append([one, *shown, f"{alone / both:.2f}", f"{says['speedup']:.2f}"])
            print(*rows[-1], flush=True)
    worst = max(errors, key=lambda one: abs(errors[one]))
    values = {
        "programs": str(len(rows)),
        "median": f"{median(map(abs, errors.values())):.0%}".replace("%", " %"),
        "worst": f"{abs(errors[worst]):.0%}".replace("%", " %"),
        "worst_program": worst,
        "held": str(sum(row[5] == "yes" for row in rows)),
        "speedup_median": f"{median(map(abs, speedups.values())):.0%}".replace("%", " %"),
        "speedup_worst": f"{max(map(abs, speedups.values())):.0%}".replace("%", " %"),
    }
    print(values, write_result("threads", COLUMNS, rows, values))


if __name__ == "__main__":
    main()

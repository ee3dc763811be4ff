"""Predicted and measured elapsed times of 16 programs with one, two and eight threads on two processors:
``python tests/bench/thread_times.py``.

Each program runs natively ``--rounds`` times with each number of threads, in turn; the median of the shortest third counts. As
root programs have real-time priority, so that nothing else takes their processors (not with ``--usual-priority``). They are
traced with each number of threads and predicted for two cores from the profile ``--machine``, one of this processor's kind.
``--folder`` keeps inputs, times and traces, and takes those that are there. What is not installed is left out.
"""

import argparse
import contextlib
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
COLUMNS = [
    *("program", "1 thread", "2 threads", "predicted", "error", "in its interval", "speedup", "predicted speedup"),
    *("8 threads on 2 cores", "predicted for 8", "error for 8"),
]
THREADS = (1, 2, 8)
REST = 0.15
"""Seconds after each run: the kernel lets real-time programs have 95 % of a second."""
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


def native(folder: Path, rounds: int, *, first: bool) -> dict[tuple[str, int], float]:
    """Return the elapsed seconds of each program with each number of threads: the median of the shortest third."""
    taken: dict[tuple[str, int], list[float]] = {}
    if first:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
    for _ in range(rounds):
        for threads in THREADS:
            for name, (words, more) in commands(threads).items():
                time.sleep(REST)
                began = time.perf_counter()
                subprocess.run(words, cwd=folder, env=os.environ | more, stdout=subprocess.DEVNULL, check=True)
                taken.setdefault((name, threads), []).append(time.perf_counter() - began)
    return {key: median(sorted(all_of_them)[: max(rounds // 3, 1)]) for key, all_of_them in taken.items()}


def traced(folder: Path, name: str, threads: int) -> Path:
    """Trace a program where that was not done; return where the trace is."""
    words, more = commands(threads)[name]
    trace = folder / f"{name}-{threads}.cvt"
    if not trace.exists():
        command = [*CONVOLVER, "trace", "-o", trace, "--", *words]
        environment = os.environ | more
        subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return trace


def predicted(trace: Path, machine: str) -> dict:
    """Return what ``predict --json`` says of a trace on two cores of a machine."""
    asked = [*CONVOLVER, "predict", "--base", machine, trace, "--cores", "2", "--json"]
    base = json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)["base"]
    return {"elapsed_seconds": base["seconds"], **base}  # of one thread: processor time


def shown(error: float) -> str:
    """Return an error in per cent."""
    return f"{error:+.0%}".replace("%", " %")


def main() -> None:
    """Measure, predict and write ``benchmarks/results/threads.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", default="cloud-epyc-genoa")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--usual-priority", action="store_true", help="Do not put other programs off; for a quiet machine.")
    parser.add_argument("--only", choices=("traces", "times"), help="End after this part, kept in --folder.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        folder.mkdir(exist_ok=True)
        if not (folder / "kernels").exists():
            make_inputs(folder)
        kept = folder / "times.json"
        if not kept.exists() and options.only != "traces":
            kept.write_text(json.dumps(list(native(folder, options.rounds, first=not options.usual_priority).items())))
        if options.only != "times":
            traces = {(one, threads): traced(folder, one, threads) for one in commands(2) for threads in THREADS}
        if options.only is None:
            says = {key: predicted(trace, options.machine) for key, trace in traces.items()}
            report({tuple(key): seconds for key, seconds in json.loads(kept.read_text())}, says)


def report(seconds: dict[tuple[str, int], float], says: dict[tuple[str, int], dict]) -> None:
    """Print a row a program and write all of them."""
    rows, errors, speedups, crowded = [], {}, {}, {}
    for one in commands(2):
        alone, both, eight = (seconds[one, threads] for threads in THREADS)
        guess, elapsed, many = (says[one, threads]["elapsed_seconds"] for threads in THREADS)
        low, high = says[one, 2]["elapsed_interval_seconds"]
        errors[one], crowded[one] = elapsed / both - 1, many / eight - 1
        speedups[one] = guess / elapsed / (alone / both) - 1
        held = "yes" if low <= both <= high else "no"
        row = [f"{alone:.3f} s", f"{both:.3f} s", f"{elapsed:.3f} s", shown(errors[one]), held]
        row += [f"{alone / both:.2f}", f"{guess / elapsed:.2f}", f"{eight:.3f} s", f"{many:.3f} s", shown(crowded[one])]
        rows.append([one, *row])
        print(*rows[-1], flush=True)
    worst = max(errors, key=lambda one: abs(errors[one]))
    values = {"programs": str(len(rows)), "worst_program": worst, "held": str(sum(row[5] == "yes" for row in rows))}
    for name, found in {"": errors, "speedup_": speedups, "eight_": crowded}.items():
        sizes = [abs(one) for one in found.values()]
        values |= {
            f"{name}median": f"{median(sizes):.0%}".replace("%", " %"),
            f"{name}worst": f"{max(sizes):.0%}".replace("%", " %"),
        }
    print(values, write_result("threads", COLUMNS, rows, values))


if __name__ == "__main__":
    main()

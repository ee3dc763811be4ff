"""Print how much slower programs run under the native engine, and under Valgrind: CPU time over native CPU time.

``python tests/bench/engine_slowdown.py [--repeats 3] [--only 'sort;sqlite3']``. Runs are interleaved, the median is shown, start
and translation are included, and the stream is drained by a thread that throws it away. ``bursts`` are those of the usual plan,
``bursts only`` come from native execution, ``usual`` adds the sampled sets, ``Valgrind`` is its tool. Where Debian's program is
missing, so is the row; runs of ten times the work show what is left when translation no longer counts; from both follows what
translation takes. ``--kept FILE`` keeps rows there, so that the table can be measured in short pieces.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from hpl_input import hpl_text
from result_file import write_result
from tracer_hpl import seconds as hpl_seconds
from tracer_slowdown import KERNELS, calibrate, cpu_seconds, drain, traced_seconds

from convolver.tracing import valgrind
from convolver.tracing.native_engine import engine_options, engine_program
from convolver.tracing.reader import Trace
from convolver.tracing.sampling import BUDGET_BYTES, SamplingPlan

USUAL = SamplingPlan(budget=0)
PLANS = {
    "counts": SamplingPlan(mode="counts", engine="native"),
    "bursts": SamplingPlan(sets=0, engine="native", budget=BUDGET_BYTES),
    "bursts only": SamplingPlan(sets=0, engine="native", budget=0, bursts_only=True),
    "usual": SamplingPlan(engine="native"),
}
VALGRIND = {"Valgrind, counts": SamplingPlan(mode="counts").options(), "Valgrind, usual": USUAL.options()}
COLUMNS = [*PLANS, *VALGRIND]
HPL = "HPL, 4 ranks"
JOIN = (
    "create table a(x,y); with recursive c(i) as (select 1 union all select i+1 from c where i<{0}) "
    "insert into a select i,i*7919%{0} from c; create index k on a(y); select sum(a.x*b.x) from a join a b on a.y=b.x;"
)
LONGER = 10
"""Times as much work, so that translation no longer counts; without Valgrind."""
DICTIONARY = "d=dict()\nfor i in range({}): d[i%1000]=d.get(i%1000,0)+i"
PRODUCT = "import numpy; a=numpy.ones((700,700)); [a@a for _ in range(8)]"
SCRIPT = (
    "const o = {}; for (let i = 0; i < 3e5; i++) o['k' + i % 1000] = (o['k' + i % 1000] || 0) + i;"
    "console.log(JSON.stringify(o).length, [...Array(1e5).keys()].map(x => x * x % 1013).sort((a, b) => a - b)[500])"
)
JAVA = """
class Loops {
    public static void main(String[] arguments) {
        java.util.Map<String, Integer> m = new java.util.HashMap<>();
        for (int i = 0; i < 1000000; i++) m.merge("k" + i % 1000, i, Integer::sum);
        System.out.println(m.hashCode());
    }
}
"""
OPENMP = """
#include <stdio.h>
int main(void)
{
    static double a[1 << 20];
    double s = 0;
    for (int k = 0; k < 150; k++)
        #pragma omp parallel for reduction(+ : s)
        for (int i = 0; i < 1 << 20; i++)
            a[i] = a[i] * 0.5 + i, s += a[i];
    printf("%g\\n", s);
}
"""


CHASE = """
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **arguments)
{
    static unsigned next[1 << 20];
    unsigned at = 0;
    for (unsigned i = 0; i < 1 << 20; i++)
        next[i] = (i + 362437u) & ((1u << 20) - 1);
    for (long turns = count > 1 ? atol(arguments[1]) : 1; turns; turns--)
        for (int i = 0; i < 1 << 16; i++)
            at = next[at];
    printf("%u\\n", at);
}
"""
BUSY = """
#include <pthread.h>
static void *spin(void *which)
{
    for (volatile long i = 0; i < 10000000000; i++);
    return which;
}
int main(void)
{
    pthread_t thread;
    for (int i = 0; i < 7; i++)
        pthread_create(&thread, 0, spin, 0);
    return spin(0) != 0;
}
"""


def commands(folder: Path) -> dict[str, list[str]]:
    """Build kernels and write inputs; return the command of each program that is there."""
    found = {}
    for name in ("triad", "spmv"):
        subprocess.run(["gcc", "-O2", "-o", folder / name, KERNELS / f"{name}.c", "-lm"], check=True)
        found[name] = calibrate([str(folder / name)], 0.2)
    (folder / "chase.c").write_text(CHASE)
    subprocess.run(["gcc", "-O2", "-o", folder / "chase", folder / "chase.c"], check=True)
    found["chase"] = calibrate([str(folder / "chase")], 0.2)
    (folder / "openmp.c").write_text(OPENMP)
    subprocess.run(["gcc", "-O2", "-fopenmp", "-o", folder / "openmp", folder / "openmp.c"], check=True)
    lines, many, zeros = folder / "lines", folder / "many", folder / "zeros"
    lines.write_text("\n".join(str(k * 7919 % 1_000_003) for k in range(300_000)))
    many.write_text("\n".join(str(k * 7919 % 1_000_003) for k in range(LONGER * 300_000)))
    with zeros.open("wb") as file:
        file.truncate(100_000_000)
    text = folder / "text"
    text.write_bytes(b"".join(sorted(Path("/usr/include").glob("*.h"))[k % 90].read_bytes() for k in range(200))[:4_000_000])
    (folder / "Loops.java").write_text(JAVA)
    if shutil.which("javac"):
        subprocess.run(["javac", "-d", folder, folder / "Loops.java"], check=True)
    programs = {
        "xz": ["xz", "-2", "-k", "-c", str(text)],
        "OpenMP, 2 threads": [str(folder / "openmp")],
        "sort": ["sort", "-n", "--parallel=1", str(lines)],
        f"sort x{LONGER}": ["sort", "-n", "--parallel=1", str(many)],
        "sqlite3": ["sqlite3", ":memory:", JOIN.format(60_000)],
        f"sqlite3 x{LONGER}": ["sqlite3", ":memory:", JOIN.format(LONGER * 60_000)],
        "python3": ["/usr/bin/python3", "-c", DICTIONARY.format(300_000)],
        f"python3 x{LONGER}": ["/usr/bin/python3", "-c", DICTIONARY.format(LONGER * 300_000)],
        "numpy, matrix product": ["/usr/bin/python3", "-c", PRODUCT],
        "node": ["node", "-e", SCRIPT],
        "Java": ["java", "-cp", str(folder), "Loops"],
        "openssl, SHA-256": ["openssl", "dgst", "-sha256", str(zeros)],
    }
    return found | {name: command for name, command in programs.items() if shutil.which(command[0])}


def engine_seconds(command: list[str], plan: SamplingPlan, folder: Path) -> float:
    """Run the command under the native engine, its stream drained; return its CPU time."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 1 << 20)
    reader = threading.Thread(target=drain, args=(read_end,))
    reader.start()
    options = [f"--wire-fd={write_end}", f"--counters={folder / 'counters'}", f"--log-file={folder / 'log'}"]
    try:
        engine = [str(engine_program()), *options, *engine_options(plan), "--"]
        return cpu_seconds([*engine, *command], pass_fds=[write_end])
    finally:
        os.close(write_end)
        reader.join()


def translation(short: list[str], long: list[str], repeats: int, folder: Path) -> float:
    """Return the microseconds that a segment's translation takes, of a program that does its work once and :data:`LONGER` times.

    What the engine adds to the long run beyond the short one is the work's; what is left of the short one is translation's, with
    the engine's start.
    """
    times: dict[str, list[float]] = {name: [] for name in ("short", "long", "counted short", "counted long")}
    for _ in range(repeats):
        for name, command in (("short", short), ("long", long)):
            times[name].append(cpu_seconds(command))
            times[f"counted {name}"].append(engine_seconds(command, PLANS["counts"], folder))
    native, most, counted, counted_most = (statistics.median(each) for each in times.values())
    added = counted - native * (counted_most - counted) / (most - native)
    kept = folder / "short.cvt"
    convolver = [sys.executable, "-m", "convolver", "trace", "--counts-only", "--engine", "native", "--force", "-o", kept, "--"]
    subprocess.run([*convolver, *short], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return 1e6 * added / len(Trace.load(kept).definitions.segments)


def hpl_row(repeats: int, folder: Path) -> list[str]:
    """Measure HPL of hpcc on four ranks, each under the engine or the tool of its own."""
    ways = {
        name: [str(engine_program()), "--wire-fd=3", "--log-file=/dev/null", *engine_options(p), "--"]
        for name, p in PLANS.items()
    }
    for name, wanted in VALGRIND.items():
        ways[name] = valgrind.tool_command(["--wire-fd=3", f"--counters={folder}/%p.counters", "--log-file=/dev/null", *wanted])
    ratios: dict[str, list[float]] = {name: [] for name in ways}
    natives = []
    (folder / "hpccinf.txt").write_text(hpl_text(400, p=2, q=2))
    for _ in range(repeats):
        natives.append(hpl_seconds([], folder))
        for name, words in ways.items():
            ratios[name].append(hpl_seconds(words, folder) / natives[-1])
    return [HPL, f"{statistics.median(natives):.2f}", *(f"{statistics.median(ratios[name]):.2f}" for name in COLUMNS)]


def attach_times(command: list[str], times: int) -> dict[str, float]:
    """Attach to a running program for a moment, again and again; return medians of how long it stood still and of detaching."""
    said: dict[str, list[float]] = {"attach, ms": [], "detach, ms": []}
    for _ in range(times):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(0.2)
        engine = [engine_program(), "--log-file=/dev/null", f"--attach={process.pid}", "--for=0.2"]
        words = subprocess.run(engine, capture_output=True, text=True, check=False).stderr
        process.kill()
        process.wait()
        for name, pattern in zip(said, (r"stood still for ([\d.]+) ms", r"Detached after ([\d.]+) ms"), strict=True):
            said[name] += [float(value) for value in re.findall(pattern, words)]
    return {name: statistics.median(values) for name, values in said.items() if values}


def row(name: str, command: list[str], repeats: int, folder: Path) -> list[str]:
    """Measure one program; a cell is empty where the program does not run to its end."""
    ratios: dict[str, list[float]] = {column: [] for column in COLUMNS}
    natives = []
    for _ in range(repeats):
        natives.append(cpu_seconds(command))
        for column in COLUMNS if not name.endswith(f" x{LONGER}") else PLANS:
            try:
                if column in PLANS:
                    seconds = engine_seconds(command, PLANS[column], folder)
                else:
                    seconds = traced_seconds(command, VALGRIND[column], folder)
            except SystemExit:
                continue
            ratios[column].append(seconds / natives[-1])
    cells = [f"{statistics.median(ratios[column]):.2f}" if ratios[column] else "" for column in COLUMNS]
    return [name, f"{statistics.median(natives):.2f}", *cells]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help="programs, separated by ;")
    parser.add_argument("--kept", type=Path, help="file of rows that were measured before")
    parser.add_argument("--store", action="store_true", help="write benchmarks/results/engine-slowdown.json")
    options = parser.parse_args()
    kept = json.loads(options.kept.read_text()) if options.kept and options.kept.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        programs = commands(Path(name))
        for program in [*programs, *([HPL] if shutil.which("hpcc") else [])]:
            if options.only is not None and program not in options.only.split(";"):
                continue
            one = (
                hpl_row(options.repeats, Path(name))
                if program == HPL
                else row(program, programs[program], options.repeats, Path(name))
            )
            kept[program] = one
            print("  ".join(f"{cell:>10}" for cell in one), flush=True)
            if options.kept:
                options.kept.write_text(json.dumps(kept))
        rows = [kept[program] for program in [*programs, HPL] if program in kept]
        if options.store:
            values = attach_times([programs["triad"][0], "1000000000"], 4 * options.repeats)
            (Path(name) / "busy.c").write_text(BUSY)
            subprocess.run(["gcc", "-O1", "-pthread", "-o", Path(name) / "busy", Path(name) / "busy.c"], check=True)
            eight = attach_times([f"{name}/busy"], 4 * options.repeats)
            values |= {what.replace(",", " of 8 threads,"): one for what, one in eight.items()}
            for program in [one for one in programs if f"{one} x{LONGER}" in programs]:
                name_of = f"translation of {program}, us a segment"
                values[name_of] = round(
                    translation(programs[program], programs[f"{program} x{LONGER}"], options.repeats, Path(name)), 2
                )
            print(values)
            write_result("engine-slowdown", ["program", "native, s", *COLUMNS], rows, values)


if __name__ == "__main__":
    main()

"""Programs with threads in several languages, whose elapsed time is arithmetic: ``python tests/bench/thread_languages.py``.

Thread i of four does i + 1 parts of the work, so four cores are used 2.5-fold. Each program is built, run, traced and predicted
on four cores, by each engine; what it prints must not change. Languages whose compiler is not installed are left out.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from result_file import write_result

SOURCES = Path(__file__).parent / "programs" / "languages"
CONVOLVER = [sys.executable, "-m", "convolver"]
MACHINE = "cloud-epyc-genoa"
SPEEDUP = 2.5
COLUMNS = ["program", "engine", "threads traced", "cores used of 4", "error", "waits that nothing ended", "prints the same"]
PROGRAMS = {
    "C11 threads": ("gcc -O2 -pthread -o {to} {of}/unequal_c11.c", ""),
    "C, static": ("gcc -O2 -static -pthread -o {to} {of}/unequal_c11.c", ""),
    "C++20 barrier": ("g++ -O2 -std=c++20 -pthread -o {to} {of}/unequal.cpp", ""),
    "C++ condition variable": ("g++ -O2 -std=c++20 -pthread -o {to} {of}/unequal.cpp", "condition"),
    "Rust": ("rustc -O -o {to} {of}/unequal.rs", ""),
    "Go, GOMAXPROCS=4": ("go build -o {to} {of}/unequal.go", ""),
    "OpenMP, GCC": ("gcc -O2 -fopenmp -o {to} {of}/unequal_omp.c", ""),
    "OpenMP, GCC, static": ("gcc -O2 -static -fopenmp -o {to} {of}/unequal_omp.c", ""),
    "OpenMP, clang (libomp)": ("clang -O2 -fopenmp -o {to} {of}/unequal_omp.c", ""),
    "OpenMP, Fortran": ("gfortran -O2 -fopenmp -o {to} {of}/unequal.f90", ""),
    "fork while threads run": ("gcc -O2 -pthread -o {to} {of}/ends.c", "fork"),
    "threads that nobody joins": ("gcc -O2 -pthread -o {to} {of}/ends.c", "detached"),
    "exit by another thread": ("gcc -O2 -pthread -o {to} {of}/ends.c", "exit"),
}
"""How each is built, and the word that it is given."""


def main() -> None:
    """Build, run, trace and predict each; write ``benchmarks/results/thread-languages.json``."""
    environment = os.environ | {"OMP_NUM_THREADS": "4", "GOMAXPROCS": "4"}
    rows, errors = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, (what, (build, word)) in enumerate(PROGRAMS.items()):
            if not shutil.which(build.split()[0]):
                continue
            program, path = folder / f"program{number}", folder / f"{number}.cvt"
            built = build.format(to=program, of=SOURCES).split()
            subprocess.run(built, check=True, env=environment | {"GOCACHE": name, "GO111MODULE": "off"})
            words = [program, *([word] if word else [])]
            plain = subprocess.run(words, env=environment, capture_output=True, check=True).stdout
            for engine in ("valgrind", "native"):
                asked = [*CONVOLVER, "trace", "--force", "--engine", engine, "-o", path, "--", *words]
                traced = subprocess.run(asked, env=environment, capture_output=True, check=True)
                asked = [*CONVOLVER, "predict", "--base", MACHINE, "--cores", "4", "--json", path]
                said = json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)["base"]
                elapsed = said.get("elapsed") or {"threads": 1, "speedup": 1.0, "forced_waits": 0}
                errors.append(elapsed["speedup"] / SPEEDUP - 1)
                used, error = f"{elapsed['speedup']:.2f}", f"{errors[-1]:+.1%}".replace("%", " %")
                same = "yes" if plain == traced.stdout else "no"
                rows.append([what, engine, str(elapsed["threads"]), used, error, str(elapsed["forced_waits"]), same])
                print(*rows[-1], sep="\t", flush=True)
    values = {"programs": str(len(PROGRAMS)), "worst": f"{max(map(abs, errors)):.1%}".replace("%", " %")}
    print(values, write_result("thread-languages", COLUMNS, rows, values))


if __name__ == "__main__":
    main()

"""Page faults and system time of real programs: what a trace and this machine's kernel predict, beside what native runs have.

``python tests/bench/system_time_errors.py [NAME ...]``: about a minute; a quiet machine. Faults are ``ru_minflt``; system time
is the mean of some runs, since the kernel tells it by ticks.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median
from typing import Any

from convolver.convolution.system_time import system_time
from convolver.machine.hierarchy import Level
from convolver.machine.profile import MachineProfile
from convolver.machine.this_machine import describe_cpu
from convolver.probing.kernel import measure_kernel
from convolver.probing.machine_probe import default_cpu
from convolver.tracing.kernel_use import faults
from convolver.tracing.reader import Trace

RUNS = 9
NUMPY = "import numpy as n\nfor i in range(200):\n a = n.ones(300000); b = a + a; c = b * a"
SQL = """create table t(a, b); with recursive c(i) as (select 1 union all select i + 1 from c where i < 200000)
insert into t select i, i * 7 % 1000 from c; select b, count(*) from t group by b;"""
PROGRAMS = {
    "xz": ["xz", "-3", "-k", "-c", "{words}"],
    "gzip": ["gzip", "-c", "{words}"],
    "bzip2": ["bzip2", "-k", "-c", "{words}"],
    "zstd": ["zstd", "-3", "-c", "-k", "{words}"],
    "sort": ["sort", "{words}"],
    "cat": ["cat", "{words}"],
    "python": ["/usr/bin/python3", "-c", "print(sum(i * i for i in range(300000)))"],
    "numpy": [sys.executable, "-c", NUMPY],
    "sqlite3": ["sqlite3", ":memory:", SQL],
    "perl": ["perl", "-e", "my %h; $h{$_} = $_ for 1..300000; print scalar keys %h"],
    "awk": ["awk", "BEGIN { for (i = 0; i < 500000; i++) a[i] = i; print length(a) }"],
    "mbw": ["mbw", "-n", "2", "64"],
    "dd": ["dd", "if=/dev/zero", "of={out}", "bs=64k", "count=1000"],
    "find": ["find", "/usr/lib", "-name", "x*"],
}


def native(command: list[str]) -> os.struct_rusage:
    """Run a command without input and output; return what it took."""
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)
    _, status, taken = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return taken


def traced(command: list[str], output: Path) -> dict[str, Any]:
    """Trace a command without input and output; return what it had of the kernel."""
    nowhere = subprocess.DEVNULL
    tracing = [sys.executable, "-m", "convolver", "trace", "--counts-only", "--force", "-o", str(output), "--", *command]
    subprocess.run(tracing, stdin=nowhere, stdout=nowhere, stderr=nowhere, check=True)
    return dict(Trace.load(output).header["system"])


def main(names: list[str]) -> None:
    """Print one line for each program."""
    cpu = default_cpu()
    os.sched_setaffinity(0, {cpu})
    level = Level(level="L1", size_bytes=32 << 10, ways=8)
    machine = MachineProfile(name="here", hierarchy=(level,), kernel=measure_kernel(cpu), cpu=describe_cpu(cpu))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        numbers = random.Random(1)
        (folder / "words").write_text("\n".join(f"{numbers.getrandbits(60):x}" for _ in range(400_000)))
        places = {"{words}": str(folder / "words"), "{out}": str(folder / "out")}
        print(f"{'program':8} {'faults':>8} {'traced':>8} {'system s':>9} {'predicted':>9}  interval")
        for program in names or PROGRAMS:
            command = [place_in(word, places) for word in PROGRAMS[program]]
            if shutil.which(command[0]):
                print(line(program, command, folder, machine), flush=True)


def place_in(word: str, places: dict[str, str]) -> str:
    """Return a word of a command with the names of files."""
    for sign, path in places.items():
        word = word.replace(sign, path)
    return word


def line(program: str, command: list[str], folder: Path, machine: MachineProfile) -> str:
    """Trace a program, run it, and return its line."""
    had = traced(command, folder / "program.cvt")
    found, runs = system_time(had, machine), [native(command) for _ in range(RUNS)]
    assert found is not None
    counts = f"{median(run.ru_minflt for run in runs):8.0f} {faults(had['pages']):8d}"
    times = f"{mean(run.ru_stime for run in runs):9.4f} {found.seconds:9.4f}"
    return f"{program:8} {counts} {times}  {found.low:.4f} to {found.high:.4f}"


if __name__ == "__main__":
    main(sys.argv[1:])

"""Print how much slower programs run under the tracer: CPU time divided by native CPU time, interleaved runs, median.

Run by ``make bench``, or alone: ``python tests/bench/tracer_slowdown.py [--repeats 3] [--seconds 0.4] [--only triad,spmv]``.
The whole program is measured, Valgrind's start of about 0.4 s included; the stream is drained by a thread that throws it away.
With ``--start`` a second row of each program leaves out what a run without work takes: what a long run would show.
``--kept FILE`` puts each program's row into a file and leaves out programs that have one; with ``--limit SECONDS`` no program is
begun later, so that the same command, given again, goes on where it ended: all programs in slots of a quiet machine.
``hpl`` is HPL of Debian's hpcc on four ranks (tracer_hpl.py).
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from result_file import write_result

from convolver.tracing import valgrind

KERNELS = Path(__file__).parent / "kernels"
SCALAR, VECTOR = ["-O2", "-fno-tree-vectorize"], ["-O3", "-march=x86-64-v3"]
NPB = ("cg", "ep", "is", "mg")
HPL = "hpl"
PROGRAMS = {
    **{name: (name, SCALAR) for name in ("triad", "spmv", "stencil", "gups", "dgemm")},
    **{f"{name}-v3": (name, VECTOR) for name in ("triad", "spmv", "stencil", "gups", "dgemm")},
    **{name: (name, ["-O2"]) for name in NPB},
}
TOOL_MODES = {
    "counts": ["--mode=counts"],
    "bursts": ["--mode=sample", "--interval=1000000", "--sample=10000"],
    "no paths": ["--mode=sample", "--interval=1000000", "--sample=10000", "--all-visits=no"],
    "sets": ["--mode=counts", "--sets=32"],
    "hybrid": ["--mode=sample", "--interval=1000000", "--sample=10000", "--sets=32"],
    "limit": ["--mode=full", "--block-limit=10000"],
    "full": ["--mode=full"],
}
OTHERS = {"none": ["valgrind", "-q", "--tool=none"], "cachegrind": ["valgrind", "-q", "--tool=cachegrind"]}
COLUMNS = ["none", "cachegrind", *TOOL_MODES]


def cpu_seconds(command: list[str], **popen: object) -> float:
    """Run the command; return its user and system time."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **popen)  # type: ignore[call-overload]
    assert process.stderr
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}: {said.decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime


def drain(descriptor: int) -> None:
    """Read a pipe to its end."""
    buffer = bytearray(1 << 20)
    with os.fdopen(descriptor, "rb", buffering=0) as pipe:
        while pipe.readinto(buffer):
            pass


def traced_seconds(command: list[str], options: list[str], folder: Path) -> float:
    """Run the command under the tracer, its stream drained; return its CPU time."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 1 << 20)
    reader = threading.Thread(target=drain, args=(read_end,))
    reader.start()
    tool = valgrind.tool_command([f"--wire-fd={write_end}", f"--counters={folder / 'counters'}", *options])
    try:
        return cpu_seconds([*tool, *command], env=valgrind.tool_environment(), pass_fds=[write_end])
    finally:
        os.close(write_end)  # or the reader would never see the end
        reader.join()


def measure(column: str, command: list[str], folder: Path) -> float:
    """CPU seconds of the command under one column's tool."""
    if column in TOOL_MODES:
        return traced_seconds(command, TOOL_MODES[column], folder)
    if column == "cachegrind":
        return cpu_seconds([*OTHERS[column], f"--cachegrind-out-file={folder / 'cg'}", *command])
    return cpu_seconds([*OTHERS.get(column, []), *command])


def build(name: str, folder: Path) -> list[str]:
    """Compile a kernel; return its command."""
    source, flags = PROGRAMS[name]
    binary = folder / name
    subprocess.run(["gcc", *flags, "-o", binary, KERNELS / f"{source}.c", "-lm"], check=True)
    return [str(binary)]


def calibrate(command: list[str], seconds: float) -> list[str]:
    """Append the repeat count that makes a native run last about this long."""
    repeats = 10
    while (used := cpu_seconds([*command, str(repeats)])) < 0.05:
        repeats *= 4
    return [*command, str(max(1, round(repeats * seconds / used)))]


def starts(command: list[str], columns: list[str], folder: Path) -> dict[str, float]:
    """CPU seconds of a run with one turn, under the tool less native, for each column: the smaller of two."""
    idle = [command[0], "1"]
    return {column: min(measure(column, idle, folder) - cpu_seconds(idle) for _ in range(2)) for column in columns}


def slowdowns(
    command: list[str], columns: list[str], repeats: int, folder: Path, start: dict[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """Median of (CPU time under the tool) / (native CPU time of the same round), for each column; then without ``start``."""
    ratios: dict[str, list[tuple[float, float]]] = {column: [] for column in columns}
    for _ in range(repeats):
        native = cpu_seconds(command)
        for column in columns:
            seconds = measure(column, command, folder)
            ratios[column].append((seconds / native, (seconds - start.get(column, 0.0)) / native))
    whole, running = ({column: statistics.median(row[k] for row in rows) for column, rows in ratios.items()} for k in (0, 1))
    return whole, running


Row = dict[str, dict[str, float]]
"""Ratios by column, by what they hold: ``whole`` runs, or ``running`` without the start."""


def program_row(program: str, columns: list[str], options: argparse.Namespace, folder: Path) -> Row:
    """Build and measure one program."""
    if program == HPL:
        from tracer_hpl import slowdowns as hpl_slowdowns

        own = [column for column in columns if column in TOOL_MODES]
        return {"whole": hpl_slowdowns(own, options.repeats, options.hpl_size, folder)}
    command = calibrate(build(program, folder), options.seconds)
    start = starts(command, columns, folder) if options.start else {}
    whole, running = slowdowns(command, columns, options.repeats, folder, start)
    return {"whole": whole, "running": running} if options.start else {"whole": whole}


def show(program: str, row: Row, columns: list[str]) -> None:
    """Print the lines of one program."""
    for label, kind in ((program, "whole"), ("  running", "running")):
        if kind in row:
            print(f"{label:12}" + "".join(f"{row[kind].get(column, math.nan):11.1f}" for column in columns), flush=True)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4, help="native run time")
    parser.add_argument("--only", default="triad,spmv,stencil", help="comma-separated programs; all: every program")
    parser.add_argument("--start", action="store_true", help="a second row without the start")
    parser.add_argument("--columns", default=",".join(COLUMNS))
    parser.add_argument("--kept", type=Path, help="file of rows already measured; new ones are added")
    parser.add_argument("--limit", type=float, default=float("inf"), help="begin no program after so many seconds")
    parser.add_argument("--hpl-size", type=int, default=100)
    parser.add_argument(
        "--store", action="store_true", help="write benchmarks/results/tracer-slowdown.json, from which pages are made"
    )
    options = parser.parse_args()
    columns = options.columns.split(",")
    kept = json.loads(options.kept.read_text()) if options.kept and options.kept.exists() else {}
    programs = [*PROGRAMS, HPL] if options.only == "all" else options.only.split(",")
    began = time.monotonic()
    print(f"{'slowdown':12}" + "".join(f"{column:>11}" for column in columns), flush=True)
    with tempfile.TemporaryDirectory() as name:
        for program in programs:
            if program not in kept and time.monotonic() - began > options.limit:
                raise SystemExit(f"{program} and what follows is left: give the same command again.")
            row = kept[program] = kept.get(program) or program_row(program, columns, options, Path(name))
            if options.kept:
                options.kept.write_text(json.dumps(kept))
            show(program, row, columns)
    if options.store:
        cells = {name: [joined(kept[name], column) for column in columns] for name in programs}
        write_result("tracer-slowdown", ["program", *columns], [[name, *row] for name, row in cells.items()])


def joined(row: Row, column: str) -> str:
    """Return what a page shows: the slowdown of the whole run, and after a comma that without the start where it is known."""
    return ", ".join(f"{row[kind][column]:.1f}" for kind in ("whole", "running") if column in row.get(kind, {}))


if __name__ == "__main__":
    main()

"""Trace for long and watch the memory: ``python -m tests.robust.soak children --count 10000``.

Prints every minute the resident memory of Convolver, that of the largest traced process, and what lies in shared memory. Flat:
after the first third of the samples nothing is more than a tenth above the largest in it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.robust.kill_runs import processes

CHILDREN = "i=0; while [ $i -lt $0 ]; do /bin/true; i=$((i+1)); done"
PROGRAM = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static double numbers[1 << 20];
static pthread_barrier_t all;
static void walk(long references)
{
    for (long done = 0; done < references; done += 1 << 20)
        for (long i = 0; i < 1 << 20; i++)
            numbers[i] += 1.0;
}
static void *thread(void *turns)
{
    for (long turn = 0; turn < (long)turns; turn++) {
        for (int i = 0; i < 1000; i++)
            ((volatile double *)numbers)[i];
        pthread_barrier_wait(&all);
    }
    return NULL;
}
int main(int argc, char **argv)
{
    long count = atol(argv[2]);
    if (!strcmp(argv[1], "references")) {
        walk(count / 2);
    } else if (!strcmp(argv[1], "minutes")) {
        for (time_t until = time(NULL) + 60 * count; time(NULL) < until;)
            walk(1 << 20);
    } else {
        pthread_t *threads = malloc(count * sizeof *threads);
        pthread_barrier_init(&all, NULL, count);
        for (long i = 0; i < count; i++)
            if (pthread_create(threads + i, NULL, thread, (void *)atol(argv[3])))
                return 2;
        for (long i = 0; i < count; i++)
            pthread_join(threads[i], NULL);
    }
    return 0;
}
"""
OPTIONS = {
    "children": ["--trace-children", "-o", "%p.cvt", "--"],
    "threads": ["-o", "a.cvt", "--"],
    "references": ["--full", "--simulate", "server-hbm", "-o", "a.hits.parquet", "--"],
    "minutes": ["-o", "a.cvt", "--"],
}
COUNTS = {"children": 1000, "threads": 500, "references": 10**8, "minutes": 1}


class Memory(NamedTuple):
    """MB of resident memory, and of files in shared memory."""

    convolver: int
    traced: int
    shared: int


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20
    except (OSError, IndexError):
        return 0


def memory(process: int) -> Memory:
    """Return what a run takes now."""
    others = [_resident(one) for one in processes(process) if one != process]
    files = (path for folder in Path("/dev/shm").glob("convolver-*") for path in folder.rglob("*"))
    shared = 0
    for path in files:
        try:
            shared += path.stat().st_blocks * 512
        except OSError:
            continue
    return Memory(_resident(process), max(others, default=0), shared >> 20)


def soak(
    what: str, count: int, folder: Path, seconds: float = 60.0, turns: int = 3000, engine: str = "valgrind"
) -> tuple[list[Memory], int]:
    """Run once; return the memory every so many seconds, and the exit status. ``turns``: how often threads meet."""
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-pthread", "-o", folder / "program", folder / "program.c"], check=True)
    command = ["sh", "-c", CHILDREN, str(count)] if what == "children" else ["./program", what, str(count), str(turns)]
    words = [sys.executable, "-m", "convolver", "trace", f"--engine={engine}", *OPTIONS[what], *command]
    seen: list[Memory] = []
    began = time.monotonic()
    due = began + seconds
    with open(folder / "messages", "w") as messages:
        process = subprocess.Popen(words, cwd=folder, stdout=messages, stderr=messages, start_new_session=True)
    while process.poll() is None:
        if time.monotonic() >= due:
            seen.append(memory(process.pid))
            due = time.monotonic() + seconds
            print(f"{time.monotonic() - began:7.0f} s {seen[-1]}", flush=True)
        time.sleep(0.05)
    return seen, process.returncode


def flat(values: list[int]) -> bool:
    """Return whether the values after the first third rise at most a tenth above those in it."""
    third = max(1, len(values) // 3)
    return max(values[third:], default=0) <= 1.1 * max(values[:third])


def main() -> int:
    """Soak and say whether each kind of memory was flat."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=list(OPTIONS))
    parser.add_argument("--count", type=float, help="children, threads, references or minutes")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between looks")
    parser.add_argument("--engine", default="valgrind", choices=["valgrind", "native"])
    options = parser.parse_args()
    count = int(options.count or COUNTS[options.what])
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        seen, status = soak(options.what, count, Path(name), options.every, engine=options.engine)
        files = list(Path(name).glob("*.cvt"))
        size = sum(path.stat().st_size for path in Path(name).iterdir()) >> 20
        print("".join(Path(name, "messages").read_text(errors="replace").splitlines(keepends=True)[-6:]), end="")
    print(
        f"{options.what} {count}: {time.monotonic() - began:.0f} s, exit status {status}, {len(files)} traces, {size} MB of files"
    )
    running = [one for one in seen if one.traced]  # to finish the file takes its own
    rises = [kind for kind in Memory._fields if running and not flat([getattr(one, kind) for one in running])]
    print(f"not flat: {', '.join(rises)}" if rises else "flat")
    return 1 if rises or status else 0


if __name__ == "__main__":
    sys.exit(main())

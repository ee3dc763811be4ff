"""Compare the native engine's counts with single steps, address by address, over the programs of this system.

``python tests/bench/engine_exactness.py [--programs 250] [--limit 1000000] [--kept FOLDER] [--store]``. Each program runs to
its end, or to the last system call within the first million instructions, three times: by single steps, under the engine, and
there with bursts. Where counts differ, all is done again; programs that take another way each time are named apart. So
are those that went native for a reason which the engine gives, if nothing was counted too often. Where the processor has AVX-512,
kernels built for it are among them. Steps take nearly all of the time: with ``--kept`` a later run finds them in the folder.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from result_file import write_result
from tracer_slowdown import KERNELS

from convolver.tracing.native_engine import went_native
from tests.oracle.stepped_programs import LAST_CALL, build_stepper, counted, differences, installed_programs, kept_steps, stepped

BURSTS = ("--sample=200", "--interval=2000")
WORK = (
    ("sort", "/etc/services"),
    ("sed", "s/[0-9]*/<&>/g", "/etc/services"),
    ("grep", "-E", "(tcp|udp).*[a-z]{4}", "/etc/services"),
    ("awk", "{ n[$2]++ } END { for (k in n) print k, n[k] }", "/etc/services"),
    ("perl", "-e", "my %h; $h{$_ % 97} += $_ * 1.5 for 1 .. 2000; printf '%g', $h{5}"),
    ("python3", "-c", "print(sum(len(str(i)) for i in range(1000)))"),
    ("sqlite3", ":memory:", "create table a(x); insert into a values (1), (2); select sum(x * 1.5) from a"),
    ("openssl", "dgst", "-sha256", "/etc/services"),
    ("openssl", "enc", "-aes-256-cbc", "-K", "00", "-iv", "00", "-in", "/etc/services"),
    ("xz", "-c", "/etc/services"),
    ("gzip", "-c", "/etc/services"),
    ("bzip2", "-c", "/etc/services"),
    ("zstd", "-c", "/etc/services"),
    ("sha512sum", "/etc/services"),
    ("cksum", "/etc/services"),
    ("base64", "/etc/services"),
    ("od", "-t", "f8x4", "/etc/services"),
    ("objdump", "-d", "/usr/bin/true"),
    ("readelf", "-a", "/usr/bin/true"),
    ("nm", "-D", "/usr/bin/sort"),
    ("factor", "1000000007000000049"),
    ("bc", "/etc/services"),
    ("m4", "/etc/services"),
    ("diff", "/etc/services", "/etc/protocols"),
    ("find", "/etc/default"),
    ("ls", "-l", "/usr/bin"),
    ("tar", "cf", "-", "/etc/default"),
    ("gcc", "-E", "-v", "-xc", "/dev/null"),
    ("git", "diff", "--no-index", "/etc/services", "/etc/protocols"),
    ("node", "-e", "console.log(1)"),
)
WIDE = ("-O3", "-march=x86-64-v4", "-mprefer-vector-width=512", "-ffast-math")
WIDE_CODE = """
#include <immintrin.h>
#include <stdio.h>
#define N 1000
static double x[N], y[N];
static int at[N], kept[N + 16];
static unsigned char a[N], b[N];
int main(void)
{
    double sum = 0;
    int n = 0, dot = 0;
    for (int i = 0; i < N; i++)
        at[i] = i * 7 % N, x[i] = i * 0.5, a[i] = i, b[i] = i * 3;
    for (int k = 0; k < 50; k++) {
        for (int i = 0; i < N; i++)
            y[at[i]] += x[at[i]] > k ? x[i] / (1 + i) : 0;
        for (int i = 0; i < N; i++)
            sum += y[i] < 99 ? y[i] : k, dot += a[i] * b[i];
        n = 0;
        for (int i = 0; i + 16 <= N; i += 16) {
            const __m512i v = _mm512_loadu_si512(at + i);
            const __mmask16 m = _mm512_cmplt_epi32_mask(v, _mm512_set1_epi32(k * 20));
            _mm512_mask_compressstoreu_epi32(kept + n, m, v);
            n += __builtin_popcount(m);
            _mm512_mask_i32scatter_epi32(kept, m, _mm512_conflict_epi32(v), v, 4);
        }
    }
    printf("%g %d %d %d", sum, dot, n, kept[3]);
}
"""


class Compared(NamedTuple):
    """One program: executed instructions, addresses, differences (none: the same), and whether two stepped runs are the same."""

    command: Sequence[str]
    instructions: int
    addresses: int
    different: list[tuple[int, int, int]]
    repeats: bool
    wide: bool
    """Whether it executed AVX-512."""
    refused: list[str]
    """Why it went native before its last system call (a filter of system calls, say); its counts end there."""


def wide_programs(folder: Path) -> list[list[str]]:
    """Build programs of AVX-512 code where this processor has it; return their commands."""
    if "avx512vl" not in Path("/proc/cpuinfo").read_text():
        return []
    (folder / "wide.c").write_text(WIDE_CODE)
    commands = []
    for source, *arguments in (
        (folder / "wide.c",),
        (KERNELS / "triad.c", "40"),
        (KERNELS / "spmv.c", "1"),
        (KERNELS / "stencil.c", "1"),
    ):
        for linked in ("-pie", "-static"):
            program = folder / f"{source.stem}{linked}"
            subprocess.run(["gcc", *WIDE, linked, "-o", program, source, "-lm"], check=True)
            commands.append([str(program), *arguments])
    return commands


def compare(command: Sequence[str], folder: Path, limit: int, cpu: int) -> Compared:
    """Run one program by steps and under the engine; steps that the folder has already are taken from there."""
    wrong: list[tuple[int, int, int]] = []
    truth: dict[int, int] = {}
    known = kept_steps(folder) if (folder / "done").exists() else None
    (folder / "done").unlink(missing_ok=True)
    same_steps = True
    for _ in range(
        5
    ):  # the clock's code of the kernel tries again where the time changes meanwhile, more often the slower the steps
        before = truth
        call, truth = known or stepped(build_stepper(folder), folder, command, limit, cpu)
        known = None
        same_steps = same_steps and before in ({}, truth)
        until = [f"{LAST_CALL}{call}"] if call else []
        wrong = [d for more in ((), BURSTS) for d in differences(truth, counted(folder, command, *until, *more, cpu=cpu)[0])]
        if not wrong:
            break
    (folder / "done").touch()
    wide = re.search("^vector sets:.* avx512f", (folder / "log").read_text(), re.M) is not None
    return Compared(command, sum(truth.values()), len(truth), wrong, not wrong or same_steps, wide, went_native(folder / "log"))


def folder_of(command: Sequence[str], kept: Path) -> Path:
    """Return the program's folder; its name says the command, and is as long as any other's."""
    folder = kept / hashlib.sha256("\0".join(command).encode()).hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    return folder


def main() -> None:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=250)
    parser.add_argument("--limit", type=int, default=1_000_000)
    parser.add_argument("--kept", type=Path, help="folder for what was stepped, to be used again")
    parser.add_argument("--store", action="store_true", help="write benchmarks/results/engine-exactness.json")
    options = parser.parse_args()
    cpus = itertools.cycle(sorted(os.sched_getaffinity(0)))
    same, differing, other_ways, refused = [], [], [], []
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool, tempfile.TemporaryDirectory() as name:
        kept = (options.kept or Path(name)).resolve()
        kept.mkdir(exist_ok=True)
        every = itertools.chain(wide_programs(kept), WORK, installed_programs())
        commands = itertools.islice(every, options.programs)
        tasks = [pool.submit(compare, command, folder_of(command, kept), options.limit, next(cpus)) for command in commands]
        for task in as_completed(tasks):
            one = task.result()
            left = one.refused and all(found <= true for _, true, found in one.different)
            (same if not one.different else refused if left else differing if one.repeats else other_ways).append(one)
            found = f"{len(one.different)} differ, first {one.different[0]}" if one.different else "same"
            name = " ".join(one.command)[:60]
            why = "; ".join([*([] if one.repeats else ["another way each time"]), *one.refused])
            print(f"{name:60} {one.instructions:>9} {found} {why}", flush=True)
    print(
        f"{len(same)} the same, {len(differing)} differ, {len(other_ways)} take another way each time, {len(refused)} went native"
    )
    if options.store:
        values = {
            "same": len(same),
            "instructions": sum(o.instructions for o in same),
            "addresses": sum(o.addresses for o in same),
        }
        values |= {"with AVX-512": sum(o.wide for o in same)}
        values |= {"differing": len(differing), "another way each time": len(other_ways), "went native": len(refused)}
        write_result("engine-exactness", values=values)


if __name__ == "__main__":
    main()

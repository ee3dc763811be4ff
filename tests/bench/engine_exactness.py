"""Compare the native engine's counts with single steps, address by address, over the programs of this system.

``python tests/bench/engine_exactness.py [--programs 250] [--limit 1000000] [--store]``. Each program runs to its end, or to the
last system call within the first million instructions, three times: by single steps, under the engine, and there with bursts.
Where counts differ, all is done again; programs that take another way each time are named apart.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from result_file import write_result

from tests.oracle.stepped_programs import LAST_CALL, build_stepper, counted, differences, installed_programs, stepped

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


class Compared(NamedTuple):
    """One program: executed instructions, addresses, differences (none: the same), and whether two stepped runs are the same."""

    command: Sequence[str]
    instructions: int
    addresses: int
    different: list[tuple[int, int, int]]
    repeats: bool


def compare(command: Sequence[str], limit: int, cpu: int) -> Compared:
    """Run one program by steps and under the engine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stepper = build_stepper(folder)
        wrong: list[tuple[int, int, int]] = []
        truth: dict[int, int] = {}
        for _ in range(2):  # the clock's code of the kernel tries again where the time changes meanwhile: rarely twice
            before = truth
            call, truth = stepped(stepper, folder, command, limit, cpu)
            until = [f"{LAST_CALL}{call}"] if call else []
            wrong = [d for more in ((), BURSTS) for d in differences(truth, counted(folder, command, *until, *more, cpu=cpu)[0])]
            if not wrong:
                break
        repeats = not wrong or before == truth
    return Compared(command, sum(truth.values()), len(truth), wrong, repeats)


def main() -> None:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=250)
    parser.add_argument("--limit", type=int, default=1_000_000)
    parser.add_argument("--store", action="store_true", help="write benchmarks/results/engine-exactness.json")
    options = parser.parse_args()
    cpus = itertools.cycle(sorted(os.sched_getaffinity(0)))
    commands = itertools.islice(itertools.chain(WORK, installed_programs()), options.programs)
    same, differing, other_ways = [], [], []
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        tasks = [pool.submit(compare, command, options.limit, next(cpus)) for command in commands]
        for task in as_completed(tasks):
            one = task.result()
            (same if not one.different else differing if one.repeats else other_ways).append(one)
            found = f"{len(one.different)} differ, first {one.different[0]}" if one.different else "same"
            name = " ".join(one.command)[:60]
            print(f"{name:60} {one.instructions:>9} {found}{'' if one.repeats else ', another way each time'}", flush=True)
    print(f"{len(same)} the same, {len(differing)} differ, {len(other_ways)} take another way each time")
    if options.store:
        values = {
            "same": len(same),
            "instructions": sum(o.instructions for o in same),
            "addresses": sum(o.addresses for o in same),
        }
        values |= {"differing": len(differing), "another way each time": len(other_ways)}
        write_result("engine-exactness", values=values)


if __name__ == "__main__":
    main()

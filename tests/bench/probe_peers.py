"""The probe beside its peers on the same CPU: likwid-bench for bandwidth, multichase for latency. Not a test: it reports.

    python tests/bench/probe_peers.py [--rounds 3] [--cpu N] [--multichase PATH] [--json]

Runs are interleaved; each side's best round counts. Peers that are not installed are left out. multichase samples for half a
second at a time, so that on a busy machine it measures the scheduler: run this on a quiet one, or under `nice -n -15` as root.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
from typing import Any

from convolver.probing.plan import Effort, Item, Plan
from convolver.probing.runner import run_plan
from convolver.probing.samples import low_percentile
from convolver.progress import SILENT

SIZES = {"L1": 16 << 10, "L2": 512 << 10, "memory": 256 << 20}
# likwid-bench test, our kernel, bytes that one of our references moves
STREAMS = [("load", "load", 8), ("load_avx", "load_v32", 32), ("store_avx", "store_v32", 32), ("copy", "copy", 8)]


def ours(kernel: str, size: int, cpu: int) -> float:
    """Return our seconds per reference."""
    plan = Plan(name="peer", items=(Item(kernel, size),), rounds=1, effort=Effort(warmup_seconds=1.0, limit_seconds=0.1))
    return low_percentile(run_plan(plan, cpu, SILENT)[0].samples_seconds)


def likwid(test: str, size: int, cpu: int) -> float:
    """Return likwid-bench's bytes per second over a few milliseconds, so that a time slice can hold the whole run."""
    group = f"S0:{size // 1024}kB:1" if cpu == 0 else f"S0:{size // 1024}kB:1:{cpu + 1}:{cpu + 1}"
    turns = max(int(0.003 * 60e9 / size), 1)
    command = ["taskset", "-c", str(cpu), "likwid-bench", "-t", test, "-w", group, "-i", str(turns)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"MByte/s:\s+([\d.]+)", text)
    if found is None:
        raise SystemExit(f"likwid-bench said nothing about {test}:\n{text}")
    return float(found[1]) * 1e6


def multichase(binary: str, size: int, cpu: int) -> float:
    """Return multichase's seconds per dependent load at 64-byte distance, random over the whole set."""
    command = ["taskset", "-c", str(cpu), binary, "-m", str(size), "-s", "64", "-T", str(size), "-n", "4"]
    return min(float(line) for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()) * 1e-9


def compare_streams(rounds: int, cpu: int) -> list[dict[str, Any]]:
    """Return GB/s of both sides for each stream and level."""
    rows = []
    for test, kernel, width in STREAMS:
        for level, size in SIZES.items():
            pairs = [(width / ours(kernel, size, cpu), likwid(test, size, cpu)) for _ in range(rounds)]
            mine, theirs = (max(side) / 1e9 for side in zip(*pairs, strict=True))
            rows.append({"what": f"{kernel} GB/s", "level": level, "ours": mine, "peer": theirs, "ratio": mine / theirs})
    return rows


def compare_latency(binary: str, rounds: int, cpu: int) -> list[dict[str, Any]]:
    """Return ns of both sides for the chase in each level."""
    rows = []
    for level, size in SIZES.items():
        pairs = [(ours("chase", size, cpu), multichase(binary, size, cpu)) for _ in range(rounds)]
        mine, theirs = (min(side) * 1e9 for side in zip(*pairs, strict=True))
        rows.append({"what": "chase ns", "level": level, "ours": mine, "peer": theirs, "ratio": mine / theirs})
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpu", type=int, default=0)
    parser.add_argument("--multichase", default=shutil.which("multichase"))
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    rows = compare_streams(chosen.rounds, chosen.cpu) if shutil.which("likwid-bench") else []
    rows += compare_latency(chosen.multichase, chosen.rounds, chosen.cpu) if chosen.multichase else []
    if chosen.json:
        print(json.dumps(rows, indent=1))
    for row in rows if not chosen.json else ():
        print(f"{row['what']:16} {row['level']:7} ours {row['ours']:8.3g}  peer {row['peer']:8.3g}  ratio {row['ratio']:.3f}")


if __name__ == "__main__":
    main()

"""The probe beside its peers on the same CPU: likwid-bench for bandwidth, multichase for latency. Not a test: it reports.

    python tests/bench/probe_peers.py [--rounds 5] [--cpu N] [--multichase PATH] [--json]

Both sides take turns, on pages of 4 KiB (multichase refuses others) and on one working set; each side's best round counts.
Peers that are not installed are left out. likwid-bench runs its own loop and, as `same loop`, one with
as many references a turn as our kernels have. It calls its loop once a pass, which costs some 30 cycles: `without calls`
takes two lengths of a pass and counts what the longer one adds. multichase samples for half a second at a time, so that on a
busy machine it measures the scheduler: run this on a quiet one, or under `nice -n -15` as root.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from convolver.probing.plan import Effort, Item, Plan
from convolver.probing.runner import run_plan
from convolver.probing.samples import low_percentile
from convolver.progress import SILENT

SIZES = {"L1": 16 << 10, "L2": 512 << 10, "memory": 256 << 20}
RUN_SECONDS = 0.003
"""Of likwid-bench: a time slice can hold the whole run."""


class Stream(NamedTuple):
    """likwid-bench's test, our kernel, bytes that one reference moves, loads and stores of an element."""

    test: str
    kernel: str
    width: int
    loads: int
    stores: int


STREAMS = [
    Stream("load", "load", 8, 1, 0),
    Stream("load_avx", "load_v32", 32, 1, 0),
    Stream("store_avx", "store_v32", 32, 0, 1),
    Stream("copy", "copy", 8, 1, 1),
]
REFERENCES = 16
"""Of one turn of our kernels' loops."""


def test_text(stream: Stream) -> str:
    """Return a test of likwid-bench with the loop of our kernel."""
    register, move = ("ymm", "vmovaps") if stream.width == 32 else ("xmm", "movsd")
    arrays = stream.loads + stream.stores
    elements = REFERENCES // arrays
    body = []
    for k in range(elements):
        place = f"GPR1 * 8 + {stream.width * k}"
        body += [f"{move} {register}{k % 8 + 1}, [STR0 + {place}]"] * stream.loads
        source = k % 8 + 1 if stream.loads else 1
        body += [f"{move} [STR{arrays - 1} + {place}], {register}{source}"] * stream.stores
    head = [
        *(f"STREAMS {arrays}", "TYPE DOUBLE", "FLOPS 0", f"BYTES {8 * arrays}", f"DESC {stream.kernel}"),
        *(f"LOADS {stream.loads}", f"STORES {stream.stores}", "INSTR_CONST 16", "INSTR_LOOP 19", "UOPS 18"),
    ]
    first = [] if stream.loads else [f"{move} {register}1, [rip+SCALAR]"]
    return "\n".join([*head, *first, f"LOOP {elements * stream.width // 8}", *body]) + "\n"


def ours(kernel: str, size: int, cpu: int) -> float:
    """Return our seconds per reference."""
    effort = Effort(warmup_seconds=1.0, limit_seconds=0.1, sample_seconds=0.002 if size > SIZES["L2"] else 0.0006)
    plan = Plan(name="peer", items=(Item(kernel, size),), rounds=1, pages="4k", effort=effort)
    return low_percentile(run_plan(plan, cpu, SILENT)[0].samples_seconds)


def likwid(test: str, size: int, cpu: int, home: str, turns: int = 0) -> float:
    """Return likwid-bench's bytes per second over a few milliseconds, or over so many passes."""
    group = f"S0:{size}B:1" if cpu == 0 else f"S0:{size}B:1:{cpu + 1}:{cpu + 1}"
    turns = turns or max(int(RUN_SECONDS * 60e9 / size), 1)
    command = ["taskset", "-c", str(cpu), "likwid-bench", "-t", test, "-w", group, "-i", str(turns)]
    environment = {**os.environ, "HOME": home, "LC_ALL": "C"}
    text = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    found = re.search(r"MByte/s:\s+([\d.]+)", text)
    if found is None:
        raise SystemExit(f"likwid-bench said nothing about {test}:\n{text}")
    return float(found[1]) * 1e6


def without_calls(test: str, size: int, cpu: int, home: str) -> float:
    """Return the bytes per second that a pass of twice the length adds to likwid-bench's time."""
    turns = max(int(RUN_SECONDS * 60e9 / size), 1)
    short, long = (turns * one / likwid(test, one, cpu, home, turns) for one in (size, 2 * size))
    return turns * size / (long - short) if long > short else 0.0


def multichase(binary: str, size: int, cpu: int) -> float:
    """Return multichase's seconds per dependent load at 64-byte distance, random over the whole set."""
    command = ["taskset", "-c", str(cpu), binary, "-m", str(size), "-s", "64", "-T", str(size), "-n", "2"]
    return min(float(line) for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()) * 1e-9


def middle(values: list[float]) -> float:
    """Return the median of an odd number of values."""
    return sorted(values)[len(values) // 2]


def compare_streams(rounds: int, cpu: int, home: str, levels: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield GB/s of all sides for each stream and level."""
    for stream in STREAMS:
        for level in levels:
            size = SIZES[level]
            same = f"{stream.kernel}_ours"
            sides: dict[str, list[float]] = {"ours": [], "peer": [], "same_loop": [], "without_calls": []}
            for _ in range(rounds):
                sides["ours"].append(stream.width / ours(stream.kernel, size, cpu))
                sides["peer"].append(likwid(stream.test, size, cpu, home))
                if level != "memory":
                    sides["same_loop"].append(likwid(same, size, cpu, home))
                if level == "L1":
                    # The difference of two times can be too small by chance, so the median stands for it.
                    sides["without_calls"].append(without_calls(same, size, cpu, home))
            best = {name: max(values) / 1e9 for name, values in sides.items() if values}
            if sides["without_calls"]:
                best["without_calls"] = middle(sides["without_calls"]) / 1e9
            pairs = [a / b for a, b in zip(sides["ours"], sides["peer"], strict=True)]
            yield {"what": f"{stream.kernel} GB/s", "level": level, **best, "pairs": middle(pairs)}


def compare_latency(binary: str, rounds: int, cpu: int, levels: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield ns of both sides for the chase in each level."""
    for level in levels:
        size = SIZES[level]
        pairs = [(ours("chase", size, cpu), multichase(binary, size, cpu)) for _ in range(rounds)]
        mine, theirs = (min(side) * 1e9 for side in zip(*pairs, strict=True))
        yield {"what": "chase ns", "level": level, "ours": mine, "peer": theirs, "pairs": middle([a / b for a, b in pairs])}


def report(rows: Iterator[dict[str, Any]], as_json: bool) -> None:
    """Print rows as they come: a line each, or a JSON object each."""
    for row in rows:
        others = "  ".join(
            f"{name.replace('_', ' ')} {row[name]:.4g} ({row['ours'] / row[name]:.3f})"
            for name in ("peer", "same_loop", "without_calls")
            if row.get(name)
        )
        line = f"{row['what']:16} {row['level']:7} ours {row['ours']:.4g}  {others}  median of pairs {row['pairs']:.3f}"
        print(json.dumps(row) if as_json else line, flush=True)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--level", choices=SIZES, action="append", help="of L1, L2, memory; repeatable (default: all)")
    parser.add_argument("--cpu", type=int, default=0)
    parser.add_argument("--multichase", default=shutil.which("multichase"))
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    levels = chosen.level or list(SIZES)
    with TemporaryDirectory() as home:
        folder = Path(home) / ".likwid" / "bench" / "x86-64"
        folder.mkdir(parents=True)
        for stream in STREAMS:
            (folder / f"{stream.kernel}_ours.ptt").write_text(test_text(stream))
        if shutil.which("likwid-bench"):
            report(compare_streams(chosen.rounds, chosen.cpu, home, levels), chosen.json)
    if chosen.multichase:
        report(compare_latency(chosen.multichase, chosen.rounds, chosen.cpu, levels), chosen.json)


if __name__ == "__main__":
    main()

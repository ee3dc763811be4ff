"""The probe beside its peers on the same CPU: likwid-bench for bandwidth, multichase for latency. Not a test: it reports.

    python tests/bench/probe_peers.py [--rounds 12] [--level L1] [--only NAME] [--cpu N] [--multichase PATH] [--json]

Both sides measure one working set, with samples of one length, within the same second: likwid-bench sleeps for a second before it
measures, and the probe runs in between. Rounds go on until the two best of either side agree within 2 %, since a neighbour on the
core's other thread halves either side for seconds; the best of each counts. Peers that are not installed are left out.

likwid-bench runs its own loop and, as `same loop`, one with as many references a turn as our kernels have. It calls its loop once
a pass, so the working set of L1 is most of that level. multichase tells means over half a second, so our mean over as long stands
beside it, on pages of 4 KiB and on huge ones (asked for, as the default policy of the kernel has it).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from convolver.probing.plan import Effort, Item, Plan
from convolver.probing.runner import run_plan
from convolver.progress import SILENT

SIZES = {"L1": 36 << 10, "L2": 512 << 10, "memory": 256 << 20}
"""Three quarters of an L1 of 48 KiB: fewer calls of likwid-bench's function a reference."""
SAMPLE_SECONDS = {"L1": 0.003, "L2": 0.003, "memory": 0.02}
"""Of either side: a time slice can hold a sample, and one of memory is a pass."""
HALF_SECOND = 0.5
AGREE = 0.02
LEAST_ROUNDS = 4
RUNS = {"L1": 4, "L2": 4, "memory": 2}
"""Of likwid-bench in a round."""
APART_SECONDS = {"L1": 0.04, "L2": 0.04, "memory": 0.4}
"""Between their starts: each sleeps for a second, fills its arrays, measures and ends before the next one has slept."""
FASTEST_BYTES = {"L1": 300e9, "L2": 80e9, "memory": 13e9}
"""A second: how many passes a sample has."""


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


def ours(kernel: str, level: str, cpu: int, pages: str, seconds: float, least: int) -> tuple[float, ...]:
    """Return our seconds per reference, a number a sample."""
    effort = Effort(
        warmup_seconds=1.0, limit_seconds=2 * least * seconds, sample_seconds=seconds, precision=0.0, least=least, most=31
    )
    plan = Plan(name="peer", items=(Item(kernel, SIZES[level]),), rounds=1, pages=pages, effort=effort)
    return run_plan(plan, cpu, SILENT)[0].samples_seconds


def likwid(test: str, level: str, cpu: int, home: str) -> subprocess.Popen[str]:
    """Start likwid-bench for a sample."""
    size = SIZES[level]
    group = f"S0:{size}B:1" if cpu == 0 else f"S0:{size}B:1:{cpu + 1}:{cpu + 1}"
    turns = max(int(SAMPLE_SECONDS[level] * FASTEST_BYTES[level] / size), 1)
    command = ["taskset", "-c", str(cpu), "likwid-bench", "-t", test, "-w", group, "-i", str(turns)]
    environment = {**os.environ, "HOME": home, "LC_ALL": "C"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)


def bandwidth(run: subprocess.Popen[str]) -> float:
    """Return likwid-bench's GB/s when it has ended."""
    text = run.communicate()[0]
    found = re.search(r"MByte/s:\s+([\d.]+)", text)
    if found is None:
        raise SystemExit(f"likwid-bench said nothing:\n{text}")
    return float(found[1]) / 1e3


def stream_round(stream: Stream, level: str, cpu: int, home: str) -> dict[str, float]:
    """Return the best GB/s of each side within about two seconds."""
    tests = {"peer": stream.test, "same_loop": f"{stream.kernel}_ours"}
    runs: dict[str, list[subprocess.Popen[str]]] = {side: [] for side in tests}
    samples: tuple[float, ...] = ()
    if level == "memory":  # filling the arrays takes so long that the peer's first runs would measure beside ours
        samples = ours(stream.kernel, level, cpu, "4k", SAMPLE_SECONDS[level], 9)
    for _ in range(RUNS[level]):
        for side, test in tests.items():
            runs[side].append(likwid(test, level, cpu, home))
            time.sleep(APART_SECONDS[level])
    if level != "memory":
        samples = ours(stream.kernel, level, cpu, "4k", SAMPLE_SECONDS[level], 9)
    best = {side: max(map(bandwidth, started)) for side, started in runs.items()}
    samples += ours(stream.kernel, level, cpu, "4k", SAMPLE_SECONDS[level], 9)
    return {"ours": stream.width / min(samples) / 1e9, **best}


def chase_round(binary: str, level: str, cpu: int, pages: str) -> dict[str, float]:
    """Return ns of a dependent load at 64-byte distance, random over the whole set: means over half a second."""
    size, huge = SIZES[level], "-H" if pages == "thp" else ""
    command = f"taskset -c {cpu} {binary} {huge} -m {size} -s 64 -T {size} -n 1".split()
    mine = ours("chase", level, cpu, pages, HALF_SECOND / 31, 31)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"ours": mean(mine) * 1e9, "peer": float(done.stdout)}


def settled(values: list[float]) -> bool:
    """Tell whether the two values that come first agree."""
    return abs(values[0] / values[1] - 1) <= AGREE


def compare(measure: Callable[[], dict[str, float]], most: int, *, larger_is_better: bool) -> dict[str, Any]:
    """Return the best of each side, over as many rounds as it takes."""
    rounds: list[dict[str, float]] = []
    while len(rounds) < most:
        rounds.append(measure())
        sides = {side: sorted((one[side] for one in rounds), reverse=larger_is_better) for side in rounds[0]}
        if len(rounds) >= LEAST_ROUNDS and all(map(settled, sides.values())):
            break
    pairs = median(one["ours"] / one["peer"] for one in rounds)
    return {**{side: values[0] for side, values in sides.items()}, "pairs": pairs, "rounds": len(rounds)}


def compare_streams(rounds: int, cpu: int, home: str, levels: Sequence[str], only: str | None) -> Iterator[dict[str, Any]]:
    """Yield GB/s of all sides for each stream and level."""
    for stream in STREAMS:
        for level in levels if only in (None, stream.kernel) else ():
            found = compare(lambda one=stream, at=level: stream_round(one, at, cpu, home), rounds, larger_is_better=True)  # type: ignore[misc]
            yield {"what": f"{stream.kernel} GB/s", "level": level, **found}


def compare_latency(binary: str, rounds: int, cpu: int, levels: Sequence[str], only: str | None) -> Iterator[dict[str, Any]]:
    """Yield ns of both sides for the chase in each level, with small and with huge pages."""
    for pages in ("4k", "thp") if only in (None, "chase") else ():
        for level in levels:
            found = compare(lambda at=level, on=pages: chase_round(binary, at, cpu, on), rounds, larger_is_better=False)  # type: ignore[misc]
            yield {"what": f"chase ns {pages}", "level": level, **found}


def report(rows: Iterator[dict[str, Any]], as_json: bool) -> None:
    """Print rows as they come: a line each, or a JSON object each."""
    for row in rows:
        others = "  ".join(
            f"{name.replace('_', ' ')} {row[name]:.4g} ({row['ours'] / row[name]:.3f})"
            for name in ("peer", "same_loop")
            if row.get(name)
        )
        sides = f"ours {row['ours']:.4g}  {others}  median of pairs {row['pairs']:.3f}  rounds {row['rounds']}"
        print(json.dumps(row) if as_json else f"{row['what']:16} {row['level']:7} {sides}", flush=True)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12, help="at most")
    parser.add_argument("--level", choices=SIZES, action="append", help="of L1, L2, memory; repeatable (default: all)")
    parser.add_argument("--only", choices=[*(one.kernel for one in STREAMS), "chase"])
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
            report(compare_streams(chosen.rounds, chosen.cpu, home, levels, chosen.only), chosen.json)
    if chosen.multichase:
        report(compare_latency(chosen.multichase, chosen.rounds, chosen.cpu, levels, chosen.only), chosen.json)


if __name__ == "__main__":
    main()

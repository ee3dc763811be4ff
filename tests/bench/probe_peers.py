"""The probe beside its peers on the same CPU: likwid-bench for bandwidth, multichase for latency. Not a test: it reports.

    python tests/bench/probe_peers.py [--rounds 5] [--level L1] [--only NAME] [--cpu N] [--multichase PATH] [--json]

All sides of a comparison measure one working set and take turns: likwid-bench is stopped (SIGSTOP) while the probe takes samples
for a tenth of a second (of caches 30 ms), and goes on while the probe waits. A round ends when likwid-bench has made its passes;
its bandwidth is what it moved over the time in which it ran, ours the mean of all samples, so that whatever else the machine does
meets all sides alike. Each round has new processes, and so other physical pages; the median of the rounds' ratios counts, its
range stands beside it. Peers that are not installed are left out.

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
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple

from convolver.probing.plan import Effort, Item, Plan
from convolver.probing.runner import probe_binary, run_plan
from convolver.progress import SILENT

SIZES = {"L1": 36 << 10, "L2": 512 << 10, "memory": 256 << 20}
"""Three quarters of an L1 of 48 KiB: fewer calls of likwid-bench's function a reference."""
SLICE_SECONDS = {"L1": 0.03, "L2": 0.03, "memory": 0.1}
"""Of one side's turn: short against the seconds for which other VMs work, long against the return of a cache's lines."""
SLICES = 15
"""About as many turns of each side make a round."""
SAMPLES = 5
"""Of ours in a turn."""
HALF_SECOND = 0.5
USUAL_BYTES = {"L1": 100e9, "L2": 50e9, "memory": 9e9}
"""A second: how many passes likwid-bench makes in a round."""


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


class Peer:
    """A run of likwid-bench that has begun to measure, and does so only while it is let."""

    def __init__(self, test: str, level: str, cpu: int, home: str) -> None:
        size = SIZES[level]
        group = f"S0:{size}B:1" if cpu == 0 else f"S0:{size}B:1:{cpu + 1}:{cpu + 1}"
        passes = max(int(SLICES * SLICE_SECONDS[level] * USUAL_BYTES[level] / size), 1)
        command = ["taskset", "-c", str(cpu), "stdbuf", "-oL", "likwid-bench", "-t", test, "-w", group, "-i", str(passes)]
        environment = {**os.environ, "HOME": home, "LC_ALL": "C"}
        self._run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        self._seconds = SLICE_SECONDS[level]
        self._stopped_seconds = 0.0
        self._let_seconds = 0.0
        for line in self._out():
            if line.startswith(b"Group:"):  # its arrays are filled, and it is about to measure
                break
        self._let()

    def _out(self) -> IO[bytes]:
        assert self._run.stdout is not None
        return self._run.stdout

    def _let(self) -> bool:
        start = time.monotonic()
        time.sleep(self._seconds)
        os.kill(self._run.pid, signal.SIGSTOP)
        _, status = os.waitpid(self._run.pid, os.WUNTRACED)
        self._since = time.monotonic()
        self._let_seconds += self._since - start
        return os.WIFSTOPPED(status)

    def turn(self) -> bool:
        """Let it measure for a turn; False when its last pass has ended."""
        self._stopped_seconds += time.monotonic() - self._since
        os.kill(self._run.pid, signal.SIGCONT)
        return self._let()

    def bytes_per_second(self) -> float | None:
        """Return what it moved in the time that it had, when it has ended; None where its clock and ours disagree about that
        time: then it was stopped before it had begun to measure."""
        text = self._out().read().decode()
        said = dict(re.findall(r"^(Time|Data volume \(Byte\)):\s+([\d.e+-]+)", text, re.MULTILINE))
        if len(said) < 2:
            raise SystemExit(f"likwid-bench said nothing:\n{text}")
        seconds = float(said["Time"]) - self._stopped_seconds
        late = self._let_seconds - seconds  # part of the last turn, too
        return float(said["Data volume (Byte)"]) / seconds if late < 2 * self._seconds else None


class Ours:
    """Our probe, which keeps its memory from turn to turn."""

    def __init__(self, stream: Stream, level: str, cpu: int) -> None:
        effort = {
            "sample": SLICE_SECONDS[level] / SAMPLES,
            "limit": 1,
            "warmup": 1,
            "precision": 0,
            "least": SAMPLES,
            "most": SAMPLES,
        }
        options = {"cpu": cpu, "bytes": max(SIZES[level], 1 << 20), "pages": "4k", **effort}
        command = [str(probe_binary()), *(f"{text}" for key, value in options.items() for text in (f"--{key}", value))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._line = f"{stream.kernel} {SIZES[level]} 1\n"
        self._width = stream.width
        self._samples: list[float] = []

    def turn(self) -> None:
        """Measure for a turn."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(self._line)
        self._process.stdin.flush()
        self._samples += json.loads(self._process.stdout.readline())["samples_seconds"]

    def bytes_per_second(self) -> float:
        """Return the mean of all turns, and end."""
        self._process.communicate()
        return self._width / mean(self._samples)


def stream_round(stream: Stream, level: str, cpu: int, home: str) -> dict[str, float]:
    """Return the GB/s of each side, which take turns; tries again where one was not measured."""
    mine = Ours(stream, level, cpu)
    peers = {"peer": Peer(stream.test, level, cpu, home), "same_loop": Peer(f"{stream.kernel}_ours", level, cpu, home)}
    running = list(peers.values())
    mine.turn()
    while running:
        mine.turn()
        running = [peer for peer in running if peer.turn()]
    sides = {"ours": mine, **peers}
    found = {side: value / 1e9 for side, one in sides.items() if (value := one.bytes_per_second())}
    return found if len(found) == len(sides) else stream_round(stream, level, cpu, home)


def chase_round(binary: str, level: str, cpu: int, pages: str) -> dict[str, float]:
    """Return ns of a dependent load at 64-byte distance, random over the whole set: means over half a second."""
    size, huge = SIZES[level], "-H" if pages == "thp" else ""
    effort = Effort(
        warmup_seconds=1.0, limit_seconds=2 * HALF_SECOND, sample_seconds=HALF_SECOND / 31, precision=0.0, least=31, most=31
    )
    plan = Plan(name="peer", items=(Item("chase", size),), rounds=1, pages=pages, effort=effort)
    mine = run_plan(plan, cpu, SILENT)[0].samples_seconds
    command = f"taskset -c {cpu} {binary} {huge} -m {size} -s 64 -T {size} -n 1".split()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"ours": mean(mine) * 1e9, "peer": float(done.stdout)}


def compare(measure: Callable[[], dict[str, float]], rounds: int) -> dict[str, Any]:
    """Return the median of each side over the rounds, and ours over each peer's in each round, ordered."""
    found = [measure() for _ in range(rounds)]
    sides = {side: median(one[side] for one in found) for side in found[0]}
    return {**sides, "ratios": {side: sorted(one["ours"] / one[side] for one in found) for side in sides if side != "ours"}}


def compare_streams(rounds: int, cpu: int, home: str, levels: Sequence[str], only: str | None) -> Iterator[dict[str, Any]]:
    """Yield GB/s of all sides for each stream and level."""
    for stream in STREAMS:
        for level in levels if only in (None, stream.kernel) else ():
            found = compare(lambda one=stream, at=level: stream_round(one, at, cpu, home), rounds)  # type: ignore[misc]
            yield {"what": f"{stream.kernel} GB/s", "level": level, **found}


def compare_latency(binary: str, rounds: int, cpu: int, levels: Sequence[str], only: str | None) -> Iterator[dict[str, Any]]:
    """Yield ns of both sides for the chase in each level, with small and with huge pages."""
    for pages in ("4k", "thp") if only in (None, "chase") else ():
        for level in levels:
            found = compare(lambda at=level, on=pages: chase_round(binary, at, cpu, on), rounds)  # type: ignore[misc]
            yield {"what": f"chase ns {pages}", "level": level, **found}


def report(rows: Iterator[dict[str, Any]], as_json: bool) -> None:
    """Print rows as they come: a line each, or a JSON object each."""
    for row in rows:
        others = "  ".join(
            f"{name.replace('_', ' ')} {row[name]:.4g} ({median(ratios):.3f}, {ratios[0]:.3f} to {ratios[-1]:.3f})"
            for name, ratios in row["ratios"].items()
        )
        line = f"{row['what']:16} {row['level']:7} ours {row['ours']:.4g}  {others}"
        print(json.dumps(row) if as_json else line, flush=True)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
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

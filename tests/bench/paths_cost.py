"""Print what executed paths cost: time to trace and size of the file with and without them, and the speed of each reader in C.

Run by ``make bench``, or alone: ``python tests/bench/paths_cost.py [--rounds 3] [--only xz,sort]``. CPU time; runs with and
without paths take turns, and the ratio is the median of the rounds.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import tracer_slowdown as tool

from convolver._native.branch_predictor import Branches
from convolver._native.load_chains import Chains
from convolver._native.path_builder import Paths
from convolver._native.trace_decoder import Decoder
from convolver.tracing.reader import Trace
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace

BURSTS = ["--mode=sample", "--interval=1000000", "--sample=10000", "--sets=32"]


def programs(folder: Path) -> dict[str, list[str]]:
    """Return commands that run for a second or so under the tracer, with many branches."""
    data = folder / "data"
    data.write_bytes(Path(shutil.which("python3") or "/bin/sh").read_bytes()[:300_000])
    return {
        "xz": ["xz", "-2", "-k", "-f", str(data)],
        "sort": ["sort", "-o", str(folder / "sorted"), str(data)],
    }


def tracing(command: list[str], rounds: int, folder: Path) -> float:
    """Return the median of (CPU time of the tool with paths) / (without)."""
    ratios = []
    for _ in range(rounds):
        without = tool.traced_seconds(command, [*BURSTS, "--all-visits=no"], folder)
        ratios.append(tool.traced_seconds(command, [*BURSTS, "--all-visits=yes"], folder) / without)
    return statistics.median(ratios)


def sizes(command: list[str], folder: Path) -> float:
    """Return the size of the trace file with paths / without."""
    recorded = [trace(command, output=folder / f"{paths}.cvt", sampling=SamplingPlan(paths=paths)) for paths in (True, False)]
    with_paths, without = (each.path.stat().st_size for each in recorded)
    return with_paths / without


def seconds(recording: Trace, prepare: Callable[[Decoder, Paths], object]) -> float:
    """Return the CPU time of reading a trace, the least of three."""
    times = []
    for _ in range(3):
        began = time.process_time()
        recording.walk(prepare)  # type: ignore[arg-type]
        times.append(time.process_time() - began)
    return min(times)


def readers(command: list[str], folder: Path) -> tuple[float, float, float, float]:
    """Return ns a visit of decoding into pieces, of branch prediction and of following chains; and visits a reference."""
    half = SamplingPlan(interval=20_000, sample=10_000, sets=0)
    recording = trace(command, output=folder / "half.cvt", sampling=half)
    kept: list[Branches] = []

    def predict(decoder: Decoder, paths: Paths) -> None:
        kept.append(Branches(decoder))
        kept[-1].attach(paths)

    plain = seconds(recording, lambda decoder, paths: None)
    times = [plain, seconds(recording, predict) - plain, seconds(recording, Chains) - plain]
    visits = int(kept[-1].counts()["visits"].sum())
    plain, branches, chains = (each / visits * 1e9 for each in times)
    return plain, branches, chains, visits / recording.header["recorded_references"]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="xz,sort", help="comma-separated programs")
    options = parser.parse_args()
    columns = ("time", "size", "visits/ref", "pieces", "branches", "chains")
    print("time, size: with paths / without; pieces, branches, chains: CPU ns a visit")
    print(f"{'':8}" + "".join(f"{column:>12}" for column in columns), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = programs(folder)
        for program in options.only.split(","):
            command = commands[program]
            ratio, size = tracing(command, options.rounds, folder), sizes(command, folder)
            pieces, branches, chains, visits = readers(command, folder)
            row = f"{ratio:12.3f}{size:12.2f}{visits:12.2f}{pieces:12.1f}{branches:12.1f}{chains:12.1f}"
            print(f"{program:8}{row}", flush=True)


if __name__ == "__main__":
    main()

"""Sizes and CPU times of three ways to store address chunks, on real streams: the figures of docs/formats/cvt.md.

python tests/bench/trace_codec.py [COMMAND...]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import zstandard

from convolver._native.trace_decoder import Decoder
from convolver.tracing.valgrind import tool_command, tool_environment

PROGRAMS = Path(__file__).parents[1] / "integration" / "programs"
CHUNK = 2 << 20


def capture(command: list[str], options: list[str], path: Path) -> None:
    """Write the tracer's stream into a file."""
    with open(path, "wb") as file:
        words = tool_command([f"--wire-fd={file.fileno()}", *options])
        subprocess.run([*words, *command], env=tool_environment(), pass_fds=(file.fileno(),), stdout=subprocess.DEVNULL)


def timed(work: Callable[[], int]) -> tuple[int, float]:
    """Return what ``work`` returns and the CPU seconds it took."""
    began = time.process_time()
    size = work()
    return size, time.process_time() - began


def measure(data: bytes) -> tuple[int, list[tuple[str, int, float]]]:
    """Return the number of references, and name, bytes and CPU seconds of each codec."""
    pieces = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
    packer = zstandard.ZstdCompressor(level=3)
    decoder = Decoder()

    def decode() -> int:
        for piece in pieces:
            decoder.feed(piece)
        decoder.flush()
        return decoder.totals["window_references"] + decoder.totals["set_references"]

    references, plain = timed(decode)
    recorder = Decoder()
    recorder.record()
    encoded: list[bytes] = []

    def encode() -> int:
        for piece in pieces:
            recorder.feed(piece)
            encoded.append(recorder.take().addresses)
        return sum(map(len, encoded))

    deltas, seconds = timed(encode)
    raw, raw_seconds = timed(lambda: sum(len(packer.compress(piece)) for piece in pieces))
    both, both_seconds = timed(lambda: sum(len(packer.compress(piece)) for piece in encoded))
    seconds -= plain
    return references, [("zstd", raw, raw_seconds), ("delta", deltas, seconds), ("delta + zstd", both, seconds + both_seconds)]


def main() -> None:
    """Print a table."""
    folder = Path(tempfile.mkdtemp(prefix="codec-"))
    cases: dict[str, tuple[list[str], list[str]]] = {}
    if len(sys.argv) > 1:
        cases["command, full"] = (sys.argv[1:], ["--mode=full"])
    for name, words in {"loop": ["20000", "50"], "random": ["500000"]}.items():
        subprocess.run(["gcc", "-O1", "-g", "-o", folder / name, PROGRAMS / f"{name}.c"], check=True)
        cases[f"{name}, full"] = ([str(folder / name), *words], ["--mode=full"])
    cases["xz, full"] = (["xz", "-1", "-k", "-c", str(folder / "loop")], ["--mode=full"])
    cases["xz, 1 % bursts"] = (["xz", "-1", "-k", "-c", str(folder / "loop")], ["--mode=sample"])
    cases["xz, bursts + 1/32 sets"] = (["xz", "-1", "-k", "-c", str(folder / "loop")], ["--mode=sample", "--sets=32"])
    for label, (command, options) in cases.items():
        capture(command, options, folder / "wire")
        references, rows = measure((folder / "wire").read_bytes())
        for name, size, seconds in rows:
            print(
                f"{label:24} {references:>10} references  {name:13} {size / references:7.3f} bytes and "
                f"{1e9 * seconds / references:6.2f} ns a reference"
            )


if __name__ == "__main__":
    main()

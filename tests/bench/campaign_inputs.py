"""Writes the inputs of the programs in campaign.toml into the current folder; what is there already stays.

Everything is made from fixed seeds and from Python's own standard library, so that nothing has to be downloaded or kept.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

from hpl_input import hpl_text


def library_text(size: int) -> bytes:
    """Return so many bytes of the Python standard library."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))
    return b"".join(file.read_bytes() for file in files[:1500])[:size]


def clauses(variables: int, ratio: float, seed: int) -> bytes:
    """Return a random 3-SAT formula in DIMACS form."""
    draw = random.Random(seed)
    count = int(variables * ratio)
    lines = [f"p cnf {variables} {count}"]
    for _ in range(count):
        chosen = draw.sample(range(1, variables + 1), 3)
        lines.append(" ".join(str(v if draw.random() < 0.5 else -v) for v in chosen) + " 0")
    return ("\n".join(lines) + "\n").encode()


def linear_program(rows: int, columns: int, seed: int) -> bytes:
    """Return a random, sparse, feasible and bounded linear program in CPLEX form."""
    draw = random.Random(seed)
    lines = ["Maximize", " cost: " + " + ".join(f"{draw.randint(1, 99)} x{j}" for j in range(columns)), "Subject To"]
    for i in range(rows):
        chosen = draw.sample(range(columns), 8)
        lines.append(f" r{i}: " + " + ".join(f"{draw.randint(1, 9)} x{j}" for j in chosen) + f" <= {draw.randint(100, 999)}")
    lines += ["Bounds", *(f" 0 <= x{j} <= {draw.randint(5, 50)}" for j in range(columns)), "End"]
    return ("\n".join(lines) + "\n").encode()


def numbers(count: int) -> bytes:
    """Return lines with random numbers."""
    draw = random.Random(7)
    return "".join(f"{draw.randrange(10**9)}\n" for _ in range(count)).encode()


def zstandard(text: bytes) -> bytes:
    """Return the text as `zstd` packs it; nothing where it is not installed."""
    if not shutil.which("zstd"):
        return b""
    return subprocess.run(["zstd", "-q", "-c", "-6"], input=text, capture_output=True, check=True).stdout


FILES: dict[str, Callable[[], bytes]] = {
    "text-1m.txt": lambda: library_text(1 << 20),
    "text-2m.txt": lambda: library_text(2 << 20),
    "text-16m.txt": lambda: library_text(16 << 20),
    "text-16m.txt.gz": lambda: gzip.compress(library_text(16 << 20), mtime=0),
    "text-16m.txt.xz": lambda: lzma.compress(library_text(16 << 20), preset=3),
    "text-2m.txt.bz2": lambda: bz2.compress(library_text(2 << 20)),
    "text-16m.txt.zst": lambda: zstandard(library_text(16 << 20)),
    "numbers.txt": lambda: numbers(400_000),
    "random.cnf": lambda: clauses(190, 4.26, 5),
    "random.lp": lambda: linear_program(2000, 2500, 3),
    "hpcc-600/hpccinf.txt": lambda: hpl_text(600, nb=32, ptrans=True).encode(),
    "hpcc-1000/hpccinf.txt": lambda: hpl_text(1000, nb=32, ptrans=True).encode(),
}


def main() -> None:
    """Write what is missing."""
    for name, make in FILES.items():
        path = Path(name)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(make())


if __name__ == "__main__":
    main()

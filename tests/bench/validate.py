"""Predicted against measured time of real programs on this machine: ``make validate``.

For each program: probe the machine, run natively, trace, simulate, convolve. Prints a Markdown table for the
README with every program that is there, good or bad. None is left out for its error, and nothing is fitted to them.

    python tests/bench/validate.py [--runs 5] [--folder run/validate] [--keep-profile] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCES = {"cg": ROOT / "examples" / "cg.c"} | {path.stem: path for path in sorted(Path(__file__).parent.glob("programs/*.c"))}
TEXT_BYTES = 4_000_000
SQL = (
    "create table t(a integer, b integer); "
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000) "
    "insert into t select i, i * 7919 % 100003 from n; "
    "create index k on t(b); select count(*), sum(x.a) from t x join t y on x.b = y.a;"
)
LOOP = (
    "d = {}\nfor i in range(600000):\n    k = i * 7919 % 50021\n    d[k] = d.get(k, 0) + i\nprint(len(d), sorted(d.values())[-1])"
)


def text(folder: Path) -> Path:
    """Write four megabytes of the Python standard library, the input of the compressors."""
    path = folder / "input.txt"
    if not path.exists():
        files = sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))
        path.write_bytes(b"".join(file.read_bytes() for file in files[:600])[:TEXT_BYTES])
    return path


def commands(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield a name and a command for every program that can be run here."""
    for name, source in SOURCES.items():
        subprocess.run(["gcc", "-g", "-O2", "-o", folder / name, source, "-lm"], check=True)
        yield name, [f"./{name}"]
    path = text(folder).name
    found = {
        "xz": ["xz", "-k", "-c", "-3", path],
        "gzip": ["gzip", "-k", "-c", path],
        "bzip2": ["bzip2", "-k", "-c", path],
        "sort": ["sort", "--parallel=1", path],
        "sqlite3": ["sqlite3", ":memory:", SQL],
    }
    for name, words in found.items():
        if shutil.which(name):
            yield name, words
    yield "python3", [sys.executable, "-c", LOOP]


def convolver(folder: Path, *words: str) -> dict[str, Any] | None:
    """Run one convolver command in the folder; None, with its words on stderr, when it fails."""
    done = subprocess.run([sys.executable, "-m", "convolver", *words], cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def probe(folder: Path) -> None:
    """Profile the machine; done before each program, since the clock of a shared machine drifts within minutes."""
    words = [sys.executable, "-m", "convolver", "probe", "--force"]
    subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def row(name: str, document: dict[str, Any]) -> str:
    """Return the line of the table for one program."""
    memops, measured = document["totals"]["memops"], document["measured_seconds"]
    base = document["base"]
    parts = " / ".join(f"{base[part]:.2f}" for part in ("memory_seconds", "floating_point_seconds", "instruction_seconds"))
    shares = f"{100 * document['coverage']:.1f} % | {100 * document['sampled_share']:.1f} %"
    return (
        f"| {name} | {memops / 1e6:,.0f} M | {base['seconds']:.3f} | {parts} | {measured:.3f} | "
        f"{100 * document['error']:+.0f} % | {shares} |"
    )


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="native runs a program")
    parser.add_argument("--folder", type=Path, default=ROOT / "run" / "validate")
    parser.add_argument("--keep-profile", action="store_true", help="use the profile that is in the folder")
    parser.add_argument("--only", nargs="*", help="names of programs")
    parser.add_argument("--overlap", default="norm")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print("| program | memops | predicted s | memory / fp / instructions s | measured s | error | coverage | sampled |")
    print("|---|---|---|---|---|---|---|---|")
    errors = []
    for name, command in commands(options.folder):
        if options.only and name not in options.only:
            continue
        if not options.keep_profile:
            probe(options.folder)
        words = ["--base", "host", "--overlap", options.overlap, "--measure", str(options.runs), "--force", "--json"]
        document = convolver(options.folder, "predict", *words, "--", *command)
        if document is None:
            print(f"| {name} | | | | | failed | | |", flush=True)
            continue
        errors.append(abs(document["error"]))
        print(row(name, document), flush=True)
    if errors:
        print(
            f"\nAbsolute error over {len(errors)} programs: median {100 * median(errors):.0f} %, worst {100 * max(errors):.0f} %."
        )


if __name__ == "__main__":
    main()

"""Fuzz the C core's parsers with libFuzzer: ``python -m tests.robust.fuzz_core --minutes 1`` (needs clang: apt install clang).

Each target (``tests/c/fuzz/fuzz_NAME.c``) starts from its kept inputs (``tests/robust/corpora/NAME.zip``) under the address and
undefined-behavior sanitizers. What ends one is kept in ``run/fuzz/``; ``--keep`` keeps inputs that cover all that was reached.
Minutes and the limit of an input (``target.h``) are processor time, which does not pass while the process is stopped.
"""

from __future__ import annotations

import argparse
import math
import re
import resource
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPORA = Path(__file__).parent / "corpora"
TARGETS = ("wire", "chunks", "dim", "code")
FLAGS = ("-O1", "-g", "-fno-strict-aliasing", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
LONGEST = 4096
VECTORS = {"avx2": ("-mavx2", "-mbmi2"), "avx512": ("-march=skylake-avx512",)}
"""What clang needs for files whose instructions GCC learns from a pragma."""


def unpack(target: str, folder: Path) -> list[Path]:
    """Write the kept inputs of a target into a folder; returns their paths."""
    with zipfile.ZipFile(CORPORA / f"{target}.zip") as kept:
        kept.extractall(folder)
    return sorted(folder.iterdir())


def build(target: str, folder: Path) -> Path:
    """Compile a target and the C core with clang."""
    sources = [path for name in ("common", "core", "replay", "sim", "trace") for path in (ROOT / "csrc" / name).glob("*.c")]
    program, own = folder / f"fuzz-{target}", ROOT / "tests" / "c" / "fuzz" / f"fuzz_{target}.c"
    folders = ("-I", ROOT / "csrc" / "include")
    library = folder / "core"
    if not library.exists():
        library.mkdir()
        for source in sources:
            to = library / f"{source.parent.name}-{source.stem}.o"
            vectors = VECTORS.get(source.stem.rpartition("_")[2], ())
            command = ["clang", "-std=gnu11", "-fsanitize=fuzzer-no-link", *FLAGS, *vectors, *folders, "-c", source, "-o", to]
            subprocess.run(command, check=True)
    objects = sorted(library.glob("*.o"))
    words = ["clang", "-std=gnu11", "-fsanitize=fuzzer", "-DFUZZING", *FLAGS, *folders, own, *objects, "-lm", "-lpthread"]
    subprocess.run([*words, "-o", program], check=True)
    return program


def processor_seconds() -> float:
    """Return the processor time of all processes that this one waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fuzz(target: str, program: Path, folder: Path, seconds: float, keep: bool) -> bool:
    """Run a target for so many seconds of processor time; returns True where nothing ended it."""
    corpus, kept = folder / target, ROOT / "run" / "fuzz"
    corpus.mkdir(exist_ok=True)
    unpack(target, corpus)
    limits = [f"-max_len={LONGEST}", "-rss_limit_mb=2000", "-timeout=0"]
    count, began = 0, processor_seconds()
    while (left := seconds - (processor_seconds() - began)) > 0:  # libFuzzer counts elapsed time
        words = [program, *limits, f"-max_total_time={math.ceil(left)}", f"-artifact_prefix={kept}/{target}-", corpus]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
        count += max((int(a or b) for a, b in re.findall(r"Done (\d+) runs|^#(\d+)\s", done.stderr, re.M)), default=0)
        if done.returncode:
            break
    covered = re.findall(r"cov: (\d+)", done.stderr)
    spent = processor_seconds() - began
    print(
        f"{target:8} {count:9} runs, {spent:.0f} s, {covered[-1] if covered else 0} edges, status {done.returncode}", flush=True
    )
    if done.returncode:
        print("\n".join(done.stderr.splitlines()[-40:]))
    elif keep:
        least = folder / f"{target}-least"
        least.mkdir()
        subprocess.run([program, "-merge=1", *limits, least, corpus], check=True, capture_output=True)
        with zipfile.ZipFile(CORPORA / f"{target}.zip", "w", zipfile.ZIP_DEFLATED) as out:
            for path in sorted(least.iterdir()):
                out.writestr(zipfile.ZipInfo(path.name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return not done.returncode


def main() -> int:
    """Fuzz all targets for the same processor time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for all targets together")
    parser.add_argument("--target", action="append", choices=TARGETS)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    if shutil.which("clang") is None:
        print("The C core was not fuzzed: clang is missing (apt install clang).")
        return 0
    folder, targets = ROOT / "run" / "fuzz-core", options.target or TARGETS
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (ROOT / "run" / "fuzz").mkdir(exist_ok=True)
    seconds = 60 * options.minutes / len(targets)
    clean = [fuzz(one, build(one, folder), folder, seconds, options.keep) for one in targets]
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())

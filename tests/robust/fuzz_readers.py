"""Run every reader on mutated files for a while: ``python -m tests.robust.fuzz_readers --minutes 5``.

A finding is an exception that is no :class:`convolver.errors.ConvolverError`, or a file that takes more than a few seconds.
All times are processor time. The file of each is kept in ``run/fuzz/``, and the exit status is 1 where there is one.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from convolver.errors import ConvolverError, FormatError
from tests.robust import mutations
from tests.robust.fuzz_core import processor_seconds
from tests.robust.readers import ROOT, Reader, make_readers

SLOW_SECONDS = 5.0


def mutated(reader: Reader, rng: random.Random) -> bytes:
    """Return the file of a case."""
    seed = rng.choice(reader.seeds)
    try:
        return reader.mutate(seed, rng)
    except (RecursionError, ValueError):  # changed twice, the first time to what nobody can read
        return mutations.change_bytes(seed, rng)


def one_case(reader: Reader, seed: int, folder: Path) -> tuple[bytes, str]:
    """Read one mutated file; returns it and what was found, empty where the reader refused or took it."""
    rng = random.Random(f"{reader.name} {seed}")
    data = mutated(reader, rng)
    path = folder / f"case{reader.suffix}"
    path.write_bytes(data)
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(path)
    except ConvolverError:
        pass
    except KeyboardInterrupt:
        raise
    except BaseException:  # polars panics with one that is no Exception
        return data, traceback.format_exc()
    took = time.process_time() - began
    return data, f"slow: {took:.1f} s" if took > SLOW_SECONDS else ""


def _place(found: str) -> str:
    lines = [line.strip() for line in found.splitlines() if line.strip()]
    own = [line for line in lines if "/convolver/" in line and line.startswith("File")]
    return f"{lines[-1][:120]} | {own[-1].split('/convolver/')[-1] if own else '?'}"


def _run(readers: list[Reader], options: argparse.Namespace, kept: Path) -> None:
    """Read cases in this process until time is up; where it stands is in a file before each case, as a library can end it."""
    report, until = json.loads(Path(options.report).read_text()), time.process_time() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as name:
        for seed in range(report["seed"], options.first + (options.cases or 1 << 60)):
            for place in range(report["reader"], len(readers)):
                reader = readers[place]
                if time.process_time() > until:
                    return
                report |= {"seed": seed, "reader": place + 1}
                report["cases"][reader.name] = report["cases"].get(reader.name, 0) + 1
                Path(options.report).write_text(json.dumps(report))
                data, found = one_case(reader, seed, Path(name))
                if found and _place(found) not in report["found"]:
                    report["found"].append(_place(found))
                    (kept / f"{reader.name}-{seed}{reader.suffix}").write_bytes(data)
                    print(f"FOUND {reader.name} seed {seed}: {_place(found)}", flush=True)
            report["reader"] = 0
        Path(options.report).write_text(json.dumps({**report, "done": True}))


def main() -> int:
    """Fuzz; print cases and findings by reader. A process reads until one ends it, then another goes on after the case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--cases", type=int, default=0, help="stop after so many cases of each reader")
    parser.add_argument("--reader", action="append", help="only readers of this name")
    parser.add_argument("--first", type=int, default=int(time.time()), help="first seed")
    parser.add_argument("--report", help=argparse.SUPPRESS)
    options = parser.parse_args()
    kept = ROOT / "run" / "fuzz"
    kept.mkdir(parents=True, exist_ok=True)
    readers = [one for one in make_readers() if not options.reader or one.name in options.reader]
    if options.report:
        _run(readers, options, kept)
        return 0
    report: dict[str, Any] = {"seed": options.first, "reader": 0, "cases": {}, "found": []}
    began, ended = processor_seconds(), 0
    with tempfile.NamedTemporaryFile("w+") as file:
        Path(file.name).write_text(json.dumps(report))
        while (left := 60 * options.minutes - (processor_seconds() - began)) > 0 and not report.get("done"):
            words = [f"--{name}={value}" for name, value in (("first", options.first), ("cases", options.cases))]
            words += [f"--reader={name}" for name in options.reader or ()] + [f"--minutes={left / 60}", f"--report={file.name}"]
            status = subprocess.run([sys.executable, "-m", "tests.robust.fuzz_readers", *words], check=False, cwd=ROOT).returncode
            report = json.loads(Path(file.name).read_text())
            ended += status == FormatError.exit_code
            if status not in (0, FormatError.exit_code):
                reader, seed = readers[report["reader"] - 1], report["seed"]
                report["found"].append(f"{reader.name} seed {seed} ends the process with {status}")
                (kept / f"{reader.name}-{seed}{reader.suffix}").write_bytes(
                    mutated(reader, random.Random(f"{reader.name} {seed}"))
                )
                print(f"FOUND {report['found'][-1]}", flush=True)
                Path(file.name).write_text(json.dumps(report))
    for name, count in report["cases"].items():
        print(f"{name:16} {count:7} cases")
    spent = f"{processor_seconds() - began:.0f} s of processor time"
    print(f"{sum(report['cases'].values())} cases, {spent}, {len(report['found'])} findings")
    print(f"{ended} processes ended with the sentence for tables that ask for too much memory")
    return 1 if report["found"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""Run every reader on mutated files for a while: ``python -m tests.robust.fuzz_readers --minutes 5``.

A finding is an exception that is no :class:`convolver.errors.ConvolverError`, or a file that takes longer than a few seconds. The
file of each is kept in ``run/fuzz/``, and the exit status is 1 where there is one.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

from convolver.errors import ConvolverError
from tests.robust.readers import ROOT, Reader, make_readers

SLOW_SECONDS = 5.0


def one_case(reader: Reader, seed: int, folder: Path) -> tuple[bytes, str]:
    """Read one mutated file; returns it and what was found, empty where the reader refused or took it."""
    rng = random.Random(f"{reader.name} {seed}")
    data = reader.mutate(rng.choice(reader.seeds), rng)
    path = folder / f"case{reader.suffix}"
    path.write_bytes(data)
    began = time.perf_counter()
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
    took = time.perf_counter() - began
    return data, f"slow: {took:.1f} s" if took > SLOW_SECONDS else ""


def _place(found: str) -> str:
    lines = [line.strip() for line in found.splitlines() if line.strip()]
    own = [line for line in lines if "/convolver/" in line and line.startswith("File")]
    return f"{lines[-1][:120]} | {own[-1].split('/convolver/')[-1] if own else '?'}"


def main() -> int:
    """Fuzz; print cases and findings by reader."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--cases", type=int, default=0, help="stop after so many cases of each reader")
    parser.add_argument("--reader", action="append", help="only readers of this name")
    parser.add_argument("--first", type=int, default=int(time.time()), help="first seed")
    options = parser.parse_args()
    kept = ROOT / "run" / "fuzz"
    kept.mkdir(parents=True, exist_ok=True)
    readers = [one for one in make_readers() if not options.reader or one.name in options.reader]
    until, seed, seen, cases = time.monotonic() + 60 * options.minutes, options.first, {}, dict.fromkeys(map(str, readers), 0)
    spent, cases = dict.fromkeys((one.name for one in readers), 0.0), dict.fromkeys((one.name for one in readers), 0)
    with tempfile.TemporaryDirectory() as name:
        while time.monotonic() < until and not (options.cases and seed - options.first >= options.cases):
            for reader in readers:
                began = time.process_time()
                data, found = one_case(reader, seed, Path(name))
                spent[reader.name] += time.process_time() - began
                cases[reader.name] += 1
                if found and (reader.name, _place(found)) not in seen:
                    seen[reader.name, _place(found)] = seed
                    (kept / f"{reader.name}-{seed}{reader.suffix}").write_bytes(data)
                    print(f"FOUND {reader.name} seed {seed}: {_place(found)}", flush=True)
            seed += 1
    for reader in readers:
        print(f"{reader.name:16} {cases[reader.name]:7} cases {spent[reader.name]:7.1f} s")
    print(f"{sum(cases.values())} cases, {sum(spent.values()):.0f} s of processor time, {len(seen)} findings")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())

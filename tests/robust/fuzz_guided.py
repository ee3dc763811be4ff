"""Fuzz one reader guided by the coverage of its Python: ``python -m tests.robust.fuzz_guided --reader dim --minutes 1``.

Needs atheris (pip install atheris). The mutator is the reader's own; what ends it is kept in ``run/fuzz/``.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import warnings
from pathlib import Path


def main() -> int:
    """Fuzz until the time is up or an exception ends it that is no ConvolverError."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reader", required=True)
    parser.add_argument("--minutes", type=float, default=1.0)
    options = parser.parse_args()
    try:
        import atheris
    except ImportError:
        print("Readers were not fuzzed by coverage: atheris is missing (pip install atheris).")
        return 0
    with atheris.instrument_imports(include=["convolver"]):
        from convolver.errors import ConvolverError
        from tests.robust import mutations
        from tests.robust.readers import ROOT, make_readers
    reader = next(one for one in make_readers() if one.name == options.reader)
    folder = Path(tempfile.mkdtemp())
    corpus, path = folder / "corpus", folder / f"case{reader.suffix}"
    corpus.mkdir()
    for number, seed in enumerate(reader.seeds):
        (corpus / str(number)).write_bytes(seed)

    def read(data: bytes) -> None:
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(ConvolverError):
                reader.read(path)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        try:
            return reader.mutate(data, rng)[:most]
        except Exception:  # what an earlier mutation made cannot be changed by its grammar
            return mutations.change_bytes(data, rng)[:most]

    kept = ROOT / "run" / "fuzz"
    kept.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={int(60 * options.minutes)}", f"-artifact_prefix={kept}/{reader.name}-", "-max_len=65536"]
    atheris.Setup([sys.argv[0], *limits, str(corpus)], read, custom_mutator=mutate)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())

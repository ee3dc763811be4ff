"""Ten thousand million references through three cache levels: nothing is lost, and the memory stays what it was.

tests/bench/simulator_long.py [MILLION_REFERENCES]

The stream reads doubles one after another for ever, so every eighth reference misses in every level: the counts are known.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

from convolver._native.simulator import Geometry, Simulator

CHUNK = 1 << 19
LINE_BYTES, DOUBLE = 64, 8


def peak_kib() -> int:
    """Return the largest memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Stream, check the counts, print rate and memory."""
    wanted = int(float(sys.argv[1]) * 1e6 if len(sys.argv) > 1 else 1e10)
    chunks = max(10, -(-wanted // CHUNK))
    simulator = Simulator([[Geometry(64, 12, LINE_BYTES), Geometry(2048, 16, LINE_BYTES), Geometry(32768, 16, LINE_BYTES)]])
    addresses = (1 << 40) + DOUBLE * np.arange(CHUNK, dtype=np.uint64)
    owners = (np.arange(CHUNK) % 4).astype(np.uint32)
    early, began = 0, time.process_time()
    for number in range(chunks):
        simulator.feed(addresses, owners=owners)
        addresses += np.uint64(DOUBLE * CHUNK)
        if number == chunks // 10:
            early = peak_kib()
    seconds, references = time.process_time() - began, chunks * CHUNK
    for level in range(3):
        counts = simulator.counts(0, level)
        fed = references if level == 0 else references // (LINE_BYTES // DOUBLE)
        assert counts.accesses.sum() == fed, (level, counts)
        assert counts.misses.sum() == references // (LINE_BYTES // DOUBLE), (level, counts)
    assert simulator.references == references
    print(f"{references:,} references, none lost: {references / seconds / 1e6:.0f} million a second of CPU time")
    print(f"peak memory: {early:,} KiB after a tenth, {peak_kib():,} KiB at the end")


if __name__ == "__main__":
    main()

"""Records per second of the replay core: ``python tests/bench/replay_speed.py [records]``.

The trace is a two-dimensional halo exchange: per step and rank a burst, four posted receives, four sends, four waits, and every
tenth step an Allreduce; links 1/1 and 8 buses a 64 ranks, so that messages compete. Prints one line per number of ranks: the
records a second of a run alone, of packing and running, and the bytes of the packed trace per record.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

from convolver._native.replay_core import COLUMNS
from convolver.mpi.events import EventKind, Events, Op, Sync, make_events
from convolver.mpi.network import Network, flat_configuration
from convolver.mpi.network_replay import Replayer

REPEATS = 5


def halo(ranks: int, records: int) -> Events:
    """Return a halo exchange on a torus of ``ranks`` tasks with about ``records`` records."""
    width = 1 << (ranks.bit_length() - 1) // 2
    x, y = np.arange(ranks) % width, np.arange(ranks) // width
    height = ranks // width
    shifts = [(1, 0), (-1, 0), (0, 1), (0, -1)]
    neighbors = [((x + dx) % width) + ((y + dy) % height) * width for dx, dy in shifts]
    row = [EventKind.BURST, *[EventKind.IRECV] * 4, *[EventKind.SEND] * 4, *[EventKind.WAIT] * 4]
    partners = [np.zeros(ranks, int), *neighbors, *neighbors, *neighbors]
    tags = [0, 0, 1, 2, 3, 1, 0, 3, 2, 0, 1, 2, 3]
    steps = max(10, records // (13 * ranks))
    kinds = np.tile(np.array([*row * 10, EventKind.COLLECTIVE], np.uint8), (ranks, -(-steps // 10)))
    per_rank = kinds.shape[1]
    block = np.stack([np.tile(np.array(p), 1) for p in partners], axis=1)
    partner = np.tile(np.concatenate([np.tile(block, 10), np.zeros((ranks, 1), int)], axis=1), -(-steps // 10))
    columns = {name: np.zeros(ranks * per_rank, dtype) for name, dtype in COLUMNS.items()}
    columns["kind"] = kinds.reshape(-1)
    columns["partner"] = partner.astype(np.int32).reshape(-1)
    columns["tag"] = np.tile(np.array([*tags * 10, 0], np.int32), ranks * -(-steps // 10))
    collective = columns["kind"] == EventKind.COLLECTIVE
    columns["op"][collective] = Op.ALLREDUCE
    columns["flags"][collective] = Sync.BLOCKING
    columns["bytes"] = np.where(collective, 8, 8192).astype(np.int64)
    noise = np.random.default_rng(1).uniform(0.9e-3, 1.1e-3, ranks * per_rank)
    columns["seconds"] = np.where(columns["kind"] == EventKind.BURST, noise, 0.0)
    first = np.arange(ranks + 1, dtype=np.int64) * per_rank
    return make_events("halo", first, columns, {1: range(ranks)})


def main() -> None:
    """Print the table."""
    records = int(float(sys.argv[1])) if len(sys.argv) > 1 else 2_000_000
    for ranks in (16, 64, 1024, 16384):
        events = halo(ranks, records)
        config = flat_configuration(
            ranks, latency_seconds=5e-6, bandwidth_bytes_per_second=1e9, links=1, buses=max(8, ranks // 8), collective_model=3
        )
        begin = time.perf_counter()
        replayer = Replayer(events)
        packed = time.perf_counter() - begin
        runs = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            seconds = replayer.run(Network(config)).predicted_seconds
            runs.append(time.perf_counter() - begin)
        run = statistics.median(runs)
        per_record = replayer.packed.memory["bytes"] / events.records
        print(
            f"{ranks:6} ranks {events.records:9} records: {events.records / run / 1e6:6.2f} M records/s, with packing "
            f"{events.records / (run + packed) / 1e6:6.2f} M/s, {per_record:.0f} B/record packed, predicted {seconds:.6f} s"
        )


if __name__ == "__main__":
    main()

"""Events per second of the replay of threads: ``python tests/bench/thread_replay_speed.py [events]``.

Each thread does work of arbitrary length between its events, on a core of its own: nothing but work, a lock of one of as many as
there are threads, or a barrier of all. Memory has bandwidth for all of them, or for half of what they ask for. The second and
further runs of a packed trace are timed: predictions replay it for each draw of their interval.
"""

import statistics
import sys
import time

import numpy as np
from result_file import write_result

from convolver._native.thread_replay import RECORD, PackedThreads
from convolver.convolution.thread_costs import DEFAULT_COSTS

START, EXIT, CREATE, JOIN, PROGRESS, LOCK, UNLOCK, BARRIER = 1, 2, 3, 4, 0, 5, 6, 10
"""Kinds of records (``enum cv_thread_event``)."""
THREADS = (2, 8, 64)
REPEATS = 5
BYTES_AN_INSTRUCTION, SECONDS_AN_INSTRUCTION, WAITING = 0.1, 3e-10, 0.2
PROGRAMS = {"work": ((PROGRESS, 1.0),), "locks": ((LOCK, 1.0), (UNLOCK, 0.1)), "barriers": ((BARRIER, 1.0),)}
"""The events of a round, with the work before each of them."""


def program(what: str, threads: int, events: int) -> PackedThreads:
    """Return rounds of events of a program."""
    kinds, draw = PROGRAMS[what], np.random.default_rng(1)
    rounds = events // (threads * len(kinds))
    body = np.zeros((rounds, threads, len(kinds)), RECORD)
    body["thread"] = np.arange(1, threads + 1)[:, None]
    body["kind"] = [kind for kind, _ in kinds]
    body["instructions"] = draw.uniform(5_000, 15_000, body.shape) * [work for _, work in kinds]
    body["object"] = 1 if what == "barriers" else 1 + draw.integers(threads, size=(rounds, threads, 1))
    body["argument"] = threads if what == "barriers" else 0
    begin, end = np.zeros((threads, 2), RECORD), np.zeros((threads, 2), RECORD)
    begin["kind"], end["kind"] = (START, CREATE), (EXIT, JOIN)
    begin["thread"][:, 0] = end["thread"][:, 0] = np.arange(1, threads + 1)
    begin["object"][:, 1] = end["object"][:, 1] = np.arange(1, threads + 1)
    return PackedThreads(np.concatenate([begin.ravel(), body.ravel(), end.ravel()]))


def speed(packed: PackedThreads, threads: int, enough: float) -> float:
    """Return events a second where memory gives ``enough`` times what the threads ask for."""
    asked = threads * BYTES_AN_INSTRUCTION / SECONDS_AN_INSTRUCTION
    one, runs = np.ones(1), []
    for _ in range(1 + REPEATS):
        begin = time.process_time()
        found = packed.run(
            *(SECONDS_AN_INSTRUCTION * one, WAITING * one, BYTES_AN_INSTRUCTION * one),
            cores=threads + 1,
            capacity=np.array([enough * asked]),
            costs=DEFAULT_COSTS,
        )
        runs.append(time.process_time() - begin)
    assert found.totals["forced"] == 0
    assert enough < 1 or not found.totals["saturated"]
    return float(found.totals["events"]) / statistics.median(runs[1:])


def main() -> None:
    """Print the table and write ``benchmarks/results/thread-replay-speed.json``."""
    events = int(float(sys.argv[1])) if len(sys.argv) > 1 else 400_000
    rows, values = [], {}
    for what in PROGRAMS:
        for memory, enough in (("enough", 2.0), ("half", 0.5)):
            speeds = [speed(program(what, threads, events), threads, enough) / 1e6 for threads in THREADS]
            rows.append([what, memory, *(f"{one:.2f}" for one in speeds)])
            values |= {f"{what}_{memory}_{threads}": f"{one:.2f}" for threads, one in zip(THREADS, speeds, strict=True)}
            print(*rows[-1], sep="\t", flush=True)
    columns = ["between events", "memory", *(f"M events/s, {threads} threads" for threads in THREADS)]
    print(write_result("thread-replay-speed", columns, rows, values))


if __name__ == "__main__":
    main()

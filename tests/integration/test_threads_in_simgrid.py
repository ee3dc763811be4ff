"""SimGrid as an independent check of the replay of threads: the same events on the same cores take the same time."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.test_thread_replay import elapsed, started

SOURCE = Path(__file__).parents[1] / "c" / "threads_in_simgrid.cpp"
pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None or not Path("/usr/include/simgrid/s4u.hpp").exists(), reason="SimGrid's headers are not installed"
)


def some_program(seed):
    """Rounds between barriers: work, locks that are never nested, and a semaphore that the first thread fills."""
    draw = random.Random(seed)
    threads, rounds = draw.randint(2, 12), draw.randint(1, 5)
    events = {one: [] for one in range(1, threads + 1)}
    for _ in range(rounds):
        takers = [one for one in range(2, threads + 1) if draw.random() < 0.3]
        for one, own in events.items():
            for _ in range(draw.randint(0, 6)):
                lock = draw.randint(1, 3)
                own += [("lock", draw.uniform(1, 90e4), lock), ("unlock", draw.uniform(1, 40e4), lock)]
            own += [("release", draw.uniform(1, 50e4), 9)] * len(takers) if one == 1 else []
            own += [("acquire", draw.uniform(1, 50e4), 9)] if one in takers else []
            own += [("barrier", draw.uniform(1, 100e4), 8)]
    return events, draw.randint(1, threads)


@pytest.mark.slow
def test_simgrid_says_the_same_of_a_hundred_programs(tmp_path):
    there = tmp_path / "there"
    subprocess.run(["g++", "-std=c++17", "-O1", "-o", there, SOURCE, "-lsimgrid"], check=True)
    differences = []
    for seed in range(100):
        events, cores = some_program(seed)
        lines = "".join(f"{one} {kind} {int(work)} {lock}\n" for one, own in events.items() for kind, work, lock in own)
        done = subprocess.run([there, str(cores), str(len(events))], input=lines, capture_output=True, text=True, check=True)
        argument = {"lock": 1, "barrier": len(events)}
        rows = [(one, kind, int(work), lock, argument.get(kind, 0)) for one, own in events.items() for kind, work, lock in own]
        differences.append(abs(elapsed([*started(*events), *rows], cores=cores) / float(done.stdout) - 1))
    assert max(differences) < 0.001

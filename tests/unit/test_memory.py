"""What memory holds: nothing that was freed, nor counters that nobody needs."""

import os
from pathlib import Path

import numpy as np

from convolver._native.simulator import Geometry, Simulator
from convolver.child_processes import give_back_memory


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_freed_memory_between_kept_blocks_is_given_back():
    blocks = [np.ones(100_000, dtype=np.uint8) for _ in range(1000)]
    kept = blocks[::10]
    del blocks
    before = resident()
    give_back_memory()
    assert before - resident() > 50e6
    assert sum(int(one[0]) for one in kept) == 100


def test_owners_that_were_never_met_take_no_counters():
    simulator = Simulator([[Geometry(4, 2, 64), Geometry(8, 4, 64)]])
    simulator.group_bursts()
    before = resident()
    simulator.feed(np.zeros(1, dtype=np.uint64), owners=np.array([10_000_000], dtype=np.uint32))
    assert simulator.owners == 10_000_001
    assert resident() - before < 10 * simulator.owners

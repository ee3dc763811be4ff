"""Memory that was freed goes back to the system."""

import os
from pathlib import Path

import numpy as np

from convolver._native.freed_memory import give_back_memory


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

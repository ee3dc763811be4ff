"""Equality with pycachesim, where it is installed, on a million reads; its writes mean something else (docs/cache-model.md)."""

from __future__ import annotations

import numpy as np
import pytest

from convolver.machine.hierarchy import Level
from convolver.simulation.simulate import simulate_arrays

cachesim = pytest.importorskip("cachesim", reason="pycachesim is not installed")

GEOMETRY = [("L1", 64, 8), ("L2", 512, 8), ("L3", 4096, 16)]


def test_a_million_reads_hit_the_same_levels():
    random = np.random.default_rng(4)
    near = random.integers(0, 1 << 16, 500_000)
    far = random.integers(0, 1 << 23, 500_000)
    address = np.stack([near, far], axis=1).ravel()
    memory, below = cachesim.MainMemory(), None
    for name, sets, ways in reversed(GEOMETRY):
        links = {"store_to": below, "load_from": below} if below else {}
        cache = cachesim.Cache(name, sets, ways, 64, "LRU", **links)
        if below is None:
            memory.load_to(cache)
            memory.store_from(cache)
        below = cache
    peer = cachesim.CacheSimulator(below, memory)
    peer.load(address.astype(np.int64), length=1)
    levels = [Level(level=name, size_bytes=64 * sets * ways, ways=ways) for name, sets, ways in GEOMETRY]
    own = simulate_arrays(address.astype(np.uint64), machines=levels).totals("machine-1")
    theirs = [stats for stats in peer.stats() if stats["name"] in ("L1", "L2", "L3")]
    assert [(level["hits"], level["misses"]) for level in own] == [(s["HIT_count"], s["MISS_count"]) for s in theirs]

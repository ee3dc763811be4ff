"""Equality with pycachesim, where it is installed: on a million reads, and in its semantics on a million reads and writes."""

from __future__ import annotations

import numpy as np
import pytest

from convolver.simulation.one_pass import simulate_arrays

cachesim = pytest.importorskip("cachesim", reason="needs pycachesim")

pytestmark = pytest.mark.slow
GEOMETRY = [("L1", 64, 8), ("L2", 512, 8), ("L3", 4096, 16)]
COUNT = 1_000_000


def _peer(policy: str = "LRU"):
    memory, below = cachesim.MainMemory(), None
    for name, sets, ways in reversed(GEOMETRY):
        links = {"store_to": below, "load_from": below} if below else {}
        cache = cachesim.Cache(name, sets, ways, 64, policy, **links)
        if below is None:
            memory.load_to(cache)
            memory.store_from(cache)
        below = cache
    return cachesim.CacheSimulator(below, memory)


def _own(policy: str = "lru", **more) -> dict:
    levels = [{"level": name, "size_bytes": 64 * sets * ways, "ways": ways, "policy": policy} for name, sets, ways in GEOMETRY]
    return {"name": "m", "hierarchy": levels, **more}


def _addresses() -> np.ndarray:
    random = np.random.default_rng(4)
    near = random.integers(0, 1 << 16, COUNT // 2)
    far = random.integers(0, 1 << 23, COUNT // 2)
    return np.stack([near, far], axis=1).ravel()


def _theirs(peer) -> list[dict]:
    return [stats for stats in peer.stats() if stats["name"] in ("L1", "L2", "L3")]


def test_a_million_reads_hit_the_same_levels():
    address = _addresses()
    peer = _peer()
    peer.load(address.astype(np.int64), length=1)
    own = simulate_arrays(address.astype(np.uint64), machines=_own()).totals("m")
    assert [(level["hits"], level["misses"]) for level in own] == [(s["HIT_count"], s["MISS_count"]) for s in _theirs(peer)]


@pytest.mark.parametrize("policy", ["lru", "fifo"])
def test_a_million_reads_and_writes_equal_it_in_its_semantics(policy):
    address, writes = _addresses(), np.random.default_rng(5).random(COUNT) < 0.3
    peer = _peer(policy.upper())
    for at, write in zip(address.tolist(), writes.tolist(), strict=True):
        if write:
            peer.store(at, length=1)
        else:
            peer.load(at, length=1)
    rates = simulate_arrays(address.astype(np.uint64), writes=writes, machines=_own(policy, semantics="pycachesim"))
    theirs, own = _theirs(peer), rates.totals("m")
    assert [level["misses"] for level in own] == [s["MISS_count"] for s in theirs]
    assert [level["write_backs"] for level in own] == [s["EVICT_count"] for s in theirs]
    # pycachesim counts no hit for a store: those of the first level are its stores but those that loaded their line.
    loading = theirs[0]["LOAD_count"] - int((~writes).sum())
    store_hits = [theirs[0]["STORE_count"] - loading, 0, 0]
    assert [level["hits"] for level in own] == [s["HIT_count"] + hits for s, hits in zip(theirs, store_hits, strict=True)]

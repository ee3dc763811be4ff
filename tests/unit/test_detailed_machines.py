"""Machines with options through the same functions as all others."""

from __future__ import annotations

import numpy as np
import pytest

from convolver.simulation.detailed import Details
from convolver.simulation.hit_rates import COLUMNS, HitRates
from convolver.simulation.one_pass import simulate_arrays

PLAIN = {
    "name": "plain",
    "hierarchy": [{"level": "L1", "size_bytes": 1024, "ways": 2}, {"level": "L2", "size_bytes": 8192, "ways": 4}],
}
L1, L2 = PLAIN["hierarchy"]
TLB = [{"level": "DTLB", "entries": 4, "ways": 4}, {"level": "STLB", "entries": 16, "ways": 4}]


def _machine(name, l1=None, l2=None, **more):
    return {"name": name, "hierarchy": [{**L1, **(l1 or {})}, {**L2, **(l2 or {})}], **more}


@pytest.fixture
def stream():
    random = np.random.default_rng(1)
    addresses = (random.integers(0, 1 << 15, 20_000) * 8).astype(np.uint64)
    return {
        "addresses": addresses,
        "writes": random.random(20_000) < 0.3,
        "blocks": random.integers(0, 3, 20_000).astype(np.uint32),
    }


def test_a_machine_with_a_tlb_has_the_same_caches_and_rows_for_its_pages(stream, tmp_path):
    rates = simulate_arrays(**stream, machines=[PLAIN, _machine("paged", tlb=TLB)])
    assert [level["misses"] for level in rates.totals("paged")] == [level["misses"] for level in rates.totals("plain")]
    dtlb, stlb = rates.tlb_totals("paged")
    assert (dtlb["level"], dtlb["accesses"], stlb["accesses"]) == ("DTLB", 20_000, dtlb["misses"])
    assert 0 < stlb["misses"] < dtlb["misses"]
    assert rates.tlb_totals("plain") == []
    rates.save(tmp_path / "a.hits.parquet")
    assert HitRates.load(tmp_path / "a.hits.parquet").tlb_totals("paged") == [dtlb, stlb]


def test_larger_pages_miss_less(stream):
    tlb = [*TLB, {"level": "DTLB", "entries": 4, "ways": 4, "page_bytes": 1 << 21}]
    rates = simulate_arrays(**stream, machines=[_machine("4k", tlb=tlb), _machine("2m", tlb=tlb, page_bytes=1 << 21)])
    assert rates.tlb_totals("2m")[0]["misses"] == 1 < rates.tlb_totals("4k")[0]["misses"]


def test_causes_add_up_and_change_no_count(stream):
    plain = simulate_arrays(**stream, machines=PLAIN)
    caused = simulate_arrays(**stream, machines=PLAIN, details=Details(causes=True))
    assert caused.table.select(COLUMNS).equals(plain.table.select(COLUMNS))
    for level in caused.totals("plain"):
        assert level["compulsory"] + level["capacity"] + level["conflict"] == level["misses"]
        assert level["compulsory"] == len(np.unique(stream["addresses"] >> np.uint64(6)))


def test_counts_that_a_machine_does_not_have_are_null(stream):
    rates = simulate_arrays(**stream, machines=[PLAIN, _machine("through", l1={"write": "through"})])
    assert "writes_through" not in rates.totals("plain")[0]
    totals = rates.totals("through")
    assert totals[0]["writes_through"] == int(stream["writes"].sum())
    assert totals[1]["accesses"] == totals[0]["fetches"] + totals[0]["writes_through"]
    assert totals[0]["write_backs"] == 0


def test_a_next_line_prefetcher_makes_a_walk_hit_and_its_use_is_counted():
    walk = np.arange(0, 1 << 16, 8, dtype=np.uint64)
    rates = simulate_arrays(walk, machines=_machine("next", l1={"prefetcher": {"kind": "next-line"}}))
    l1, l2 = rates.totals("next")
    assert (l1["misses"], l1["useful_prefetches"], l1["prefetches"]) == (1, 1023, 1024)
    assert l2["accesses"] == 1
    assert l1["bytes_read"] == 1025 * 64


@pytest.mark.parametrize(("kind", "step"), [("stride", 320), ("stride", -200), ("stream", 64), ("stream", -64)])
def test_the_other_prefetchers_learn_what_they_are_made_for(kind, step):
    walk = (np.int64(1 << 20) + np.arange(200, dtype=np.int64) * step).astype(np.uint64)
    machine = _machine("m", l1={"size_bytes": 4096, "prefetcher": {"kind": kind, "degree": 2}})
    (l1, _) = simulate_arrays(walk, machines=machine).totals("m")
    assert l1["misses"] <= 6
    assert l1["useful_prefetches"] >= 0.9 * (l1["prefetches"] - 4)


def test_semantics_without_write_backs_have_none(stream):
    rates = simulate_arrays(**stream, machines=[PLAIN, _machine("reads", semantics="no-write-backs")])
    assert [level["write_backs"] for level in rates.totals("reads")] == [0, 0]
    assert rates.totals("reads")[0]["misses"] == rates.totals("plain")[0]["misses"]
    assert rates.totals("reads")[1]["misses"] != rates.totals("plain")[1]["misses"]


def test_threads_change_nothing(stream):
    machines = [PLAIN, _machine("inclusive", l2={"inclusion": "inclusive"})]
    one, two = (simulate_arrays(**stream, machines=machines, jobs=jobs) for jobs in (1, 2))
    assert one.table.equals(two.table)

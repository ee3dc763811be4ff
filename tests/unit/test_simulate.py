"""Known answers and refusals of the simulator."""

from __future__ import annotations

import resource
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from convolver._native.simulator import Geometry, Simulator
from convolver._native.sinks import Decoded, Sinks
from convolver.errors import ChecksumError, HierarchyError, SchemaError, SimulationError, UsageError
from convolver.machine.hierarchy import Level
from convolver.progress import SILENT
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.one_pass import simulate, simulate_arrays

ONE_LINE = {"name": "tiny", "hierarchy": [{"level": "L1", "size_bytes": 64, "ways": 1}]}
TWO_LEVELS = [Level(level="L1", size_bytes=128, ways=2), Level(level="L2", size_bytes=64 * 8, ways=8)]


def lines(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.uint64) * np.uint64(64)


def totals(rates: HitRates, machine: str = "machine-1") -> list[tuple[int, ...]]:
    return [(t["accesses"], t["hits"], t["misses"], t["write_backs"]) for t in rates.totals(machine)]


def test_a_line_is_hit_while_it_stays():
    assert totals(simulate_arrays(lines(0, 0, 1, 0), machines=ONE_LINE), "tiny") == [(4, 1, 3, 0)]


def test_the_least_recently_used_line_leaves():
    rates = simulate_arrays(lines(0, 1, 0, 2, 0, 1), machines=[TWO_LEVELS[0]])
    assert totals(rates) == [(6, 2, 4, 0)]


def test_a_dirty_line_that_leaves_is_written_to_the_next_level_without_an_access_there():
    rates = simulate_arrays(lines(0, 1, 2), writes=np.array([True, False, False]), machines=TWO_LEVELS)
    assert totals(rates) == [(3, 0, 3, 1), (3, 0, 3, 0)]


def test_a_write_back_is_charged_to_the_block_that_pushed_the_line_out():
    blocks = np.array([7, 8, 9], dtype=np.uint32)
    rates = simulate_arrays(lines(0, 1, 2), writes=np.array([True, False, False]), blocks=blocks, machines=TWO_LEVELS)
    assert rates.table.filter(pl.col("write_backs") > 0).select("block", "level").rows() == [(9, "L1")]


def test_a_reference_over_a_line_end_touches_both_lines():
    address, size = np.array([60], dtype=np.uint64), np.array([8], dtype=np.uint8)
    assert totals(simulate_arrays(address, sizes=size, machines=TWO_LEVELS)) == [(2, 0, 2, 0), (2, 0, 2, 0)]


def test_a_huge_reference_touches_every_line_of_it():
    sizes = np.full(3000, 65535, dtype=np.uint16)
    rates = simulate_arrays(
        np.zeros(3000, dtype=np.uint64), sizes=sizes, machines=[Level(level="L1", size_bytes=1 << 20, ways=16)]
    )
    assert totals(rates) == [(3000 * 1024, 2999 * 1024, 1024, 0)]


def test_nothing_to_simulate_gives_an_empty_table():
    rates = simulate_arrays(np.empty(0, dtype=np.uint64), machines=ONE_LINE)
    assert rates.table.height == 0
    assert totals(rates, "tiny") == [(0, 0, 0, 0)]


def test_large_block_numbers_are_kept():
    blocks = np.array([2**32 - 1, 5, 2**32 - 1], dtype=np.uint32)
    rates = simulate_arrays(lines(0, 1, 2), blocks=blocks, machines=ONE_LINE)
    assert rates.table.select("block", "accesses").rows() == [(5, 1), (2**32 - 1, 2)]


def test_machines_with_one_hierarchy_get_the_same_rows():
    twin = {**ONE_LINE, "name": "twin"}
    table = simulate_arrays(lines(0, 0, 1), machines=[ONE_LINE, twin]).table
    assert (
        table.filter(pl.col("machine") == "tiny")
        .drop("machine")
        .equals(table.filter(pl.col("machine") == "twin").drop("machine"))
    )


def test_sites_of_a_trace_are_folded_into_blocks():
    def feed(sinks: Sinks, progress=SILENT) -> Decoded:
        (simulator,) = sinks.windows
        simulator.feed(lines(0, 0, 1), owners=np.array([0, 2, 1], dtype=np.uint32))
        return Decoded(np.array([4, 6, 4, 9], dtype=np.uint32))

    trace = SimpleNamespace(id="t", header={}, feed=feed)
    rates = simulate(trace, ONE_LINE)
    assert rates.table.select("block", "accesses", "hits").rows() == [(4, 2, 1), (6, 1, 0)]
    assert rates.inputs == {"trace": "t"}


def test_a_saved_file_comes_back_equal(tmp_path):
    rates = simulate_arrays(lines(0, 1, 0), machines=[ONE_LINE, {**ONE_LINE, "name": "twin"}])
    rates.save(tmp_path / "a.hits.parquet")
    loaded = HitRates.load(tmp_path / "a.hits.parquet")
    assert loaded.table.equals(rates.table)
    assert loaded.header == rates.header
    assert loaded.summary() == rates.summary()


def test_a_changed_file_is_refused(tmp_path):
    rates = simulate_arrays(lines(0, 1, 0), machines=ONE_LINE)
    forged = HitRates(rates.table.with_columns(hits=pl.col("misses"), misses=pl.col("hits")), rates.header)
    forged.save(tmp_path / "a.hits.parquet")
    with pytest.raises(ChecksumError, match="changed after it was written"):
        HitRates.load(tmp_path / "a.hits.parquet")


def test_a_table_without_its_columns_is_refused():
    with pytest.raises(SchemaError, match="accesses"):
        HitRates(pl.DataFrame({"block": pl.Series([1], dtype=pl.UInt32), "machine": ["m"], "level": ["L1"]}), {})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"addresses": [1, 2]}, "numpy array"),
        ({"addresses": np.zeros(4, dtype=np.int64)}, "type int64"),
        ({"addresses": np.zeros(4, dtype=">u8")}, "type >u8"),
        ({"addresses": np.zeros((2, 2), dtype=np.uint64)}, "shape"),
        ({"addresses": np.zeros(8, dtype=np.uint64)[::2]}, "strided"),
        ({"addresses": lines(1, 2), "writes": np.zeros(3, dtype=bool)}, "2 elements"),
        ({"addresses": lines(1, 2), "writes": np.zeros(2, dtype=np.uint8)}, "bool"),
        ({"addresses": lines(1, 2), "sizes": np.zeros(2, dtype=np.uint8)}, "at least one byte"),
        ({"addresses": lines(1, 2), "sizes": np.ones(2, dtype=np.int32)}, "uint16"),
        ({"addresses": lines(1, 2), "blocks": np.ones(2, dtype=np.int64)}, "uint32"),
    ],
)
def test_wrong_arrays_are_refused(arguments, words):
    with pytest.raises(SimulationError, match=words):
        simulate_arrays(**arguments, machines=ONE_LINE)


@pytest.mark.parametrize(
    ("machines", "error"),
    [
        ([], UsageError),
        ([ONE_LINE, ONE_LINE], UsageError),
        (3.5, TypeError),
        ([3.5], UsageError),
        ({"name": "x", "hierarchy": []}, HierarchyError),
        ({"name": "x", "hierarchy": [{"level": "L1", "size_bytes": 65, "ways": 1}]}, HierarchyError),
        ({"name": "x", "hierarchy": [{"level": "L1", "size_bytes": 64, "ways": 1, "policy": "clairvoyant"}]}, HierarchyError),
        ({"name": "x", "hierarchy": [{"level": "L1", "size_bytes": 1 << 40, "ways": 8}]}, HierarchyError),
        ({"name": "x", "hierarchy": [{"level": "L1", "size_bytes": 192, "ways": 3, "policy": "tree-plru"}]}, HierarchyError),
    ],
)
def test_wrong_machines_are_refused(machines, error):
    with pytest.raises(error):
        simulate_arrays(lines(0), machines=machines)


def test_an_unsimulated_machine_has_no_totals():
    with pytest.raises(UsageError, match="was not simulated"):
        simulate_arrays(lines(0), machines=ONE_LINE).totals("other")


def test_first_in_first_out_forgets_a_line_that_is_in_use():
    levels = [Level(level="L1", size_bytes=128, ways=2, policy=policy) for policy in ("lru", "fifo")]
    misses = [totals(simulate_arrays(lines(0, 1, 0, 2, 0), machines=[level]))[0][2] for level in levels]
    assert misses == [3, 4]


def test_memory_does_not_grow_with_the_length_of_the_stream():
    levels = [Level(level="L1", size_bytes=48 << 10, ways=12), Level(level="L2", size_bytes=2 << 20, ways=16)]
    simulator = Simulator([[Geometry(level.sets, level.ways, level.line_bytes) for level in levels]])
    random = np.random.default_rng(5)
    resident = []
    for rounds in (2, 20):
        for _ in range(rounds):
            address = random.integers(0, 1 << 24, 1 << 17).astype(np.uint64)
            simulator.feed(address, None, None, (address % np.uint64(1000)).astype(np.uint32))
        resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize())
    assert resident[1] - resident[0] < 20 << 17  # a byte of each reference


def test_lines_too_far_for_short_tags_are_distinguished_before_farther_ones_come():
    near = lines(5, 5 + (1 << 31))  # equal in the 31 bits of a short tag
    addresses = np.concatenate([np.tile(near, 4000), np.array([0x7F00_0000_0000], dtype=np.uint64)])
    assert totals(simulate_arrays(addresses, machines=[Level(level="L1", size_bytes=128, ways=2)])) == [(8001, 7998, 3, 0)]
